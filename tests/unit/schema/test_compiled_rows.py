"""The functions of the compiled core for rows return what the Python functions return."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.schema import Column, Kind, Table
from gapless.schema.digest import digest, reference_digest
from gapless.schema.native import compiled
from gapless.sinks.postgres import copying
from gapless.sinks.sqlite.rows import columns_with_values, reference_tuples, to_tuples
from tests.unit.schema.drawn_rows import Row, arrow, tables_with_rows

with_core = pytest.mark.skipif(
    compiled("digest") is None, reason="the compiled core is not installed"
)


@st.composite
def parts(draw: st.DrawFn) -> tuple[Table, pa.Table]:
    """Some of the rows that were drawn, as one or several chunks."""
    drawn: tuple[Table, list[Row]] = draw(tables_with_rows)
    table, rows = drawn
    whole = arrow(table, rows)
    part = whole.slice(draw(st.integers(0, len(rows) - 1)))
    if draw(st.booleans()):
        part = pa.concat_tables([part.slice(at, 1) for at in range(len(part))])
    return table, part


@with_core
@given(parts())
def test_both_digests_are_equal(drawn: tuple[Table, pa.Table]) -> None:
    table, rows = drawn
    assert digest(table, rows) == reference_digest(table, rows)


@with_core
@given(parts(), st.integers(1, 4))
def test_both_give_sqlite_the_same_values(drawn: tuple[Table, pa.Table], at_once: int) -> None:
    table, rows = drawn
    columns = columns_with_values(table, rows)
    rows = rows.slice(0, len(rows) - len(rows) % at_once)
    found = [*to_tuples(columns, rows, at_once)]
    expected = [*reference_tuples(columns, rows, at_once)]
    assert found == expected
    assert [[type(it) for it in each] for each in found] == [
        [type(it) for it in each] for each in expected
    ]


@with_core
@given(parts(), st.binary(max_size=32))
def test_both_give_postgresql_the_same_fields(drawn: tuple[Table, pa.Table], number: bytes) -> None:
    table, rows = drawn
    rows = with_number(table, rows, number.rjust(32, b"\0"))
    columns = copying.columns_with_values(table, rows)
    found = fields(columns, copying._piece(columns, rows))
    assert found == fields(columns, copying.reference_piece(columns, rows))
    assert len(found) == rows.num_rows * len(columns)


def with_number(table: Table, rows: pa.Table, number: bytes) -> pa.Table:
    """The rows with this number in the first row of each column of such numbers."""
    for at, field in enumerate(rows.schema):
        if table[field.name].kind is Kind.U256:
            values = [number, *rows[field.name].to_pylist()[1:]]
            rows = rows.set_column(at, field, pa.array(values, field.type))
    return rows


def fields(columns: list[Column], encoded: bytes) -> list[bytes | int | None]:
    """The fields of all rows; a `numeric` as a number, whatever its leading zeros."""
    found, at = list[bytes | int | None](), 0
    while at < len(encoded):
        assert int.from_bytes(encoded[at : at + 2], "big") == len(columns)
        at += 2
        for column in columns:
            (length,) = struct.unpack_from(">i", encoded, at)
            value = encoded[at + 4 : at + 4 + max(length, 0)] if length >= 0 else None
            at += 4 + max(length, 0)
            is_number = value is not None and column.kind is Kind.U256
            found.append(numeric(value) if is_number and value is not None else value)
    return found


def numeric(field: bytes) -> int:
    count, weight, sign, scale, *digits = struct.unpack(f">{len(field) // 2}h", field)
    assert (len(digits), weight, sign, scale) == (count, count - 1, 0, 0)
    return int("".join(f"{digit:04}" for digit in digits))


def test_the_environment_can_rule_the_core_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAPLESS_NATIVE", " Off")
    assert compiled("digest") is None


def test_a_core_without_a_function_is_not_used_for_it() -> None:
    assert compiled("no_such_function") is None
