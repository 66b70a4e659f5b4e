"""Writing a range replaces it, and `stored` reports it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gapless.chains.evm.tables import BLOCKS, LOGS, TRANSACTIONS
from gapless.chains.opening import open_sink
from gapless.core.errors import FencedOff
from gapless.core.ranges import RangeSet, Span
from gapless.schema.arrow import Tables
from gapless.schema.digest import digest
from gapless.sinks import Access, Sink
from gapless.sinks.threaded import ThreadedSink
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
    with_column,
)
from tests.evm import table


@pytest.mark.parametrize("name", EVERYTHING)
async def test_rows_are_read_as_they_were_written(sink: Sink, name: str) -> None:
    await sink.write(batch(3, 20), 1)
    assert (await held(sink, name)).equals(rows_of(name, Span(3, 20)))
    assert (await held(sink, name, Span(7, 9))).equals(rows_of(name, Span(7, 9)))
    assert (await held(sink, name, Span(30, 40))).num_rows == 0
    last = table(name).columns[-1].name
    some = await sink.read(table(name), CHAIN_ID, Span(3, 20), [last, "block_number"])
    assert some.equals(rows_of(name, Span(3, 20)).select(["block_number", last]))


async def test_numbers_above_2_to_63_are_read_back(sink: Sink) -> None:
    given = batch(5, 6)
    blocks = with_column(given.tables["blocks"], "gas_limit", 2**64 - 1)
    transactions = with_column(given.tables["transactions"], "nonce", 2**63)
    transactions = with_column(transactions, "is_system_tx", True)
    tables = {**given.tables, "blocks": blocks, "transactions": transactions}
    await sink.write(replace(given, tables=Tables(tables)), 1)
    assert (await held(sink, "blocks")).equals(blocks)
    assert (await held(sink, "transactions")).equals(transactions)


async def test_a_record_describes_what_is_stored(sink: Sink) -> None:
    await sink.write(batch(3, 9, tables=["blocks", "transactions"]), 7)
    blocks, transactions = await sink.stored(CHAIN_ID)
    assert (blocks.dataset, transactions.dataset) == ("blocks", "transactions")
    rows = rows_of("transactions", Span(3, 9))
    assert transactions.rows == rows.num_rows > 0
    assert transactions.digest == digest(TRANSACTIONS, rows)
    expected = rows_of("blocks", Span(3, 9))
    for record in (blocks, transactions):
        assert (record.span, record.fence) == ((3, 9), 7)
        assert (record.proven, record.unproven) == (PROVEN, frozenset({"prices"}))
        assert record.parent_hash == expected["parent_hash"][0].as_py()
        assert record.last_hash == expected["hash"][-1].as_py()
    assert await sink.chains() == [CHAIN_ID]
    assert await sink.highest_fence() == 7


async def test_an_empty_sink_has_no_records(sink: Sink) -> None:
    assert await sink.stored(CHAIN_ID) == []
    assert await sink.chains() == []
    assert await sink.highest_fence() == 0
    assert (await held(sink, "logs")).num_rows == 0
    assert (await sink.counts(LOGS, CHAIN_ID, Span(0, 99))).num_rows == 0


async def test_neighbours_with_one_fence_are_one_record(sink: Sink) -> None:
    for first in (0, 8, 4, 12):
        await sink.write(batch(first, first + 3), 5)
    stored = await sink.stored(CHAIN_ID)
    assert [(it.dataset, it.span) for it in stored] == [(name, (0, 15)) for name in EVERYTHING]
    await sink.write(batch(16, 17), 6)
    await sink.write(batch(18, 19, proven=frozenset()), 6)
    assert await ranges(sink, "logs") == [(0, 15, 5), (16, 17, 6), (18, 19, 6)]


async def test_writing_again_replaces(sink: Sink) -> None:
    await sink.write(batch(0, 9), 5)
    before = await sink.stored(CHAIN_ID)
    await sink.write(batch(0, 9), 5)  # the reply was lost
    assert await sink.stored(CHAIN_ID) == before
    await sink.write(batch(3, 5), 6)
    assert await ranges(sink) == [(0, 2, 5), (3, 5, 6), (6, 9, 5)]
    await sink.write(batch(2, 12), 7)
    assert await ranges(sink) == [(0, 1, 5), (2, 12, 7)]
    assert (await held(sink, "logs")).equals(rows_of("logs", Span(0, 12)))


async def test_a_lower_fence_is_refused(sink: Sink) -> None:
    await sink.write(batch(4, 6), 9)
    await sink.write(batch(10, 12, tables=HEADERS), 9)
    await sink.retract(CHAIN_ID, Span(14, 15), 9)
    before = await sink.stored(CHAIN_ID)
    with pytest.raises(FencedOff, match=r"4-6, 10-12, 14-15 .* fence 9, newer than 8") as refused:
        await sink.write(batch(0, 16), 8)
    assert refused.value.stored == RangeSet.of((4, 6))
    with pytest.raises(FencedOff) as refused:
        await sink.write(batch(5, 11, tables=HEADERS), 8)
    assert refused.value.stored == RangeSet.of((5, 6), (10, 11))
    assert await sink.stored(CHAIN_ID) == before
    await sink.write(batch(7, 9), 8)  # between them, nothing was written


async def test_retracted_blocks_are_gone(sink: Sink) -> None:
    await sink.write(batch(0, 19), 5)
    await sink.retract(CHAIN_ID, Span(10, 15), 7)
    assert await ranges(sink) == [(0, 9, 5), (16, 19, 5)]
    assert await sink.highest_fence() == 7
    for name in EVERYTHING:
        assert (await held(sink, name, Span(10, 15))).num_rows == 0
    with pytest.raises(FencedOff) as refused:
        await sink.write(batch(15, 15), 6)
    assert refused.value.stored == RangeSet()
    with pytest.raises(FencedOff):
        await sink.retract(CHAIN_ID, Span(12, 30), 6)
    await sink.retract(CHAIN_ID, Span(12, 30), 7)
    await sink.write(batch(12, 13), 7)
    with pytest.raises(FencedOff):
        await sink.write(batch(14, 14), 6)
    assert await ranges(sink) == [(0, 9, 5), (12, 13, 7)]


async def test_an_empty_range_can_be_retracted(sink: Sink) -> None:
    await sink.retract(CHAIN_ID, Span(0, 9), 3)
    assert await sink.chains() == []
    assert await sink.stored(CHAIN_ID) == []
    with pytest.raises(FencedOff):
        await sink.write(batch(0, 4), 2)


async def test_a_span_is_cut_out_of_the_records(sink: Sink) -> None:
    await sink.write(batch(0, 9), 5)
    await sink.write(batch(10, 19), 6)
    found = await sink.stored(CHAIN_ID, Span(8, 12))
    assert [(it.dataset, it.span) for it in found] == [
        (name, span) for name in EVERYTHING for span in ((8, 9), (10, 12))
    ]
    for record in found:
        rows = rows_of(record.dataset, record.span)
        assert (record.rows, record.digest) == (rows.num_rows, digest(table(record.dataset), rows))
        blocks = rows_of("blocks", record.span)
        assert record.parent_hash == blocks["parent_hash"][0].as_py()
        assert record.last_hash == blocks["hash"][-1].as_py()
    assert await sink.stored(CHAIN_ID, Span(20, 30)) == []


async def test_rows_are_counted_by_block(sink: Sink) -> None:
    await sink.write(batch(2, 20), 5)
    for each in (BLOCKS, TRANSACTIONS, LOGS):
        heights = rows_of(each.name, Span(3, 11))["block_number"].to_pylist()
        counts = await sink.counts(each, CHAIN_ID, Span(3, 11))
        found = dict(zip(*(counts[name].to_pylist() for name in counts.column_names), strict=True))
        assert found == {height: heights.count(height) for height in heights}
        assert counts.column_names == ["block_number", "rows"]


async def test_chains_are_kept_apart(sink: Sink) -> None:
    given = batch(0, 3)
    tables = {name: with_column(rows, "chain_id", 5) for name, rows in given.tables.items()}
    await sink.write(given, 9)
    await sink.write(replace(given, chain_id=5, tables=Tables(tables)), 3)
    assert await sink.chains() == [5, CHAIN_ID]
    await sink.retract(CHAIN_ID, Span(0, 3), 9)
    assert await sink.chains() == [5]
    found = await sink.read(LOGS, 5, Span(0, 3))
    assert found.equals(tables["logs"])
    assert [it.fence for it in await sink.stored(5)] == [3] * 5


async def test_everything_is_there_after_reopening(sink: Sink, target: str) -> None:
    await sink.write(batch(0, 9), 5)
    await sink.retract(CHAIN_ID, Span(8, 9), 6)
    before = await sink.stored(CHAIN_ID)
    await sink.finish()
    await sink.finish()
    async with await open_sink(target, Access.WRITE) as again:
        assert again.id == sink.id
        assert await again.stored(CHAIN_ID) == before
        assert await again.highest_fence() == 6
        with pytest.raises(FencedOff):
            await again.write(batch(9, 9), 5)
        await again.write(batch(8, 12), 6)
    assert await ranges(sink) == [(0, 7, 5), (8, 12, 6)]


async def test_a_cancelled_write_is_complete_or_absent(sink: Sink) -> None:
    writing = asyncio.create_task(sink.write(batch(0, 30), 5))
    await asyncio.sleep(0)  # it has started
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    found = await ranges(sink)
    if isinstance(sink, ThreadedSink) or found:  # a server rolls back what is not committed
        assert found == [(0, 30, 5)]
    await examine(sink)
