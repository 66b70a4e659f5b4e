"""A digest is a sum over blocks, and shows whether rows are the same."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless.chains.evm.tables import LOGS, TRANSACTIONS
from gapless.schema import Column, Kind, Table
from gapless.schema.arrow import arrow_schema
from gapless.schema.digest import MODULUS, digest
from tests.evm import EVERY_TABLE
from tests.unit.schema.drawn_rows import Row, arrow, some_rows, tables_with_rows, values

few = settings(max_examples=25)


@few
@given(tables_with_rows, st.data())
def test_digests_of_ranges_add_up_however_they_are_cut(
    drawn: tuple[Table, list[Row]], data: Any
) -> None:
    table, rows = drawn
    height = data.draw(st.integers(0, 4))
    whole = arrow(table, rows)
    below = sum(row["block_number"] < height for row in rows)
    parts = whole.slice(0, below), whole.slice(below)
    assert digest(table, whole) == sum(digest(table, part) for part in parts) % MODULUS
    in_pieces = pa.concat_tables([whole.slice(at, 1) for at in range(len(rows))])
    assert digest(table, in_pieces) == digest(table, whole)


@few
@given(tables_with_rows, st.data())
def test_a_changed_value_changes_the_digest(drawn: tuple[Table, list[Row]], data: Any) -> None:
    table, rows = drawn
    before = digest(table, arrow(table, rows))
    at = data.draw(st.integers(0, len(rows) - 1))
    column = data.draw(st.sampled_from([it for it in table if it.name not in table.key]))
    changed = data.draw(values(column).filter(lambda value: value != rows[at][column.name]))
    other = [*rows[:at], {**rows[at], column.name: changed}, *rows[at + 1 :]]
    assert digest(table, arrow(table, other)) != before
    assert digest(table, arrow(table, rows)) == before


@few
@given(tables_with_rows, st.data())
def test_a_lost_row_changes_the_digest(drawn: tuple[Table, list[Row]], data: Any) -> None:
    table, rows = drawn
    lost = data.draw(st.integers(0, len(rows) - 1))
    fewer = [*rows[:lost], *rows[lost + 1 :]]
    assert digest(table, arrow(table, fewer)) != digest(table, arrow(table, rows))


@few
@given(some_rows(LOGS, most=4).filter(lambda rows: len(rows) > 1))
def test_swapped_values_change_the_digest(rows: list[Row]) -> None:
    first, second = ({**row, "data": data} for row, data in zip(rows, (b"ab", b"c"), strict=False))
    swapped = [{**first, "data": b"a"}, {**second, "data": b"bc"}, *rows[2:]]
    assert digest(LOGS, arrow(LOGS, [first, second, *rows[2:]])) != digest(
        LOGS, arrow(LOGS, swapped)
    )


@few
@given(some_rows(TRANSACTIONS, most=1), st.sampled_from(["input", "value", "is_system_tx"]))
def test_null_differs_from_zero_and_empty(rows: list[Row], name: str) -> None:
    kind = TRANSACTIONS[name].kind
    zero = {Kind.BYTES: b"", Kind.BOOL: False}.get(kind, bytes(kind.width or 0))
    seen = {
        digest(TRANSACTIONS, arrow(TRANSACTIONS, [{**rows[0], name: it}])) for it in (zero, None)
    }
    assert len(seen) == 2


@pytest.mark.parametrize("table", EVERY_TABLE, ids=lambda it: it.name)
def test_no_rows_add_nothing(table: Table) -> None:
    assert digest(table, arrow_schema(table).empty_table()) == 0


def test_bytes_under_a_null_do_not_count() -> None:
    row: Row = {column.name: None for column in LOGS} | {"chain_id": 7, "block_number": 1}
    row |= {"transaction_index": 0, "log_position": 0, "block_timestamp": 0, "log_index": 0}
    row |= {"transaction_hash": bytes(32), "address": bytes(20), "data": b"x"}
    clean = arrow(LOGS, [row, {**row, "log_position": 1, "topic0": b"\2" * 32, "extra": "{}"}])
    dirty_topic = pa.Array.from_buffers(
        pa.binary(32), 2, [pa.py_buffer(b"\2"), pa.py_buffer(b"\2" * 64)]
    )
    offsets = pa.py_buffer(b"".join(n.to_bytes(4, "little") for n in (0, 2, 4)))
    dirty_extra = pa.Array.from_buffers(
        pa.string(), 2, [pa.py_buffer(b"\2"), offsets, pa.py_buffer(b"zz{}")]
    )
    dirty = clean
    for name, array in (("topic0", dirty_topic), ("extra", dirty_extra)):
        dirty = dirty.set_column(
            clean.schema.get_field_index(name), clean.schema.field(name), array
        )
    assert dirty.equals(clean)
    assert digest(LOGS, dirty) == digest(LOGS, clean)


def _fixed_table(*names: str) -> Table:
    """A table that never changes, even if the tables of the schema do."""
    every = {kind.name.lower(): Column(kind.name.lower(), kind, True, "") for kind in Kind}
    must = [
        Column("chain_id", Kind.INT, False, ""),
        Column("block_number", Kind.INT, False, ""),
        Column("position", Kind.INT, False, ""),
        Column("must", Kind.BYTES, False, ""),
        Column("flag", Kind.BOOL, False, ""),
    ]
    columns = (*must, *(column for name, column in every.items() if name in names))
    return Table("golden", "", ("chain_id", "block_number", "position"), columns)


_GOLDEN = "42278fd8841b20ae24e4776823ebfea9b3f608dbedb0eb0f34d4912a9585c072"
_OLD_KINDS = tuple(kind.name.lower() for kind in Kind if kind is not Kind.TEXT)


def _golden_rows(table: Table) -> pa.Table:
    def value(column: Column, at: int) -> Any:
        if column.nullable and at % 3 == len(column.name) % 3:
            return None
        if column.kind.width is not None:
            return bytes([at % 251]) * column.kind.width
        plain: dict[Kind, Any] = {Kind.BYTES: b"\6" * (at % 5), Kind.FLOAT: at / 2}
        return {**plain, Kind.JSON: f"[{at}]", Kind.BOOL: at % 2 == 0}.get(column.kind, at)

    types = {Kind.FLOAT: pa.float64(), Kind.JSON: pa.string(), Kind.BOOL: pa.bool_()}
    types |= {Kind.INT: pa.uint64(), Kind.BYTES: pa.binary()}
    schema = pa.schema(
        [(it.name, pa.binary(it.kind.width) if it.kind.width else types[it.kind]) for it in table]
    )
    rows = [
        {it.name: value(it, at) for it in table}
        | {"chain_id": 1, "block_number": at // 4, "position": at % 4}
        for at in range(3000)
    ]
    return pa.Table.from_pylist(rows, schema)


def test_the_digest_never_changes() -> None:
    """Digests are stored: computing them in another way would make old sinks look damaged."""
    table = _fixed_table(*_OLD_KINDS)
    assert f"{digest(table, _golden_rows(table)):064x}" == _GOLDEN


def test_text_is_digested_as_its_bytes_are() -> None:
    texts = [None, "", "é", "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t"]

    def one_column(kind: Kind, nullable: bool) -> int:
        columns = (Column("block_number", Kind.INT, False, ""), Column("it", kind, nullable, ""))
        table = Table("texts", "", ("block_number",), columns)
        given = texts if nullable else texts[1:]
        rows = [{"block_number": at, "it": it} for at, it in enumerate(given)]
        return digest(table, arrow(table, rows))

    for nullable in (True, False):
        assert one_column(Kind.TEXT, nullable) == one_column(Kind.JSON, nullable)


def test_a_new_column_does_not_change_old_digests() -> None:
    old, new = _fixed_table("hash", "json"), _fixed_table("int", "hash", "bytes", "json", "bool")
    rows = _golden_rows(old)
    widened = _golden_rows(new)
    for at, field in enumerate(widened.schema):
        given = rows[field.name] if field.name in rows.column_names else pa.nulls(3000, field.type)
        widened = widened.set_column(at, field, given)
    assert digest(new, widened) == digest(old, rows)
