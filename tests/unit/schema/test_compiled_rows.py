"""The functions of the compiled core for rows return what the Python functions return."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.schema import Table
from gapless.schema.digest import digest, reference_digest
from gapless.schema.native import compiled
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


def test_the_environment_can_rule_the_core_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAPLESS_NATIVE", " Off")
    assert compiled("digest") is None


def test_a_core_without_a_function_is_not_used_for_it() -> None:
    assert compiled("no_such_function") is None
