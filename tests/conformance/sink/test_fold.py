"""Folding merges the records of neighbours. What is stored, and who may write, stays the same."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import cache
from itertools import count
from pathlib import Path

import pytest

from gapless.chains.evm.decode.structs import parse_block, parse_receipts
from gapless.chains.evm.decode.tables import decode_blocks
from gapless.chains.evm.networks import CUSTOM
from gapless.chains.opening import open_sink
from gapless.core.errors import FencedOff
from gapless.core.ranges import RangeSet, Span
from gapless.devnode import Parameters, simulated
from gapless.schema.arrow import Tables
from gapless.sinks import Batch, Sink, records
from gapless.verification import Verification
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
    within,
)

FOLDING = [kind for kind in ALL if kind != "parquet"]
FOLLOWED = 150
MORE = frozenset({"hash"})


@pytest.fixture(params=FOLDING)
async def folding(request: pytest.FixtureRequest) -> AsyncIterator[Sink]:
    """A sink that can merge records."""
    async with await open_sink(target_of(request, request.param)) as opened:
        yield opened
        await examine(opened)


async def follow(sink: Sink, first: int, last: int) -> None:
    """Writes one block per fence; that of block 0 is 10."""
    for height in range(first, last + 1):
        await sink.write(batch(height, height), 10 + height)


async def test_neighbours_below_a_height_become_one_record(folding: Sink) -> None:
    await follow(folding, 0, 9)
    assert await folding.fold(CHAIN_ID, 8) == 7 * len(EVERYTHING)
    for name in EVERYTHING:
        assert await ranges(folding, name) == [(0, 7, 17), (8, 8, 18), (9, 9, 19)]
        assert (await held(folding, name)).equals(rows_of(name, Span(0, 9)))
    assert await folding.fold(CHAIN_ID, 8) == 0
    assert await folding.highest_fence() == 19


async def test_nothing_that_a_record_says_is_lost(sink: Sink) -> None:
    await follow(sink, 0, 9)
    await sink.write(batch(10, 19, tables=HEADERS), 5)
    before = await sink.stored(CHAIN_ID)
    await sink.fold(CHAIN_ID, 30)
    after = await sink.stored(CHAIN_ID)
    for name in EVERYTHING:
        old, new = ([it for it in each if it.dataset == name] for each in (before, after))
        assert RangeSet(it.span for it in new) == RangeSet(it.span for it in old)
        assert sum(it.rows for it in new) == sum(it.rows for it in old)
    verification = Verification(sink, CHAIN_ID, CUSTOM, {}, deep=True)
    report = await verification.report()
    assert report is not None
    assert not report.findings


async def test_a_writer_that_was_refused_is_refused(sink: Sink) -> None:
    await sink.write(batch(0, 2), 4)
    await sink.write(batch(3, 5), 9)
    await sink.write(batch(6, 8), 7)
    await sink.fold(CHAIN_ID, 9)
    for height in (3, 4, 5):
        with pytest.raises(FencedOff, match="under fence 9"):
            await sink.write(batch(height, height), 8)
    with pytest.raises(FencedOff):
        await sink.retract(CHAIN_ID, Span(6, 8), 6)
    await sink.write(batch(0, 8), 9)


async def test_the_highest_fence_holds_for_the_whole_range(folding: Sink) -> None:
    await folding.write(batch(0, 2), 4)
    await folding.write(batch(3, 5), 9)
    await folding.write(batch(6, 8), 7)
    seen = await folding.stored(CHAIN_ID)
    assert await folding.fold(CHAIN_ID, 9) == 2 * len(EVERYTHING)
    assert await ranges(folding) == [(0, 8, 9)]
    for height in range(9):
        with pytest.raises(FencedOff, match="under fence 9") as refused:
            await folding.write(batch(height, height), 8)
        assert refused.value.stored == RangeSet.of((height, height))
        with pytest.raises(FencedOff, match="under fence 9"):
            await folding.retract(CHAIN_ID, Span(height, height), 8)
    with pytest.raises(FencedOff, match="have changed since"):
        await folding.endorse(CHAIN_ID, seen, MORE, frozenset(), 9)
    await folding.endorse(CHAIN_ID, await folding.stored(CHAIN_ID), MORE, frozenset(), 9)
    await folding.write(batch(4, 4), 9)


async def test_a_part_of_a_folded_range_can_be_replaced(folding: Sink) -> None:
    await follow(folding, 0, 9)
    await folding.fold(CHAIN_ID, 10)
    await folding.write(batch(4, 5), 30)
    assert await ranges(folding, "logs") == [(0, 3, 19), (4, 5, 30), (6, 9, 19)]
    await folding.retract(CHAIN_ID, Span(8, 9), 31)
    assert await folding.fold(CHAIN_ID, 10) == 2 * len(EVERYTHING)
    assert await ranges(folding, "logs") == [(0, 7, 30)]


async def test_heights_to_keep_stay_as_they_are(folding: Sink) -> None:
    await follow(folding, 0, 9)
    await folding.fold(CHAIN_ID, 10, RangeSet.of((3, 4), (8, 8)))
    assert await ranges(folding) == [
        (0, 2, 12),
        (3, 3, 13),
        (4, 4, 14),
        (5, 7, 17),
        (8, 8, 18),
        (9, 9, 19),
    ]
    await folding.write(batch(3, 4), 14)


async def test_other_proofs_and_gaps_stay_apart(folding: Sink) -> None:
    await folding.write(batch(0, 1), 1)
    await folding.write(batch(2, 3), 2)
    await folding.write(batch(4, 5, proven=PROVEN | MORE), 3)
    await folding.write(batch(6, 7, proven=PROVEN | MORE), 4)
    await folding.write(batch(9, 10, proven=PROVEN | MORE), 5)
    await folding.retract(CHAIN_ID, Span(12, 13), 6)
    await folding.retract(CHAIN_ID, Span(14, 15), 7)
    assert await folding.fold(CHAIN_ID, 20) == 2 * len(EVERYTHING)
    assert await ranges(folding) == [(0, 3, 2), (4, 7, 4), (9, 10, 5)]
    await folding.write(batch(12, 13), 6)
    with pytest.raises(FencedOff, match="under fence 7"):
        await folding.write(batch(14, 14), 6)


async def test_other_tables_follow_the_blocks(folding: Sink) -> None:
    """The record of the blocks decides who may write, so no other has a higher fence."""
    await folding.write(batch(0, 4), 5)
    await folding.write(batch(5, 9), 7)
    blocks = [it for it in await folding.stored(CHAIN_ID, Span(0, 4)) if it.dataset == "blocks"]
    await folding.endorse(CHAIN_ID, blocks, MORE, frozenset(), 5)
    assert await folding.fold(CHAIN_ID, 10) == 0
    await folding.endorse(
        CHAIN_ID,
        [it for it in await folding.stored(CHAIN_ID, Span(5, 9)) if it.dataset == "blocks"],
        MORE,
        frozenset(),
        7,
    )
    assert await folding.fold(CHAIN_ID, 10) == len(EVERYTHING)


async def test_each_call_folds_a_limited_number(folding: Sink) -> None:
    await follow(folding, 0, 9)
    for _ in range(4):
        assert await folding.fold(CHAIN_ID, 10, limit=3) == 2 * len(EVERYTHING)
    assert await folding.fold(CHAIN_ID, 10, limit=3) == len(EVERYTHING)
    assert await folding.fold(CHAIN_ID, 10, limit=3) == 0
    assert await ranges(folding) == [(0, 9, 19)]


async def test_an_empty_sink_has_nothing_to_fold(sink: Sink) -> None:
    assert await sink.fold(CHAIN_ID, 0) == 0
    assert await sink.fold(CHAIN_ID, 10**9) == 0
    await sink.write(batch(0, 3), 1)
    assert await sink.fold(CHAIN_ID, 0) == 0
    assert await sink.fold(5, 10) == 0


async def test_files_keep_their_records(tmp_path: Path) -> None:
    async with await open_sink(f"{tmp_path}/blocks/") as sink:
        await follow(sink, 0, 5)
        before = await sink.stored(CHAIN_ID)
        assert await sink.fold(CHAIN_ID, 10) == 0
        assert await sink.stored(CHAIN_ID) == before


async def test_writers_and_folds_at_the_same_time(sink: Sink, other: Sink) -> None:
    """A fold may overtake a writer, which is then refused; what was confirmed is never undone."""
    fences, confirmed = count(1), dict[int, int]()

    async def fold() -> None:
        for below in range(1, 41):
            await other.fold(CHAIN_ID, below, limit=5)

    async def write(offset: int) -> None:
        for height in [*range(offset, 40, 4), *range(offset, 40, 4)]:
            fence = next(fences)
            with suppress(FencedOff):
                await sink.write(batch(height, height), fence)
                confirmed[height] = fence

    await asyncio.gather(fold(), *map(write, range(4)))
    await examine(sink)
    for first, last, fence in await ranges(sink):
        assert fence >= max(confirmed[height] for height in range(first, last + 1))
    await sink.fold(CHAIN_ID, 40)
    for height, fence in confirmed.items():
        with pytest.raises(FencedOff):
            await other.write(batch(height, height), fence - 1)


@cache
def long_chain() -> Tables:
    parameters = Parameters(blocks=FOLLOWED, txs=1, seed=3, chain_id=CHAIN_ID)
    with tempfile.TemporaryDirectory() as folder:
        chain = simulated(parameters, Path(folder))
        heights = range(FOLLOWED)
        blocks = [parse_block(chain.block(height)) for height in heights]
        receipts = [parse_receipts(chain.receipts(height)) for height in heights]
        return decode_blocks(blocks, receipts, CHAIN_ID)


async def test_a_follower_does_not_accumulate_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("blocks", "transactions")
    folded = 50  # so that three folded records need few blocks
    monkeypatch.setattr(records, "FOLDED_BLOCKS", folded)
    most = 0
    async with await open_sink(f"{tmp_path}/followed.db") as sink:
        for height in range(FOLLOWED):
            span = Span(height, height)
            rows = {name: within(long_chain()[name], span) for name in names}
            await sink.write(Batch(CHAIN_ID, span, Tables(rows), PROVEN), height + 1)
            if height % 10 == 9:
                most = max(most, len(await ranges(sink)))
                await sink.fold(CHAIN_ID, height + 1)
        for name in names:
            assert await ranges(sink, name) == [
                (first, first + folded - 1, first + folded) for first in range(0, FOLLOWED, folded)
            ]
            assert (await held(sink, name)).equals(long_chain()[name].combine_chunks())
    assert most <= 10 + FOLLOWED // folded
