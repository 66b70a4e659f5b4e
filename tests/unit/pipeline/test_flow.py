"""The flow of one run, over a chain that may change and a sink that may refuse."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pytest

from gapless.chains.evm.tables import BLOCKS
from gapless.core.errors import (
    BrokenSeam,
    FencedOff,
    PermanentError,
    StopRequested,
    TransientError,
    Unavailable,
)
from gapless.core.proof import Proof
from gapless.core.ranges import RangeSet, Span
from gapless.pipeline.flow import Flow, Sizes
from gapless.pipeline.stop import StopSignal
from gapless.pipeline.unit import Unit
from gapless.schema import Table
from gapless.schema.arrow import Tables
from gapless.sinks import Batch

ANY = Span(0, 10**9)


def hash_of(branch: int, height: int) -> bytes:
    return bytes.fromhex(f"{branch:02x}{height + 1:062x}")


@dataclass
class Chain:
    """Each block has the number of its branch; a fork changes those from a height on."""

    forks: list[tuple[int, int]] = field(default_factory=lambda: [(-1, 0)])
    unit: int = 10
    chain_id: int = 7
    anchor: Table = BLOCKS
    reorg_depth: int = 16
    fetched: list[Span] = field(default_factory=list)
    fails_at: int | None = None
    keys_from: int | None = None
    keeping: bool = False

    def branch(self, height: int) -> int:
        return max(branch for first, branch in self.forks if first <= height)

    def hash(self, height: int) -> bytes:
        return hash_of(self.branch(height), height)

    async def fetch(self, span: Span, edges: Collection[int] = ()) -> Unit:
        self.fetched.append(span)
        assert span.first >= 0
        hashes = [self.hash(height) for height in range(span.first, span.last + 1)]
        parents = [self.hash(height - 1) for height in range(span.first, span.last + 1)]
        await asyncio.sleep(0)
        if self.fails_at is not None and span.first <= self.fails_at <= span.last:
            raise Unavailable("no endpoint answers")
        samples = {height for height in edges if span.first <= height <= span.last}
        if self.keys_from is not None and any(height >= self.keys_from for height in samples):
            self.keeping = True
        rows = pa.table(
            {
                "block_number": pa.array(range(span.first, span.last + 1), pa.uint64()),
                "hash": pa.array(hashes, pa.binary(32)),
                "parent_hash": pa.array(parents, pa.binary(32)),
            }
        )
        return Unit(
            span,
            Tables({"blocks": rows}),
            hashes,
            parents,
            Proof(),
            self.keeping,
            max(samples, default=None),
        )

    async def hashes(self, span: Span) -> dict[int, bytes]:
        return {height: self.hash(height) for height in range(span.first, span.last + 1)}


class MemorySink:
    """What the flow needs of a sink; the real sinks have their own tests."""

    id = "memory"

    def __init__(self, grid: int | None = None) -> None:
        self.rows: dict[int, tuple[bytes, bytes]] = {}  # hash and parent
        self.writes: list[Batch] = []
        self.batch_blocks = self.grid = grid
        self.newer = RangeSet()

    async def write(self, batch: Batch, fence: int) -> None:
        await asyncio.sleep(0)
        if taken := RangeSet.of(batch.span) & self.newer:
            raise FencedOff("a newer run was here", stored=taken)
        rows = batch.tables["blocks"]
        heights = range(batch.span.first, batch.span.last + 1)
        assert rows["block_number"].to_pylist() == list(heights)
        pairs = list(zip(rows["hash"].to_pylist(), rows["parent_hash"].to_pylist(), strict=True))
        below, above = self.rows.get(heights[0] - 1), self.rows.get(heights[-1] + 1)
        if below is not None and below[0] != pairs[0][1]:
            raise BrokenSeam("another branch below", height=heights[0] - 1)
        if above is not None and above[1] != pairs[-1][0]:
            raise BrokenSeam("another branch above", height=heights[-1] + 1)
        self.writes.append(batch)
        self.rows |= dict(zip(heights, pairs, strict=True))

    async def read(
        self, table: Table, chain_id: int, span: Span, columns: Collection[str] | None = None
    ) -> pa.Table:
        found = sorted(h for h in self.rows if span.first <= h <= span.last)
        return pa.table(
            {
                "block_number": pa.array(found, pa.uint64()),
                "hash": pa.array([self.rows[h][0] for h in found], pa.binary(32)),
            }
        )


def flow(chain: Chain, sink: MemorySink, sizes: Sizes | None = None) -> tuple[Flow, list[Span]]:
    reported: list[Span] = []

    async def report(span: Span) -> None:
        reported.append(span)

    return Flow(chain, sink, 1, report, never(), sizes or Sizes(batch_blocks=50)), reported


def never() -> StopSignal:
    return StopSignal(asyncio.get_running_loop().create_future())


def stored(sink: MemorySink, chain: Chain) -> bool:
    """Whether the stored blocks are the current chain."""
    return all(value[0] == chain.hash(height) for height, value in sink.rows.items())


async def test_every_block_is_written_once_in_order_in_batches() -> None:
    chain = Chain()
    sink = MemorySink()
    run, reported = flow(chain, sink)
    await run.run(Span(5, 204))
    assert [batch.span for batch in sink.writes] == [(5, 54), (55, 104), (105, 154), (155, 204)]
    assert reported == [batch.span for batch in sink.writes]
    assert sorted(sink.rows) == list(range(5, 205))


async def test_fetched_blocks_are_unwritten_until_stored() -> None:
    chain, seen = Chain(), list[int]()

    async def report(span: Span) -> None:
        came = sum(each.size for each in chain.fetched)
        assert 0 <= run.unwritten <= came - (span.last + 1)
        seen.append(run.unwritten)

    run = Flow(chain, MemorySink(), 1, report, never(), Sizes(batch_blocks=50))
    await run.run(Span(0, 499))
    assert max(seen) >= 50
    assert seen[-1] == run.unwritten == 0


async def test_batches_end_at_the_grid() -> None:
    chain = Chain()
    sink = MemorySink(grid=64)
    run, reported = flow(chain, sink)
    await run.run(Span(10, 150))
    assert reported == [(10, 63), (64, 127), (128, 150)]


async def test_large_rows_end_a_batch_earlier() -> None:
    chain = Chain()
    sink = MemorySink()
    run, reported = flow(chain, sink, Sizes(batch_blocks=50, batch_bytes=1))
    await run.run(Span(0, 49))
    assert [span.size for span in reported] == [10] * 5


async def test_blocks_before_an_error_are_stored_and_reported() -> None:
    chain = Chain(fails_at=77)
    sink = MemorySink()
    run, reported = flow(chain, sink)
    with pytest.raises(Unavailable):
        await run.run(Span(0, 199))
    assert reported == [(0, 49), (50, 69)]
    assert len(asyncio.all_tasks()) == 1


class Hanging(Chain):
    """Answers nothing from a height on, and requests a stop when asked for that height."""

    def __init__(self, height: int, request: asyncio.Future[None]) -> None:
        super().__init__()
        self._height, self._request = height, request

    async def fetch(self, span: Span, edges: Collection[int] = ()) -> Unit:
        unit = await super().fetch(span, edges)
        if span.last >= self._height:
            if not self._request.done():
                self._request.set_result(None)
            await asyncio.Event().wait()
        return unit


@pytest.mark.parametrize("grid", [None, 1000])
async def test_a_stop_stores_what_arrived_even_if_the_batch_is_not_full(grid: int | None) -> None:
    request = asyncio.get_running_loop().create_future()
    sink, reported = MemorySink(grid), list[Span]()

    async def report(span: Span) -> None:
        reported.append(span)

    sizes = Sizes(batch_blocks=1000)
    run = Flow(Hanging(70, request), sink, 1, report, StopSignal(request, 0.01), sizes)
    with pytest.raises(StopRequested):
        await run.run(Span(0, 999))
    assert reported == [(0, 69)]
    assert sorted(sink.rows) == list(range(70))
    assert len(asyncio.all_tasks()) == 1


async def test_a_run_that_must_stop_requests_nothing() -> None:
    request = asyncio.get_running_loop().create_future()
    request.set_result(None)
    chain = Chain()
    run = Flow(chain, MemorySink(), 1, lambda _: asyncio.sleep(0), StopSignal(request))
    with pytest.raises(StopRequested):
        await run.run(Span(0, 999))
    assert chain.fetched == []


async def test_a_stop_ends_the_run_after_a_durable_batch() -> None:
    chain = Chain()
    sink = MemorySink()

    async def stop(span: Span) -> None:
        raise StopRequested

    with pytest.raises(StopRequested):
        await Flow(chain, sink, 1, stop, never(), Sizes(batch_blocks=50)).run(Span(0, 999))
    assert len(sink.writes) <= 2
    assert len(asyncio.all_tasks()) == 1


async def test_a_block_that_does_not_link_is_requested_again() -> None:
    class Flickering(Chain):
        """One unit belongs to another branch the first time."""

        async def fetch(self, span: Span, edges: Collection[int] = ()) -> Unit:
            unit = await super().fetch(span, edges)
            if self.fetched.count(span) == 1 and span.first == 60:
                return replace(unit, parents=[b"\xff", *unit.parents[1:]])
            return unit

    chain = Flickering()
    sink = MemorySink()
    run, _ = flow(chain, sink)
    await run.run(Span(0, 199))
    assert sorted(sink.rows) == list(range(200))
    assert run.unwritten == 0


async def test_a_chain_that_never_links_is_abandoned() -> None:
    class Torn(Chain):
        async def fetch(self, span: Span, edges: Collection[int] = ()) -> Unit:
            unit = await super().fetch(span, edges)
            return replace(unit, parents=[b"\xff"] * len(unit.parents))

    chain = Torn()
    run, _ = flow(chain, MemorySink())
    with pytest.raises(TransientError, match="keeps changing"):
        await run.run(Span(0, 49))


async def test_a_reorganisation_below_rewrites_what_is_stored() -> None:
    chain = Chain()
    sink = MemorySink()
    await flow(chain, sink)[0].run(Span(0, 99))
    chain.forks.append((92, 1))
    await flow(chain, sink)[0].run(Span(100, 199))
    assert sorted(sink.rows) == list(range(200))
    assert stored(sink, chain)


async def test_a_reorganisation_above_rewrites_what_is_stored() -> None:
    chain = Chain()
    sink = MemorySink()
    await flow(chain, sink)[0].run(Span(100, 109))
    chain.forks.append((95, 1))
    await flow(chain, sink)[0].run(Span(0, 99))
    assert sorted(sink.rows) == list(range(110))
    assert stored(sink, chain)


async def test_a_reorganisation_that_is_too_deep_is_reported() -> None:
    chain = Chain()
    sink = MemorySink()
    await flow(chain, sink)[0].run(Span(0, 99))
    chain.forks.append((50, 1))
    with pytest.raises(PermanentError, match="more than 16 blocks"):
        await flow(chain, sink)[0].run(Span(100, 199))


async def test_blocks_stored_by_a_newer_run_are_done() -> None:
    chain = Chain()
    sink = MemorySink()
    sink.newer = RangeSet.of((20, 29), (60, 99))
    run, reported = flow(chain, sink)
    await run.run(Span(0, 99))
    assert [batch.span for batch in sink.writes] == [(0, 19), (30, 49), (50, 59)]
    assert reported == [(0, 49), (50, 99)]


async def test_blocks_retracted_by_a_newer_run_are_retried_later() -> None:
    class Retracted(MemorySink):
        async def write(self, batch: Batch, fence: int) -> None:
            raise FencedOff("a newer run retracted it", stored=RangeSet())

    chain = Chain()
    run, reported = flow(chain, Retracted())
    with pytest.raises(TransientError, match="will be retried"):
        await run.run(Span(0, 99))
    assert reported == []


async def test_blocks_that_must_be_replaced_do_not_count_as_done_by_a_newer_run() -> None:
    sink = MemorySink()
    sink.newer = RangeSet.of((0, 49))
    run, reported = flow(Chain(), sink, sizes=Sizes(batch_blocks=50, replaces=True))
    with pytest.raises(TransientError, match="a newer run was here; it will be retried"):
        await run.run(Span(0, 99))
    assert reported == []


async def test_going_back_skips_nothing_that_is_not_written_yet() -> None:
    chain = Chain(keys_from=20)
    sink = MemorySink()
    run, reported = flow(chain, sink)
    await run.run(Span(0, 29))
    assert sorted(sink.rows) == list(range(30))
    assert reported == [(0, 29)]


async def test_unknown_keys_take_the_run_back_to_the_last_full_sample() -> None:
    chain = Chain(keys_from=80)
    sink = MemorySink()
    run, _ = flow(chain, sink, Sizes(batch_blocks=50, ahead=lambda: 1))
    await run.run(Span(0, 99))
    assert chain.keeping
    asked = Counter(height for span in chain.fetched for height in range(span.first, span.last + 1))
    assert asked == Counter([0, *range(1, 100), *range(1, 100)])
