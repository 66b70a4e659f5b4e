"""Real blocks of many chains are read back from every sink unchanged."""

from __future__ import annotations

from functools import cache
from itertools import islice

import msgspec

from gapless.chains import network_of_chain
from gapless.chains.evm.decode.structs import parse_block, parse_receipts
from gapless.chains.evm.decode.tables import decode_blocks
from gapless.core.ranges import Span
from gapless.schema.arrow import Tables
from gapless.schema.digest import digest
from gapless.sinks import Batch, Sink
from gapless.verification import Verification
from tests.conformance.sink.stage import within
from tests.data.recorded import real_blocks, real_chain, with_blocks, with_chains
from tests.evm import EVERY_TABLE


async def assert_kept(sink: Sink, given: Batch) -> None:
    await sink.write(given, 1)
    stored = {it.dataset: it for it in await sink.stored(given.chain_id, given.span)}
    for each in EVERY_TABLE:
        if each.name in given.tables:
            rows = given.tables[each.name].combine_chunks()
            found = await sink.read(each, given.chain_id, given.span)
            assert found.equals(rows), each.name
            assert stored[each.name].digest == digest(each, found)


@cache
def _single_blocks() -> list[Batch]:
    """All except tier D: some of its blocks lack receipts or have a trimmed body."""
    found = []
    for real in (it for it in real_blocks() if it.tier != "D"):
        receipts = real.receipts
        parsed = None if receipts is None else [parse_receipts(msgspec.json.encode(receipts))]
        block = parse_block(msgspec.json.encode(real.block))
        tables = decode_blocks([block], parsed, real.chain_id)
        found.append(Batch(real.chain_id, Span(real.height, real.height), tables))
    return found


@with_blocks
async def test_single_blocks(sink: Sink) -> None:
    for given in _single_blocks():
        await assert_kept(sink, given)
    assert await sink.chains() == sorted({given.chain_id for given in _single_blocks()})


@cache
def _chain(name: str, most: int) -> Tables:
    blocks = [*islice(real_chain(name), most)]
    return decode_blocks(
        [parse_block(block) for block, _ in blocks],
        [parse_receipts(receipts) for _, receipts in blocks],
        1,
    )


@with_chains
async def test_whole_chains(sink: Sink) -> None:
    """One with 600 short blocks; one with a block whose receipts have twenty megabytes."""
    for name, size in (("geth-ethtest-600", 601), ("execution-apis-54", 5)):
        tables = _chain(name, size)
        await sink.retract(1, Span(0, 1000), 1)
        for first in range(0, size, 150):
            span = Span(first, min(first + 150, size) - 1)
            part = {name: within(rows, span) for name, rows in tables.items()}
            await assert_kept(sink, Batch(1, span, Tables(part)))
        report = await Verification(sink, 1, network_of_chain(1), {}, True).report()
        assert report is not None
        assert report.complete
        assert report.span == (0, size - 1)
