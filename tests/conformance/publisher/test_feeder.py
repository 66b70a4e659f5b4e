"""From the rows of every kind of sink to a stream, whatever came before."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from gapless.chains.evm.tables import TABLES
from gapless.chains.opening import open_sink
from gapless.core.ranges import RangeSet, Span
from gapless.publishers.entries import EntryTables
from gapless.publishers.feeder import Feeder, FeederOptions
from gapless.publishers.rows import StoredBlocks
from gapless.sinks import Request, Sink
from tests.conformance.publisher.consumer import expected, replayed
from tests.conformance.publisher.stage import ModelStage
from tests.conformance.sink.conftest import target_of
from tests.conformance.sink.stage import CHAIN_ID, EVERYTHING, FORK, HEAD, HEADERS, batch, rows_of

ENTRIES = EntryTables.of(TABLES)
DEPTH = 12


@pytest.fixture(params=["sqlite", "postgres", "parquet"])
async def sink(request: pytest.FixtureRequest) -> AsyncIterator[Sink]:
    async with await open_sink(target_of(request, request.param)) as opened:
        yield opened


@pytest.fixture
async def sqlite(request: pytest.FixtureRequest) -> AsyncIterator[Sink]:
    async with await open_sink(target_of(request, "sqlite")) as opened:
        yield opened


@pytest.fixture
def stage() -> ModelStage:
    return ModelStage()


class Feeding:
    """One publisher, from its first turn on."""

    def __init__(self, sink: Sink, stage: ModelStage, start: int | None = None) -> None:
        options = FeederOptions("events", "events", start, DEPTH)
        blocks = StoredBlocks(sink, CHAIN_ID, ENTRIES)
        self.feeder = Feeder(blocks, stage.server.connect("one"), options)

    async def rest(self) -> int:
        """Takes turns until nothing is left to do; returns how many blocks it handled."""
        count = 0
        while done := await self.feeder.turn():
            count += done
        return count


def require(stage: ModelStage, first: int, last: int, branch: int = 0) -> None:
    """A consumer has these blocks of a branch."""
    span = Span(first, last)
    rows = {name: rows_of(name, span, branch) for name in EVERYTHING}
    assert replayed(stage.server.entries) == expected(ENTRIES.outgoing(rows, span))


async def test_what_was_stored_before_is_published(sink: Sink, stage: ModelStage) -> None:
    await sink.write(batch(0, 30), 5)
    feeding = Feeding(sink, stage)
    await feeding.rest()
    require(stage, 0, 30)
    await sink.write(batch(31, HEAD), 6)
    assert await feeding.rest() == HEAD - 30
    require(stage, 0, HEAD)
    assert feeding.feeder.record.complete_to == HEAD
    assert await feeding.rest() == 0


async def test_a_replaced_branch_is_retracted_first(sink: Sink, stage: ModelStage) -> None:
    await sink.write(batch(10, 24), 5)
    feeding = Feeding(sink, stage)
    await feeding.rest()
    await sink.retract(CHAIN_ID, Span(FORK, HEAD), 6)
    assert await feeding.rest() == 24 - FORK + 1
    require(stage, 10, FORK - 1)
    await sink.write(batch(FORK, 26, branch=1), 7)
    await feeding.rest()
    require(stage, 10, 26, branch=1)
    gone = [it.height for it in stage.server.entries if it.kind == "retract"]
    assert gone == [24, 23, 22, 21, 20]


async def test_a_change_that_nobody_told_of_is_found_in_the_rows(
    sqlite: Sink, stage: ModelStage
) -> None:
    await sqlite.write(batch(10, 24), 5)
    await Feeding(sqlite, stage).rest()
    await sqlite.remove_change_reader(CHAIN_ID, "events")
    await sqlite.retract(CHAIN_ID, Span(FORK, HEAD), 6)
    await sqlite.write(batch(FORK, 22, branch=1), 7)
    await Feeding(sqlite, stage).rest()
    require(stage, 10, 22, branch=1)


async def test_a_final_block_can_be_replaced_too(sqlite: Sink, stage: ModelStage) -> None:
    """Nobody knows its hash any more, and a crash must not retract it again."""
    await sqlite.request(CHAIN_ID, Request(Span(0, HEAD), frozenset(EVERYTHING)))
    await sqlite.write(batch(0, HEAD), 5)
    feeding = Feeding(sqlite, stage)
    await feeding.rest()
    await sqlite.retract(CHAIN_ID, Span(3, 4), 6)
    await sqlite.write(batch(3, 4), 7)
    await feeding.rest()
    await Feeding(sqlite, stage).rest()
    require(stage, 0, HEAD)
    gone = [(it.height, it.hash) for it in stage.server.entries if it.kind == "retract"]
    assert gone == [(4, b""), (3, b"")]


async def test_a_flushed_stream_is_filled_again(sqlite: Sink, stage: ModelStage) -> None:
    await sqlite.write(batch(0, 20), 5)
    await Feeding(sqlite, stage).rest()
    stage.server.flush()
    assert await Feeding(sqlite, stage).rest() == 21
    require(stage, 0, 20)


async def test_an_older_copy_is_brought_up_to_date(sqlite: Sink, stage: ModelStage) -> None:
    await sqlite.write(batch(10, 24), 5)
    await Feeding(sqlite, stage).rest()
    older = stage.server.copy()
    await sqlite.retract(CHAIN_ID, Span(FORK, HEAD), 6)
    await sqlite.write(batch(FORK, 23, branch=1), 7)
    await Feeding(sqlite, stage).rest()
    stage.server.restore(older)
    await Feeding(sqlite, stage).rest()
    require(stage, 10, 23, branch=1)


async def test_the_newest_blocks_come_first(sqlite: Sink, stage: ModelStage) -> None:
    await sqlite.write(batch(0, HEAD), 5)
    await Feeding(sqlite, stage).rest()
    order = [it.height for it in stage.server.entries if it.kind == "block"]
    assert order == [*range(HEAD - 19, HEAD + 1), *range(HEAD - 19)]


async def test_it_starts_where_it_is_told(sqlite: Sink, stage: ModelStage) -> None:
    await sqlite.write(batch(0, 20), 5)
    feeding = Feeding(sqlite, stage, start=7)
    await feeding.rest()
    require(stage, 7, 20)
    assert feeding.feeder.record.complete_to == 20
    await Feeding(sqlite, stage, start=3).rest()
    require(stage, 3, 20)


async def test_it_starts_with_the_lowest_wanted_block(sqlite: Sink, stage: ModelStage) -> None:
    await sqlite.request(CHAIN_ID, Request(Span(5, 20), frozenset(EVERYTHING)))
    await sqlite.write(batch(15, 20), 5)
    feeding = Feeding(sqlite, stage)
    await feeding.rest()
    assert (feeding.feeder.record.start, feeding.feeder.record.complete_to) == (5, None)
    await sqlite.write(batch(2, 14), 6)
    await feeding.rest()
    assert (feeding.feeder.record.start, feeding.feeder.record.complete_to) == (2, 20)
    require(stage, 2, 20)


async def test_a_block_without_all_tables_waits(sqlite: Sink, stage: ModelStage) -> None:
    await sqlite.write(batch(0, 9, tables=HEADERS), 5)
    feeding = Feeding(sqlite, stage)
    assert await feeding.rest() == 0
    await sqlite.write(batch(0, 9), 6)
    await feeding.rest()
    require(stage, 0, 9)


async def test_blocks_that_have_expired_are_named(sqlite: Sink, stage: ModelStage) -> None:
    await sqlite.request(CHAIN_ID, Request(Span(0, HEAD), frozenset(EVERYTHING)))
    await sqlite.write(batch(0, 9), 5)
    await sqlite.write(batch(10, 20), 6)
    await Feeding(sqlite, stage).rest()
    assert await sqlite.expire(CHAIN_ID, 10) == 10
    feeding = Feeding(sqlite, stage)
    assert await feeding.rest() == 0
    assert stage.server.letters == {}
    stage.server.flush()
    assert await Feeding(sqlite, stage).rest() == 11
    assert stage.server.letters == {Span(0, 9): "the rows have expired from the sink"}
    assert stage.server.record.heights == RangeSet.of((10, 20))


def test_the_tables_of_an_entry_follow_from_their_description() -> None:
    names = [table.name for table in ENTRIES.all]
    assert names == ["blocks", "transactions", "logs"]


def test_an_entry_has_a_transaction_with_its_events() -> None:
    span = Span(0, HEAD)
    rows = {name: rows_of(name, span) for name in EVERYTHING}
    made = ENTRIES.outgoing(rows, span)
    logs = rows["logs"].to_pylist()
    busy = {(it["block_number"], it["transaction_index"]) for it in logs}
    found = expected(made)
    assert {
        (height, it["transaction_index"]) for height, (_, all_, _) in found.items() for it in all_
    } == busy
    height, (_, entries, summary) = next((at, it) for at, it in found.items() if it[1])
    assert summary["entries"] == len(entries)
    own = [it for it in logs if it["block_number"] == height]
    assert sum(len(each["logs"]) for each in entries) == len(own) == summary["log_count"]
    first = entries[0]["logs"][0]
    assert first["address"] == f"0x{own[0]['address'].hex()}"
    assert first["data"] == f"0x{own[0]['data'].hex()}"
    assert "block_number" not in first, "it is the transaction's"
    assert isinstance(entries[0]["value"], str), "no reader can round it"
    assert all(value is not None for each in entries for value in each.values())
