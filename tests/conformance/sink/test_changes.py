"""A change is there if and only if its rows are, in the order of the commits."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

import pytest

from gapless.chains.opening import open_sink
from gapless.core.errors import ChangesPruned, FencedOff, SinkUnusable
from gapless.core.ranges import Span
from gapless.schema.arrow import Tables
from gapless.sinks import Access, Change, ChangeReader, Request, Sink
from tests.conformance.sink.stage import (
    CHAIN_ID,
    HEAD,
    HEADERS,
    batch,
    held,
    rows_of,
    with_column,
)
from tests.conformance.sink.writer import writer

ALICE, BOB = "alice", "bob"


def hashes(first: int, last: int, branch: int = 0) -> dict[int, bytes]:
    rows = rows_of("blocks", Span(first, last), branch)
    return dict(zip(range(first, last + 1), rows["hash"].to_pylist(), strict=True))


def told(changes: list[Change]) -> list[tuple[int, int, int, bool]]:
    """First, last and fence of each change, and whether it is a retraction."""
    return [(*it.span, it.fence, it.retracted) for it in changes]


async def test_a_change_says_what_was_stored(sink: Sink) -> None:
    start = await sink.add_change_reader(CHAIN_ID, ALICE)
    await sink.write(batch(0, 3), 5)
    await sink.write(batch(4, 4), 6)
    assert await sink.changes(CHAIN_ID, start) == [
        Change(start + 1, CHAIN_ID, Span(0, 3), 5, retracted=False, new=hashes(0, 3)),
        Change(start + 2, CHAIN_ID, Span(4, 4), 6, retracted=False, new=hashes(4, 4)),
    ]
    assert told(await sink.changes(CHAIN_ID, start, limit=1)) == [(0, 3, 5, False)]
    assert told(await sink.changes(CHAIN_ID, start + 1)) == [(4, 4, 6, False)]
    assert await sink.changes(CHAIN_ID, start + 2) == []


async def test_a_change_says_what_was_removed(sink: Sink) -> None:
    await sink.write(batch(15, 22), 5)
    start = await sink.add_change_reader(CHAIN_ID, ALICE)
    await sink.retract(CHAIN_ID, Span(21, 30), 6)
    await sink.write(batch(19, 23, branch=1), 7)
    removed, replaced = await sink.changes(CHAIN_ID, start)
    assert told([removed, replaced]) == [(21, 30, 6, True), (19, 23, 7, False)]
    assert (removed.old, removed.new) == (hashes(21, 22), {})
    assert replaced.old == hashes(20, 20), "block 19 is the same on both branches"
    assert replaced.new == hashes(19, 23, branch=1)


async def test_final_blocks_have_no_hashes(sink: Sink) -> None:
    start = await sink.add_change_reader(CHAIN_ID, ALICE)
    await sink.request(CHAIN_ID, Request(Span(0, 20), frozenset(HEADERS)))
    await sink.write(batch(10, 19), 5)
    await sink.write(batch(20, 22), 6)
    await sink.retract(CHAIN_ID, Span(18, 22), 7)
    final, partly, removed = await sink.changes(CHAIN_ID, start)
    assert (final.old, final.new) == ({}, {})
    assert (partly.old, partly.new) == ({}, hashes(21, 22))
    assert (removed.old, removed.new) == (hashes(21, 22), {})


async def test_what_changes_nothing_is_no_change(sink: Sink) -> None:
    await sink.write(batch(0, 9, tables=HEADERS), 5)
    start = await sink.add_change_reader(CHAIN_ID, ALICE)
    await sink.write(batch(0, 9, tables=HEADERS), 5)  # the reply was lost
    await sink.write(batch(2, 4, tables=HEADERS), 6)  # the same blocks under a higher fence
    await sink.retract(CHAIN_ID, Span(20, 30), 7)
    await sink.endorse(CHAIN_ID, await sink.stored(CHAIN_ID), frozenset({"hash"}), frozenset(), 7)
    await sink.fold(CHAIN_ID, 10)
    await sink.finish()
    with pytest.raises(FencedOff):
        await sink.write(batch(0, 9), 4)
    with pytest.raises(FencedOff):
        await sink.retract(CHAIN_ID, Span(2, 4), 5)
    with pytest.raises(ValueError, match="rows for"):
        await sink.write(replace(batch(10, 12), span=Span(10, 13)), 8)
    assert await sink.changes(CHAIN_ID, start) == []
    await sink.write(batch(0, 9), 8)  # with more tables
    assert told(await sink.changes(CHAIN_ID, start)) == [(0, 9, 8, False)]


async def test_nothing_is_recorded_unless_somebody_reads(sink: Sink) -> None:
    await sink.write(batch(0, 3), 5)
    assert await sink.change_readers(CHAIN_ID) == {}
    assert await sink.changes(CHAIN_ID, 0) == []
    start = await sink.add_change_reader(CHAIN_ID, ALICE)
    assert await sink.changes(CHAIN_ID, start) == []
    with pytest.raises(ChangesPruned, match="after position 0"):
        await sink.changes(CHAIN_ID, 0)
    await sink.remove_change_reader(CHAIN_ID, ALICE)
    await sink.write(batch(4, 7), 6)
    assert await sink.change_readers(CHAIN_ID) == {}
    again = await sink.add_change_reader(CHAIN_ID, ALICE)
    assert again > start
    with pytest.raises(ChangesPruned):
        await sink.changes(CHAIN_ID, start)  # blocks were stored that nobody recorded
    assert await sink.changes(CHAIN_ID, again) == []


async def test_chains_have_feeds_of_their_own(sink: Sink) -> None:
    given = batch(0, 3)
    tables = {name: with_column(rows, "chain_id", 5) for name, rows in given.tables.items()}
    start = await sink.add_change_reader(CHAIN_ID, ALICE)
    await sink.write(replace(given, chain_id=5, tables=Tables(tables)), 3)
    await sink.write(given, 4)
    assert told(await sink.changes(CHAIN_ID, start)) == [(0, 3, 4, False)]
    assert await sink.changes(5, 0) == []
    assert await sink.change_readers(5) == {}


async def test_changes_are_kept_for_the_slowest_reader(sink: Sink, other: Sink) -> None:
    alice = await sink.add_change_reader(CHAIN_ID, ALICE)
    await sink.write(batch(0, 3), 5)
    bob = await other.add_change_reader(CHAIN_ID, BOB)
    await sink.write(batch(4, 7), 6)
    await sink.write(batch(8, 9), 7)
    assert await other.change_readers(CHAIN_ID) == {
        ALICE: ChangeReader(alice, unread=3),
        BOB: ChangeReader(bob, unread=2),
    }
    assert told(await sink.changes(CHAIN_ID, bob)) == [(4, 7, 6, False), (8, 9, 7, False)]
    await sink.acknowledge_changes(CHAIN_ID, BOB, bob + 2)
    assert len(await sink.changes(CHAIN_ID, alice)) == 3
    await sink.acknowledge_changes(CHAIN_ID, ALICE, alice + 2)
    await sink.acknowledge_changes(CHAIN_ID, ALICE, alice)  # late: nothing comes back
    assert await sink.change_readers(CHAIN_ID) == {
        ALICE: ChangeReader(alice + 2, unread=1),
        BOB: ChangeReader(bob + 2, unread=0),
    }
    assert told(await other.changes(CHAIN_ID, alice + 2)) == [(8, 9, 7, False)]
    with pytest.raises(ChangesPruned):
        await sink.changes(CHAIN_ID, alice)
    assert await sink.add_change_reader(CHAIN_ID, ALICE) == alice + 2
    await sink.remove_change_reader(CHAIN_ID, ALICE)
    with pytest.raises(ChangesPruned):
        await sink.changes(CHAIN_ID, alice + 2)
    assert await sink.changes(CHAIN_ID, bob + 2) == []


async def test_a_reader_cannot_acknowledge_what_is_not_there(sink: Sink) -> None:
    with pytest.raises(SinkUnusable, match="`alice` is not registered"):
        await sink.acknowledge_changes(CHAIN_ID, ALICE, 0)
    start = await sink.add_change_reader(CHAIN_ID, ALICE)
    with pytest.raises(ValueError, match="no change has position"):
        await sink.acknowledge_changes(CHAIN_ID, ALICE, start + 1)


async def test_changes_survive_reopening(sink: Sink, target: str) -> None:
    start = await sink.add_change_reader(CHAIN_ID, ALICE)
    await sink.write(batch(0, 3), 5)
    before = await sink.changes(CHAIN_ID, start)
    async with await open_sink(target, Access.READ) as again:
        assert await again.change_readers(CHAIN_ID) == {ALICE: ChangeReader(start, unread=1)}
        assert await again.changes(CHAIN_ID, start) == before


async def replayed(sink: Sink, after: int, stored: set[int]) -> set[int]:
    """The heights that a reader believes to be stored; checks that no position is skipped."""
    found = await sink.changes(CHAIN_ID, after)
    assert [it.position for it in found] == [*range(after + 1, after + 1 + len(found))]
    for change in found:
        heights = {*range(change.span.first, change.span.last + 1)}
        stored = stored - heights if change.retracted else stored | heights
    return stored


async def heights_of(sink: Sink) -> set[int]:
    return {*(await held(sink, "blocks"))["block_number"].to_pylist()}


async def test_a_killed_writer_leaves_a_change_for_each_commit(target: str) -> None:
    """Whenever a writer dies, the feed tells exactly what is stored."""
    async with await open_sink(target) as sink:
        start = await sink.add_change_reader(CHAIN_ID, ALICE)
    chance = random.Random(11)
    for death in range(3 if target.endswith(".duckdb") else 6):
        with writer(target, 40 + death) as killed:
            assert killed.said() == "open"
            killed.said()
            killed.die(within=chance.random() * 0.03)  # usually in the middle of a change
        async with await open_sink(target, Access.READ) as sink:
            assert await replayed(sink, start, set()) == await heights_of(sink)


async def test_a_new_reader_misses_nothing(sink: Sink, other: Sink) -> None:
    """What is not in the rows when a reader has registered is in the changes after that."""

    async def write(offset: int) -> None:
        for height in range(offset, HEAD, 3):
            await sink.write(batch(height, height), 5)

    writing = asyncio.gather(*map(write, range(3)))
    seen: list[tuple[int, set[int]]] = []
    for name in "abcdef":
        start = await other.add_change_reader(CHAIN_ID, name)
        seen.append((start, await heights_of(other)))
        now = await heights_of(other)
        assert await replayed(other, *seen[-1]) >= now
    await writing
    for start, before in seen:
        assert await replayed(other, start, before) == {*range(HEAD)} == await heights_of(other)
