"""Sinks with an honest chain, and a forger who makes the records fit."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from gapless.chains import Level, network_of_chain
from gapless.chains.evm.tables import BLOCKS
from gapless.chains.opening import open_sink
from gapless.core.ranges import Span
from gapless.schema.arrow import Tables
from gapless.schema.digest import digest
from gapless.sinks import Access, Batch, Request, Sink, Stored
from gapless.verification import Report, Verification
from tests.conformance.sink.stage import within
from tests.conformance.verify.places import Place
from tests.conformance.verify.signed import CHAIN_ID
from tests.evm import EVERY_TABLE, checks_of, table

EVERYTHING = frozenset(each.name for each in EVERY_TABLE)
FENCE = 5


async def fill(
    place: Place,
    chain: Mapping[str, pa.Table],
    level: Level = Level.AUTO,
    chain_id: int = CHAIN_ID,
) -> None:
    """Creates a sink there, with its own methods, that contains the chain."""
    heights = chain[BLOCKS.name]["block_number"]
    span = Span(heights[0].as_py(), heights[-1].as_py())
    async with await open_sink(place.target) as sink:
        await sink.request(chain_id, Request(span, frozenset(chain), frozenset(checks_of(level))))
        await sink.write(Batch(chain_id, span, Tables(chain), frozenset(checks_of(level))), FENCE)


async def look(place: Place, chain_id: int = CHAIN_ID) -> Report:
    async with await open_sink(place.target, Access.READ) as sink:
        network = network_of_chain(chain_id)
        report = await Verification(sink, chain_id, network, {}, deep=True).report()
    assert report is not None
    return report


def cut(records: Sequence[Stored], rows: Mapping[str, pa.Table], size: int) -> Iterator[Stored]:
    """Records of a few blocks each; neighbours differ in their fence, so they stay separate."""
    for record in records:
        for part in record.span.windows(size):
            fence = FENCE + (part.first - record.span.first) // size % 2
            yield refitted(replace(record, span=part, fence=fence), rows)


def refitted(record: Stored, rows: Mapping[str, pa.Table]) -> Stored:
    """The record as it would be if these rows had been written."""
    found, blocks = (within(rows[name], record.span) for name in (record.dataset, BLOCKS.name))
    if blocks.num_rows:
        parent, last = blocks["parent_hash"][0].as_py(), blocks["hash"][-1].as_py()
        record = replace(record, parent_hash=parent, last_hash=last)
    promised = record.span.size if record.dataset == BLOCKS.name else found.num_rows
    return replace(record, rows=promised, digest=digest(table(record.dataset), found))


async def refit(place: Place) -> None:
    """Recomputes the records of a sink from its current rows."""
    async with await open_sink(place.target, Access.READ) as sink:
        records = await sink.stored(CHAIN_ID)
        rows = await _read(sink, {it.dataset for it in records})
    await place.records(lambda found: [refitted(it, rows) for it in found])


async def _read(sink: Sink, names: Collection[str]) -> dict[str, pa.Table]:
    everything = Span(0, 2**40)
    return {name: await sink.read(table(name), CHAIN_ID, everything) for name in names}
