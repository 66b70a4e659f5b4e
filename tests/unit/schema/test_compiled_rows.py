"""The functions of the compiled core for rows return what the Python functions return."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.schema import Column, Kind, Table
from gapless.schema.digest import digest, reference_digest
from gapless.schema.native import installed
from gapless.sinks.sqlite.rows import columns_with_values, reference_tuples, to_tuples
from tests.long_rows import TooLong
from tests.unit.schema.drawn_rows import Row, arrow, tables_with_rows

with_core = pytest.mark.skipif(
    installed().module is None, reason="the compiled core is not installed"
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


def not_utf8(*chunks: list[bytes | None]) -> pa.Table:
    """Rows with texts that may be any bytes, which only Arrow's own functions prevent."""
    arrays = [pa.array(each, pa.binary()) for each in chunks]
    texts = [pa.Array.from_buffers(pa.string(), len(it), it.buffers()) for it in arrays]
    heights = [pa.array([7] * len(each), pa.uint64()) for each in chunks]
    columns = [pa.chunked_array(heights), pa.chunked_array(texts)]
    return pa.table(columns, ["block_number", "note"])


NOTES = Table(
    "notes",
    "notes about blocks",
    key=("block_number",),
    columns=(
        Column("block_number", Kind.INT, nullable=False, doc="height"),
        Column("note", Kind.TEXT, nullable=True, doc="any text"),
    ),
)


@with_core
def test_texts_that_are_not_utf8_are_digested_as_their_bytes() -> None:
    rows = not_utf8([b"\xff\xfe", None, b"a"])
    assert digest(NOTES, rows) == reference_digest(NOTES, rows)
    assert digest(NOTES, rows) != digest(NOTES, not_utf8([b"\xff\xff", None, b"a"]))


@with_core
def test_texts_that_are_not_utf8_are_refused_by_both() -> None:
    rows = not_utf8([b"a\xffb"])
    said = []
    for convert in (to_tuples, reference_tuples):
        with pytest.raises(UnicodeDecodeError) as caught:
            [*convert(NOTES.columns, rows)]
        said.append(str(caught.value))
    assert said[0] == said[1]


class Contradictory:
    """Rows that were exported with the schema of others."""

    def __init__(self, *columns: str) -> None:
        array = pa.array([1], pa.uint64())
        self._schema = pa.record_batch([array] * len(columns), [*columns])
        self._rows = pa.record_batch([array], ["block_number"])

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self._schema.__arrow_c_array__()[0], self._rows.__arrow_c_array__()[1]


@with_core
@pytest.mark.parametrize("name", ["digest", "sqlite_rows", "examine"])
def test_no_failure_of_the_core_escapes_as_anything_but_an_exception(name: str) -> None:
    rows = Contradictory("block_number", "note")
    arguments: dict[str, tuple[object, ...]] = {
        "digest": ("notes", [], rows),
        "sqlite_rows": (rows, 1),
        "examine": ({"blocks": rows}, ("ethereum", 0, 0), 0, [], 1),
    }
    with pytest.raises(RuntimeError, match="the compiled core failed"):
        getattr(installed().module, name)(*arguments[name])


@with_core
@given(parts(), st.integers(1, 4))
def test_rows_too_long_for_one_batch(drawn: tuple[Table, pa.Table], at_once: int) -> None:
    table, rows = drawn
    assert digest(table, TooLong(rows)) == reference_digest(table, rows)
    rows = rows.slice(0, len(rows) - len(rows) % at_once)
    found = [*to_tuples(table.columns, TooLong(rows), at_once)]
    assert found == [*reference_tuples(table.columns, rows, at_once)]
