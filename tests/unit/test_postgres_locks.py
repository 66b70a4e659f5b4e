"""Writers that overlap or touch share a lock, distant ones do not; and the generated DDL."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from gapless.chains.evm.tables import BLOCKS, LOGS, TRANSACTIONS
from gapless.core.ranges import Span
from gapless.schema import F64
from gapless.schema.postgres import PostgresDdl
from gapless.sinks.postgres import locks
from tests.evm import EVERY_TABLE

spans = st.builds(
    lambda first, size: Span(first, first + size - 1),
    st.integers(0, 50_000),
    st.integers(1, 40_000),
)


def alone(span: Span, chain_id: int = 1) -> set[str]:
    """The keys that a writer locks exclusively."""
    return set(re.findall(r"lock\((-?\d+)\)", locks.to_write("sink", chain_id, span)))


def shared(span: Span) -> set[str]:
    return set(re.findall(r"shared\((-?\d+)\)", locks.to_write("sink", 1, span)))


@given(spans, spans)
def test_overlapping_or_adjacent_writers_share_a_lock(one: Span, other: Span) -> None:
    near = one.first <= other.last + 1 and other.first <= one.last + 1
    meet = alone(one) & alone(other) | alone(one) & shared(other) | shared(one) & alone(other)
    assert meet or not near


def test_distant_ranges_and_other_chains_share_no_exclusive_lock() -> None:
    one, far = Span(0, 99), Span(10 * locks.CELL, 10 * locks.CELL + 99)
    assert not alone(one) & alone(far)
    assert not alone(one) & alone(one, chain_id=2)
    assert shared(one) == shared(far) == alone(Span(0, locks.CELL * (locks.MOST_CELLS + 1)))


def test_locks_are_taken_in_order_of_height() -> None:
    cells = [locks.to_write("sink", 1, Span(at, at)) for at in (1, locks.CELL + 1)]
    first, second = (statement.partition("; ")[2] for statement in cells)
    both = locks.to_write("sink", 1, Span(1, locks.CELL + 1))
    assert both.index(first) < both.index(second)


def test_partitions_cover_exactly_the_range() -> None:
    ddl = PostgresDdl("eth", partition=1000)
    found = ddl.partitions(TRANSACTIONS, 1500, 3000)
    assert [(it.name, it.first, it.end) for it in found] == [
        ("transactions_1000", 1000, 2000),
        ("transactions_2000", 2000, 3000),
        ("transactions_3000", 3000, 4000),
    ]
    assert ddl.partitions(BLOCKS, 1500, 3000) == []
    assert PostgresDdl("eth").partitions(TRANSACTIONS, 1500, 3000) == []


def test_a_foreign_key_refers_to_the_nearest_stored_parent() -> None:
    ddl = PostgresDdl('o"dd')
    assert 'REFERENCES "o""dd"."transactions"' in ddl.create_table(LOGS)
    assert 'REFERENCES "o""dd"."blocks"' in ddl.create_table(LOGS, ["blocks", "logs"])
    assert "REFERENCES" not in ddl.create_table(LOGS, ["logs"])
    assert "REFERENCES" not in PostgresDdl("eth", foreign_keys=False).create_table(LOGS)
    assert not any(F64 in ddl.create_table(each) for each in EVERY_TABLE)
