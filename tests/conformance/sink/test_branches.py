"""Stored blocks belong to one branch, and rows of other tables belong to them."""

from __future__ import annotations

import pytest

from gapless.core.errors import BrokenSeam
from gapless.core.ranges import Span
from gapless.sinks import Sink
from tests.conformance.sink.stage import (
    CHAIN_ID,
    EVERYTHING,
    FORK,
    HEADERS,
    batch,
    held,
    ranges,
    rows_of,
)


@pytest.mark.parametrize(
    ("stored", "given", "height"),
    [
        ((20, 24), (25, 26), 24),  # after
        ((25, 30), (22, 24), 25),  # before
        ((20, 30), (22, 24), 21),  # in the middle
    ],
)
async def test_blocks_next_to_another_branch_are_refused(
    sink: Sink, stored: tuple[int, int], given: tuple[int, int], height: int
) -> None:
    await sink.write(batch(*stored), 5)
    before = await sink.stored(CHAIN_ID)
    with pytest.raises(BrokenSeam) as broken:
        await sink.write(batch(*given, branch=1), 6)
    assert broken.value.height == height
    assert await sink.stored(CHAIN_ID) == before


async def test_a_branch_is_replaced_as_a_whole(sink: Sink) -> None:
    await sink.write(batch(15, 30), 5)
    await sink.write(batch(FORK, 30, branch=1), 6)
    assert await ranges(sink, "logs") == [(15, FORK - 1, 5), (FORK, 30, 6)]
    assert (await held(sink, "logs", Span(FORK, 30))).equals(rows_of("logs", Span(FORK, 30), 1))
    await sink.retract(CHAIN_ID, Span(FORK, 30), 7)
    await sink.write(batch(FORK, 25), 8)


async def test_blocks_alone_keep_the_other_tables_of_the_same_blocks(sink: Sink) -> None:
    await sink.write(batch(0, 9), 5)
    await sink.write(batch(5, 12, tables=HEADERS), 6)
    assert await ranges(sink, "blocks") == [(0, 4, 5), (5, 12, 6)]
    for name in ("transactions", "logs", "withdrawals"):
        assert await ranges(sink, name) == [(0, 9, 5)]
        assert (await held(sink, name)).equals(rows_of(name, Span(0, 9)))


async def test_a_known_number_of_logs_stays_known(sink: Sink) -> None:
    await sink.write(batch(0, 9), 5)
    await sink.write(batch(5, 12, tables=HEADERS), 6)
    known = rows_of("blocks", Span(0, 9))["log_count"].to_pylist()
    assert sum(known) > 0
    assert (await held(sink, "blocks"))["log_count"].to_pylist() == [*known, None, None, None]


async def test_blocks_of_another_branch_remove_the_rows_of_all_tables(sink: Sink) -> None:
    await sink.write(batch(18, 24), 5)
    await sink.write(batch(18, 24, branch=1, tables=["blocks", "withdrawals"]), 6)
    assert await ranges(sink, "blocks") == [(18, 24, 6)]
    assert await ranges(sink, "withdrawals") == [(18, 24, 6)]
    for name in ("transactions", "logs"):
        assert await ranges(sink, name) == [(18, FORK - 1, 5)]
        assert (await held(sink, name)).equals(rows_of(name, Span(18, FORK - 1)))
    counts = (await held(sink, "blocks"))["log_count"].to_pylist()
    assert counts[2:] == [None] * 5


async def test_tables_may_be_added_later(sink: Sink) -> None:
    await sink.write(batch(0, 9, tables=HEADERS), 5)
    await sink.write(batch(3, 6), 6)
    assert await ranges(sink, "blocks") == [(0, 2, 5), (3, 6, 6), (7, 9, 5)]
    assert await ranges(sink, "logs") == [(3, 6, 6)]
    assert {it.dataset for it in await sink.stored(CHAIN_ID)} == set(EVERYTHING)
