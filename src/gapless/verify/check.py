"""A range of a sink, looked through from end to end.

Complete means: every height is recorded; every recorded row is there, once; every block stands on
the one before; and every table has as many rows as the blocks promise. Deep means that the rows are
those that were written, to the last byte: each record's digest is computed again.

A sink may be written to meanwhile, so rows can be newer than the records they are held against.
What is found where records have changed is looked at again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from gapless.core.ranges import RangeSet, Span
from gapless.schema import BLOCKS, TABLES, Table, table
from gapless.schema.digest import MODULUS, digest
from gapless.sinks import Sink, Stored
from gapless.sinks.admission import first_not_ascending
from gapless.sinks.records import overlap
from gapless.sinks.sink import HIGHEST
from gapless.verify.report import Coverage, Finding, Report, joined
from gapless.verify.tally import Tally
from gapless.verify.windows import (
    COLUMNS,
    COUNTS,
    blocks_findings,
    count_findings,
    last_block,
    numbers,
    runs,
)

_WINDOW = 5000  # blocks of which a few numbers are looked at
_LOOKS = 4  # at heights that keep changing
_DEEP_WINDOW = 250  # blocks of which everything is, unless the sink keeps more together


async def verify(
    sink: Sink, chain_id: int, span: Span | None = None, *, deep: bool = False
) -> Report | None:
    """What is wrong with a range, or with all that is stored; None if that is nothing at all."""
    return await _verified(sink, chain_id, span, deep, _LOOKS)


async def _verified(
    sink: Sink, chain_id: int, span: Span | None, deep: bool, looks: int
) -> Report | None:
    records = await sink.stored(chain_id)
    whole = span or _extent(records)
    if whole is None:
        return None
    coverage = tuple(_coverage(records, whole, explicit=span is not None))
    covered = {each.dataset: each.heights for each in coverage}
    rows: Counter[str] = Counter()
    findings = [it async for it in _shallow(sink, chain_id, whole, records, covered, rows)]
    coverage = tuple(replace(each, rows=rows[each.dataset]) for each in coverage)
    if span is None:
        findings += [it async for it in _strays_beyond(sink, chain_id, whole)]
    if deep:
        findings += [it async for it in _deep(sink, chain_id, whole, records)]
    if findings and looks > 1:
        changed = RangeSet(it.span for it in {*records} ^ {*await sink.stored(chain_id)})
        doubtful = [it for it in joined(findings) if _beside(it.span) & changed]
        findings = [it for it in findings if not _beside(it.span) & changed]
        for each in doubtful:
            around = _beside(each.span).spans[0]
            again = await _verified(sink, chain_id, around, deep, looks - 1)
            findings += again.findings if again else ()
    return Report(chain_id, whole, coverage, tuple(joined(findings)), deep)


def _beside(span: Span) -> RangeSet:
    """A finding's heights, and the one before, to which the first is linked."""
    return RangeSet.of((max(span.first - 1, 0), span.last))


async def missing(sink: Sink, chain_id: int, span: Span | None = None) -> RangeSet:
    """The heights of a range, or between the lowest and the highest, that a table lacks."""
    records = await sink.stored(chain_id)
    whole = span or _extent(records)
    if whole is None:
        return RangeSet()
    coverage = _coverage(records, whole, explicit=span is not None)
    return RangeSet(gap for each in coverage for gap in each.gaps.spans)


def _extent(records: Sequence[Stored]) -> Span | None:
    if not records:
        return None
    return Span(min(it.span.first for it in records), max(it.span.last for it in records))


def _coverage(records: Sequence[Stored], whole: Span, *, explicit: bool) -> Iterator[Coverage]:
    """What there is of each table. Of which range, is asked or else what the table spans: headers
    may well go further than the rest."""
    for each in TABLES:
        of_table = [it for it in records if it.dataset == each.name]
        if not of_table and each.name != BLOCKS.name:
            continue
        extent = whole if explicit else _extent(of_table) or whole
        inside = [it for it in of_table if overlap(it.span, extent)]
        heights = _heights(inside) & RangeSet.of(extent)
        proven, unproven = ({}, {}) if not inside else _proofs(inside, extent)
        yield Coverage(
            dataset=each.name,
            heights=heights,
            gaps=RangeSet.of(extent) - heights,
            proven=proven,
            unproven=unproven,
        )


def _proofs(
    records: Sequence[Stored], extent: Span
) -> tuple[dict[str, RangeSet], dict[str, RangeSet]]:
    """Where which checks held, and where they were asked for in vain."""

    def where(of: Callable[[Stored], frozenset[str]]) -> dict[str, RangeSet]:
        checks = sorted({check for it in records for check in of(it)})
        return {
            check: _heights([it for it in records if check in of(it)]) & RangeSet.of(extent)
            for check in checks
        }

    return where(lambda it: it.proven), where(lambda it: it.unproven)


def _heights(records: Sequence[Stored]) -> RangeSet:
    return RangeSet(it.span for it in records)


async def _shallow(
    sink: Sink,
    chain_id: int,
    whole: Span,
    records: Sequence[Stored],
    covered: dict[str, RangeSet],
    rows: Counter[str],
) -> AsyncIterator[Finding]:
    """What is wrong by heights, hashes and numbers of rows; these are counted on the way."""
    before = None
    tallies = {name: Tally([it for it in records if it.dataset == name]) for name in COUNTS}
    wrong: set[str] = set()
    for window in whole.windows(_WINDOW):
        blocks = await sink.read(BLOCKS, chain_id, window, COLUMNS)
        rows[BLOCKS.name] += blocks.num_rows
        within = RangeSet.of(window)
        findings = [*blocks_findings(blocks, covered[BLOCKS.name] & within, before)]
        for dataset in COUNTS:
            counts = await sink.counts(table(dataset), chain_id, window)
            here = covered.get(dataset, RangeSet()) & within
            findings += count_findings(dataset, blocks, counts, here)
            tallies[dataset].add(window, counts)
            rows[dataset] += int(numbers(counts["rows"]).sum())
        for finding in findings:
            wrong.add(finding.dataset)
            yield finding
        before = last_block(blocks) or before
    for dataset in COUNTS.keys() - wrong:  # otherwise it is known already, and more exactly
        for finding in tallies[dataset].findings(whole):
            yield finding


async def _strays_beyond(sink: Sink, chain_id: int, whole: Span) -> AsyncIterator[Finding]:
    """Rows below and above all that is recorded."""
    for outside in (RangeSet.of((0, HIGHEST)) - RangeSet.of(whole)).spans:
        for each in TABLES:
            counts = await sink.counts(each, chain_id, outside)
            for span in runs(numbers(counts["block_number"])).spans:
                yield Finding("stray", each.name, span, "there, but not recorded as stored")


async def _deep(
    sink: Sink, chain_id: int, whole: Span, records: Sequence[Stored]
) -> AsyncIterator[Finding]:
    """Records whose rows are not those that were written; always whole records."""
    for record in records:
        if overlap(record.span, whole) is None:
            continue
        total = 0
        for window in record.span.windows(sink.grid or _DEEP_WINDOW):
            rows = await sink.read(table(record.dataset), chain_id, window)
            if (height := _out_of_order(table(record.dataset), rows)) is not None:
                words = "a key is there more than once"
                yield Finding("duplicate", record.dataset, Span(height, height), words)
            total += digest(table(record.dataset), rows)
        if total % MODULUS != record.digest:
            words = "other rows than those that were written"
            yield Finding("digest", record.dataset, record.span, words)


def _out_of_order(table: Table, rows: pa.Table) -> int | None:
    if not rows.num_rows:
        return None
    at = first_not_ascending([rows[name].to_numpy() for name in table.key])
    return None if at is None else int(rows["block_number"][at].as_py())
