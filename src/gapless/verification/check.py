"""Verify a range of a sink from end to end.

A range is complete if every requested height is recorded in every requested table, every recorded
row is stored once, every block links to the one before, and every table has as many rows as the
blocks declare. A deep verification also reads every row and proves it again (see `deep`).

The sink may be written to at the same time, so rows can be newer than the records that they are
compared with. Where records have changed in the meantime, the findings are checked again.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import pyarrow as pa

from gapless.chains import Level, Network, family_of
from gapless.chains.family import Family
from gapless.core.errors import Damaged
from gapless.core.heights import HIGHEST
from gapless.core.proof import lacking_proofs
from gapless.core.ranges import RangeSet, Span
from gapless.schema import Table
from gapless.sinks import Request, Sink, Stored
from gapless.verification.anchored import anchored, contradictions
from gapless.verification.deep import DeepCheck, Progress
from gapless.verification.edges import Edges, record_findings
from gapless.verification.expected import above, expected, extent
from gapless.verification.report import Coverage, Finding, Report, Reproven, joined
from gapless.verification.row_counts import RowCounts
from gapless.verification.strays import stray_files
from gapless.verification.windows import (
    Last,
    blocks_findings,
    columns,
    count_findings,
    halves,
    last_block,
    numbers,
    runs,
)

_WINDOW = 5000  # blocks whose links and row counts are read at once
_ATTEMPTS = 4  # for heights that keep changing


@dataclass(frozen=True)
class Verification:
    """What to verify, and the hashes that are already known."""

    sink: Sink
    chain_id: int
    network: Network
    anchors: Mapping[int, bytes]  # hashes that are known, by height
    deep: bool = False
    progress: Progress = lambda _: None

    async def report(self, span: Span | None = None) -> Report | None:
        """Verify a range, or everything; return None if nothing is stored or requested."""
        return await self._report(span, _ATTEMPTS)

    async def _report(self, span: Span | None, attempts: int) -> Report | None:
        sink, chain_id, anchor = self.sink, self.chain_id, self._anchor
        everything = await sink.stored(chain_id)
        requests = await sink.requests(chain_id)
        whole = span or extent(everything, requests)
        if whole is None:
            return None
        wanted = expected(self._family.tables, everything, requests, span)
        records = [it for it in everything if not it.expired]
        expired = [it for it in everything if it.expired]
        damage = await sink.damage(chain_id, whole)
        findings = [Finding("damaged", it.dataset, it.span, it.message) for it in damage]
        broken = {
            each.name: RangeSet(it.span for it in damage if it.dataset == each.name)
            for each in self._family.tables
        }
        covered = {
            name: RangeSet(it.span for it in records if it.dataset == name) & RangeSet.of(whole)
            for name in wanted
        }
        here = [it for it in records if it.span.overlap(whole)]
        findings += record_findings(anchor, here, covered)
        rows: Counter[str] = Counter()
        ends = {
            it.span.last + 1: Last(it.span.last, it.last_hash)
            for it in expired
            if it.dataset == anchor.name and it.last_hash
        }
        found = self._shallow(whole, records, {**covered}, broken, rows, ends)
        findings += [it async for it in found]
        elsewhere = RangeSet.of(span or Span(0, HIGHEST)) - _heights(records)
        findings += [it async for it in self._strays_in(elsewhere)]
        if span is None:
            findings += await stray_files(sink, whole)
        reproven: Reproven | None = None
        if self.deep:
            tables, proofs = self._family.tables, self._family.rows
            deep_check = DeepCheck(
                sink, chain_id, self.network, tables, proofs, self.progress, broken
            )
            reproven = await deep_check.run(whole, records)
            findings += deep_check.findings
        findings += await contradictions(
            sink, anchor, chain_id, self.anchors, covered[anchor.name] - broken[anchor.name]
        )
        findings = await self._settled(findings, records, attempts)
        coverage = tuple(_coverage(records, expired, whole, wanted, rows))
        return Report(
            chain_id,
            whole,
            coverage,
            tuple(joined(findings)),
            self._not_proven(records, requests, whole),
            tuple(anchored(anchor, self.anchors, covered[anchor.name], findings)),
            reproven,
            above(requests, covered[anchor.name]),
        )

    async def _settled(
        self, findings: list[Finding], records: Sequence[Stored], attempts: int
    ) -> list[Finding]:
        """Return the findings without those that a concurrent write explains."""
        if not findings or attempts <= 1:
            return findings
        now = [it for it in await self.sink.stored(self.chain_id) if not it.expired]
        changed = RangeSet(it.span for it in {*records} ^ {*now})
        doubtful = [it for it in joined(findings) if _with_block_before(it.span) & changed]
        found = [it for it in findings if not _with_block_before(it.span) & changed]
        for each in doubtful:
            again = await self._report(_with_block_before(each.span).spans[0], attempts - 1)
            found += again.findings if again else ()
        return found

    async def _shallow(
        self,
        whole: Span,
        records: Sequence[Stored],
        covered: Mapping[str, RangeSet],
        broken: Mapping[str, RangeSet],
        rows: Counter[str],
        ends: Mapping[int, Last],
    ) -> AsyncIterator[Finding]:
        """Check heights, hashes and row counts. Add the number of rows to `rows`.

        `ends` has the last block of each expired range, by the height that links to it.
        """
        before, anchor = None, self._anchor
        sound = [it for it in records if not RangeSet.of(it.span) & broken[it.dataset]]
        tallies = {
            name: RowCounts([it for it in sound if it.dataset == name]) for name in anchor.counts
        }
        edges = Edges(anchor, sound)
        wrong: set[str] = set()
        recorded = _heights(records) & RangeSet.of(whole)
        pending = deque(
            window for span in recorded.spans for window in _pieces(span, broken.values())
        )
        while pending:
            window = pending.popleft()
            within = RangeSet.of(window)
            blocks: pa.Table | None = None
            findings: list[Finding] = []
            if not within & broken[anchor.name]:
                try:
                    blocks = await self.sink.read(anchor, self.chain_id, window, columns(anchor))
                except Damaged as error:
                    if window.size > 1:
                        pending.extendleft(reversed(halves(window)))
                        continue
                    span = _record_span(window, anchor, records)
                    findings.append(Finding("damaged", anchor.name, span, str(error)))
            if blocks is not None:
                rows[anchor.name] += blocks.num_rows
                before = ends.get(window.first, before)
                findings += blocks_findings(anchor, blocks, covered[anchor.name] & within, before)
                findings += edges.findings(blocks)
                before = last_block(anchor, blocks) or before
            for dataset in anchor.counts:
                if within & broken[dataset]:
                    continue
                try:
                    counts = await self.sink.counts(self._tables[dataset], self.chain_id, window)
                except Damaged as error:
                    findings.append(Finding("damaged", dataset, error.span, str(error)))
                    continue
                tallies[dataset].add(window, counts)
                rows[dataset] += int(numbers(counts["rows"]).sum())
                if blocks is not None:
                    here = covered.get(dataset, RangeSet()) & within
                    findings += count_findings(anchor, dataset, blocks, counts, here)
            for finding in findings:
                wrong.add(finding.dataset)
                yield finding
        for dataset in (
            anchor.counts.keys() - wrong
        ):  # the others already have more precise findings
            for finding in tallies[dataset].findings(whole):
                yield finding

    async def _strays_in(self, unrecorded: RangeSet) -> AsyncIterator[Finding]:
        """Yield rows at heights that have no record."""
        for outside in unrecorded.spans:
            for each in self._family.tables:
                counts = await self.sink.counts(each, self.chain_id, outside)
                for span in runs(numbers(counts["block_number"])).spans:
                    message = "present, but not recorded as stored"
                    yield Finding("stray", each.name, span, message)

    def _not_proven(
        self, records: Sequence[Stored], requests: Sequence[Request], whole: Span
    ) -> dict[str, RangeSet]:
        """Return the heights that lack a requested check or one of the default level, by check."""
        blocks = [
            it for it in records if it.dataset == self._anchor.name and it.span.overlap(whole)
        ]
        stored = _heights(blocks) & RangeSet.of(whole)
        proven = _where(blocks, whole, lambda it: it.proven)
        found: dict[str, RangeSet] = {}
        for request in requests:
            for check in request.checks:
                here = stored & RangeSet.of(request.span) - proven.get(check, RangeSet())
                if here:
                    found[check] = found.get(check, RangeSet()) | here
        for datasets, heights in self._by_datasets(records, stored).items():
            expected = self._family.level(Level.AUTO, datasets)
            lacking = _where(blocks, whole, partial(_lacking, expected))
            for check, where in lacking.items():
                if here := where & heights:
                    found[check] = found.get(check, RangeSet()) | here
        return dict(sorted(found.items()))

    def _by_datasets(
        self, records: Sequence[Stored], stored: RangeSet
    ) -> dict[frozenset[str], RangeSet]:
        """Return the stored heights, grouped by the set of tables that hold them."""
        found = {frozenset({self._anchor.name}): stored}
        for name in self._anchor.counts:
            held = _heights([it for it in records if it.dataset == name])
            parts = [
                part
                for names, heights in found.items()
                for part in ((names | {name}, heights & held), (names, heights - held))
            ]
            found = {names: heights for names, heights in parts if heights}
        return found

    @property
    def _family(self) -> Family:
        return family_of(self.network)

    @property
    def _anchor(self) -> Table:
        return self._family.tables[0]

    @cached_property
    def _tables(self) -> dict[str, Table]:
        return {table.name: table for table in self._family.tables}


def _record_span(block: Span, anchor: Table, records: Sequence[Stored]) -> Span:
    """Return the span of the record that contains a block."""
    found = (it.span for it in records if it.dataset == anchor.name and it.span.overlap(block))
    return next(found, block)


def _pieces(whole: Span, broken: Iterable[RangeSet]) -> Iterator[Span]:
    """Split a range so that, for each table, every piece is either fully broken or not at all."""
    spans = [span for each in broken for span in (each & RangeSet.of(whole)).spans]
    edges = {it.first for it in spans} | {it.last + 1 for it in spans}
    inner = sorted(edge for edge in edges if whole.first < edge <= whole.last)
    for first, end in zip([whole.first, *inner], [*inner, whole.last + 1], strict=True):
        yield from Span(first, end - 1).windows(_WINDOW)


def _with_block_before(span: Span) -> RangeSet:
    """Return the heights of a finding and the one before, to which the first links."""
    return RangeSet.of((max(span.first - 1, 0), span.last))


def _coverage(
    records: Sequence[Stored],
    expired: Sequence[Stored],
    whole: Span,
    wanted: Mapping[str, RangeSet],
    rows: Counter[str],
) -> Iterator[Coverage]:
    """Yield which heights of each table are stored, have expired, and are wanted."""
    for dataset, heights in wanted.items():
        here = [it for it in records if it.dataset == dataset and it.span.overlap(whole)]
        stored = _heights(here) & RangeSet.of(whole)
        yield Coverage(
            dataset=dataset,
            heights=stored,
            wanted=heights,
            expired=_heights([it for it in expired if it.dataset == dataset]) & RangeSet.of(whole),
            rows=rows[dataset],
            proven=_where(here, whole, lambda it: it.proven),
            unproven=_where(here, whole, lambda it: it.unproven),
        )


def _lacking(expected: frozenset[str], record: Stored) -> frozenset[str]:
    return lacking_proofs(record.proven, record.unproven, expected)


def _where(
    records: Sequence[Stored], whole: Span, of: Callable[[Stored], frozenset[str]]
) -> dict[str, RangeSet]:
    checks = sorted({check for it in records for check in of(it)})
    return {
        check: _heights([it for it in records if check in of(it)]) & RangeSet.of(whole)
        for check in checks
    }


def _heights(records: Sequence[Stored]) -> RangeSet:
    return RangeSet(it.span for it in records)
