"""Expired blocks have no rows, and count as stored."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless.chains.evm.networks import CUSTOM
from gapless.chains.opening import open_sink
from gapless.core.errors import BrokenSeam, FencedOff, SinkUnusable
from gapless.core.ranges import RangeSet, Span
from gapless.sinks import Request, Sink
from gapless.verification import Report, Verification
from tests.conformance.sink.conftest import ALL, target_of
from tests.conformance.sink.stage import (
    CHAIN_ID,
    EVERYTHING,
    HEADERS,
    PROVEN,
    batch,
    examine,
    held,
    ranges,
    rows_of,
)

EXPIRING = [kind for kind in ALL if kind != "parquet"]


@pytest.fixture(params=EXPIRING)
async def spool(request: pytest.FixtureRequest) -> AsyncIterator[Sink]:
    """A sink whose blocks may expire; those up to 30 are final."""
    async with await open_sink(target_of(request, request.param)) as opened:
        await opened.request(CHAIN_ID, Request(Span(0, 30), frozenset(EVERYTHING)))
        yield opened
        await examine(opened)


async def expired(sink: Sink, name: str = "blocks") -> list[tuple[int, int, int]]:
    """First, last and fence of the expired ranges of a table."""
    stored = await sink.stored(CHAIN_ID)
    return [(*it.span, it.fence) for it in stored if it.dataset == name and it.expired]


async def verified(sink: Sink, *, deep: bool = True) -> Report:
    report = await Verification(sink, CHAIN_ID, CUSTOM, {}, deep=deep).report()
    assert report is not None
    return report


async def test_rows_go_and_records_stay(spool: Sink) -> None:
    for first in (0, 5, 10, 15):
        await spool.write(batch(first, first + 4), 10 + first)
    assert await spool.expire(CHAIN_ID, 15) == 15
    assert await spool.expire(CHAIN_ID, 15) == 0
    for name in EVERYTHING:
        assert await expired(spool, name) == [(0, 14, 20)], "one record, with the highest fence"
        assert (await held(spool, name)).equals(rows_of(name, Span(15, 19)))
    assert await spool.highest_fence() == 25
    assert await spool.chains() == [CHAIN_ID]
    (blocks, *_) = await spool.stored(CHAIN_ID)
    assert (blocks.proven, blocks.rows) == (PROVEN, 0)
    assert blocks.last_hash == rows_of("blocks", Span(14, 14))["hash"][0].as_py()


async def test_a_record_expires_as_a_whole(spool: Sink) -> None:
    await spool.write(batch(0, 4), 1)
    await spool.write(batch(5, 9), 2)
    await spool.write(batch(3, 6, tables=HEADERS), 3)  # now the other tables overlap it
    assert await spool.expire(CHAIN_ID, 9) == 0
    await spool.write(batch(10, 12), 4)
    assert await spool.expire(CHAIN_ID, 11) == 10
    assert await expired(spool) == [(0, 9, 3)]
    assert await ranges(spool) == [(0, 9, 3), (10, 12, 4)]


async def test_only_final_blocks_expire(spool: Sink) -> None:
    for height in range(26, 36):
        await spool.write(batch(height, height), 5)
        await spool.write(batch(height, height, proven=frozenset({str(height)})), 5)
    assert await spool.expire(CHAIN_ID, 100) == 4
    assert RangeSet(it[:2] for it in await expired(spool)) == RangeSet.of((26, 29))
    assert (await held(spool, "blocks"))["block_number"].to_pylist() == [*range(30, 36)]


async def test_nothing_is_final_in_a_sink_without_requests(spool: Sink) -> None:
    await spool.withdraw(CHAIN_ID, Span(0, 30))
    await spool.write(batch(0, 9), 5)
    assert await spool.expire(CHAIN_ID, 100) == 0


async def test_changes_that_were_not_read_keep_their_rows(spool: Sink) -> None:
    start = await spool.add_change_reader(CHAIN_ID, "alice")
    for first in (0, 5, 10):
        await spool.write(batch(first, first + 4), 10 + first)
    assert await spool.expire(CHAIN_ID, 15) == 0
    await spool.acknowledge_changes(CHAIN_ID, "alice", start + 2)
    assert await spool.expire(CHAIN_ID, 15) == 10
    await spool.acknowledge_changes(CHAIN_ID, "alice", start + 3)
    assert await spool.expire(CHAIN_ID, 15) == 5
    assert await expired(spool) == [(0, 14, 20)]
    assert await spool.changes(CHAIN_ID, start + 3) == [], "that blocks expire is not a change"


async def test_each_call_expires_a_limited_number(spool: Sink) -> None:
    for first in (0, 5, 10, 15):
        await spool.write(batch(first, first + 4), 10 + first)
    found = [await spool.expire(CHAIN_ID, 20, limit=7) for _ in range(3)]
    assert found == [10, 10, 0]
    assert await expired(spool) == [(0, 19, 25)]


async def test_the_next_block_must_link_to_an_expired_one(spool: Sink) -> None:
    await spool.write(batch(10, 20), 5)
    assert await spool.expire(CHAIN_ID, 25) == 11
    with pytest.raises(BrokenSeam):
        await spool.write(batch(21, 23, branch=1), 6)
    await spool.write(batch(21, 23), 6)
    await spool.write(batch(7, 9), 6)
    assert (await verified(spool)).findings == ()


async def test_an_old_writer_is_refused(spool: Sink) -> None:
    await spool.write(batch(0, 9), 5)
    await spool.expire(CHAIN_ID, 20)
    with pytest.raises(FencedOff, match="under fence 5") as refused:
        await spool.write(batch(2, 4), 4)
    assert refused.value.stored == RangeSet.of((2, 4)), "which need not be written again"
    with pytest.raises(FencedOff):
        await spool.retract(CHAIN_ID, Span(2, 4), 4)


async def test_expired_blocks_can_be_written_again(spool: Sink) -> None:
    await spool.write(batch(0, 9), 5)
    await spool.expire(CHAIN_ID, 20)
    await spool.write(batch(4, 6), 6)
    assert (await held(spool, "logs")).equals(rows_of("logs", Span(4, 6)))
    assert await expired(spool) == [(0, 3, 5), (7, 9, 5)]
    await spool.write(batch(3, 3), 6)
    await spool.write(batch(7, 7), 6)
    await examine(spool)
    assert (await verified(spool)).findings == ()
    assert await spool.expire(CHAIN_ID, 20) == 5
    assert RangeSet(it[:2] for it in await expired(spool)) == RangeSet.of((0, 9))


async def test_other_tables_of_rewritten_blocks_are_missing(spool: Sink) -> None:
    """Nothing shows that the rows that expired belonged to the block that is stored now."""
    await spool.write(batch(0, 9), 5)
    await spool.expire(CHAIN_ID, 20)
    await spool.write(batch(10, 14), 6)
    await spool.write(batch(8, 11, tables=HEADERS), 7)
    assert await expired(spool) == [(0, 7, 5)]
    assert await ranges(spool, "logs") == [(0, 7, 5), (10, 14, 6)]
    assert (await verified(spool)).gaps == RangeSet.of((8, 9), (15, 30))


async def test_expired_blocks_can_be_retracted(spool: Sink) -> None:
    await spool.write(batch(0, 9), 5)
    await spool.expire(CHAIN_ID, 20)
    start = await spool.add_change_reader(CHAIN_ID, "alice")
    await spool.retract(CHAIN_ID, Span(8, 12), 6)
    assert await expired(spool) == [(0, 7, 5)]
    assert await spool.changes(CHAIN_ID, start) == []


async def test_a_part_of_an_expired_range(spool: Sink) -> None:
    await spool.write(batch(0, 9), 5)
    await spool.expire(CHAIN_ID, 20)
    for name in EVERYTHING:
        found = [it for it in await spool.stored(CHAIN_ID, Span(3, 6)) if it.dataset == name]
        assert [(it.span, it.expired, it.rows) for it in found] == [((3, 6), True, 0)]


async def test_expired_blocks_are_held_and_not_missing(spool: Sink) -> None:
    await spool.write(batch(0, 14), 5)
    await spool.write(batch(15, 30), 6)
    await spool.expire(CHAIN_ID, 20)
    for deep in (False, True):
        report = await verified(spool, deep=deep)
        assert report.complete
        assert report.expired == RangeSet.of((0, 14))
        assert {it.heights for it in report.coverage} == {RangeSet.of((15, 30))}
    await spool.retract(CHAIN_ID, Span(20, 22), 7)
    report = await verified(spool)
    assert report.gaps == RangeSet.of((20, 22))
    assert report.expired == RangeSet.of((0, 14))


async def test_folding_leaves_expired_records_apart(spool: Sink) -> None:
    for height in range(10):
        await spool.write(batch(height, height), 10 + height)
    await spool.expire(CHAIN_ID, 5)
    await spool.fold(CHAIN_ID, 10)
    assert await ranges(spool) == [(0, 4, 14), (5, 9, 19)]
    assert await expired(spool) == [(0, 4, 14)]


async def test_expired_records_of_any_length_become_one(spool: Sink) -> None:
    """They are not limited to a cell, because no row of theirs is ever read."""
    for first, last in ((0, 7), (8, 15), (16, 23)):
        await spool.write(batch(first, last), last)
        await spool.expire(CHAIN_ID, 24)
    assert await expired(spool) == [(0, 23, 23)]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["write", "write", "headers", "expire", "expire", "retract", "fold"]),
        st.integers(10, 24),
        st.integers(1, 10),
        st.sampled_from([0, 1]),
    ),
    max_size=15,
)


@settings(max_examples=20, deadline=None)
@given(steps=STEPS)
def test_any_order_of_writes_and_expiries(steps: list[tuple[str, int, int, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_take(steps, f"{folder}/blocks.db"))


async def _take(steps: list[tuple[str, int, int, int]], target: str) -> None:
    """Applies the steps to a sink, and to the sets of heights that it should hold and have lost."""
    live, gone = set[int](), set[int]()
    async with await open_sink(target) as sink:
        await sink.request(CHAIN_ID, Request(Span(0, 20), frozenset(EVERYTHING)))
        for fence, (step, first, size, branch) in enumerate(steps, start=1):
            span = Span(first, first + size - 1)
            heights = {*range(span.first, span.last + 1)}
            if step in ("write", "headers"):
                names = EVERYTHING if step == "write" else HEADERS
                with suppress(BrokenSeam):
                    await sink.write(batch(*span, branch=branch, tables=names), fence)
                    live, gone = live | heights, gone - heights
            elif step == "retract":
                await sink.retract(CHAIN_ID, span, fence)
                live, gone = live - heights, gone - heights
            elif step == "fold":
                await sink.fold(CHAIN_ID, first)
            else:
                count = await sink.expire(CHAIN_ID, first, limit=size)
                now = {at for it in await expired(sink) for at in range(it[0], it[1] + 1)}
                assert now >= gone
                assert now - gone <= {at for at in live if at < min(first, 20)}
                assert len(now - gone) == count
                live, gone = live - now, now
            await examine(sink)
            assert {*(await held(sink, "blocks"))["block_number"].to_pylist()} == live
            records = [it.span for it in await sink.stored(CHAIN_ID) if it.dataset == "blocks"]
            assert {*RangeSet(records)} == live | gone
        assert (await verified(sink)).findings == ()


async def test_files_do_not_expire(tmp_path: Path) -> None:
    async with await open_sink(f"{tmp_path}/blocks/") as sink:
        with pytest.raises(SinkUnusable, match="Parquet files, which are kept"):
            await sink.expire(CHAIN_ID, 10)
