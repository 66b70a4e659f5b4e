"""A range of a sink, looked through from end to end.

Complete means: every height that was asked for is recorded, in every table that it was asked for;
every recorded row is there, once; every block links to the one before; and every table has as many
rows as the blocks promise. Deep means that every row is read, and proven again (see `deep`).

A sink may be written to meanwhile, so rows can be newer than the records they are held against.
What is found where records have changed is looked at again.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from gapless.checks.levels import Level, lacking_proofs
from gapless.core.errors import Damaged
from gapless.core.heights import HIGHEST
from gapless.core.ranges import RangeSet, Span
from gapless.networks import Check, Network
from gapless.schema import BLOCKS, LOGS, TABLES, TRANSACTIONS, table
from gapless.sinks import Request, Sink, Stored
from gapless.sinks.records import overlap
from gapless.verification.anchored import anchored, contradictions
from gapless.verification.deep import DeepLook, Progress
from gapless.verification.edges import Edges, record_findings
from gapless.verification.expected import expected, extent
from gapless.verification.report import Coverage, Finding, Report, Reproven, joined
from gapless.verification.strays import stray_files
from gapless.verification.tally import Tally
from gapless.verification.windows import (
    COLUMNS,
    COUNTS,
    blocks_findings,
    count_findings,
    halves,
    last_block,
    numbers,
    runs,
)

_WINDOW = 5000  # blocks of which a few numbers are looked at
_LOOKS = 4  # at heights that keep changing
_OF_RECEIPTS = (TRANSACTIONS.name, LOGS.name)  # tables that are made of receipts


@dataclass(frozen=True)
class Verification:
    """What to look at, and what is known beforehand."""

    sink: Sink
    chain_id: int
    network: Network
    anchors: Mapping[int, bytes]  # hashes that are known, by height
    deep: bool = False
    progress: Progress = lambda _: None

    async def report(self, span: Span | None = None) -> Report | None:
        """What is wrong with a range, or with all that was asked for; None: that is nothing."""
        return await self._report(span, _LOOKS)

    async def _report(self, span: Span | None, looks: int) -> Report | None:
        sink, chain_id = self.sink, self.chain_id
        records = await sink.stored(chain_id)
        requests = await sink.requests(chain_id)
        whole = span or extent(records, requests)
        if whole is None:
            return None
        wanted = expected(records, requests, span)
        damage = await sink.damage(chain_id, whole)
        findings = [Finding("damaged", it.dataset, it.span, it.words) for it in damage]
        broken = {
            each.name: RangeSet(it.span for it in damage if it.dataset == each.name)
            for each in TABLES
        }
        covered = {
            name: RangeSet(it.span for it in records if it.dataset == name) & RangeSet.of(whole)
            for name in wanted
        }
        here = [it for it in records if overlap(it.span, whole)]
        findings += record_findings(here, covered)
        rows: Counter[str] = Counter()
        looking = self._shallow(whole, records, {**covered}, broken, rows)
        findings += [it async for it in looking]
        elsewhere = RangeSet.of(span or Span(0, HIGHEST)) - _heights(records)
        findings += [it async for it in self._strays_in(elsewhere)]
        if span is None:
            findings += await stray_files(sink, whole)
        reproven: Reproven | None = None
        if self.deep:
            look = DeepLook(sink, chain_id, self.network, self.progress, broken)
            reproven = await look.look(whole, records)
            findings += look.findings
        findings += await contradictions(
            sink, chain_id, self.anchors, covered[BLOCKS.name] - broken[BLOCKS.name]
        )
        findings = await self._settled(findings, records, looks)
        coverage = tuple(_coverage(records, whole, wanted, rows))
        return Report(
            chain_id,
            whole,
            coverage,
            tuple(joined(findings)),
            _not_proven(records, requests, whole),
            tuple(anchored(self.anchors, covered[BLOCKS.name], findings)),
            reproven,
        )

    async def _settled(
        self, findings: list[Finding], records: Sequence[Stored], looks: int
    ) -> list[Finding]:
        """The findings, without those that somebody's write meanwhile explains."""
        if not findings or looks <= 1:
            return findings
        changed = RangeSet(it.span for it in {*records} ^ {*await self.sink.stored(self.chain_id)})
        doubtful = [it for it in joined(findings) if _beside(it.span) & changed]
        found = [it for it in findings if not _beside(it.span) & changed]
        for each in doubtful:
            again = await self._report(_beside(each.span).spans[0], looks - 1)
            found += again.findings if again else ()
        return found

    async def _shallow(
        self,
        whole: Span,
        records: Sequence[Stored],
        covered: Mapping[str, RangeSet],
        broken: Mapping[str, RangeSet],
        rows: Counter[str],
    ) -> AsyncIterator[Finding]:
        """What is wrong by heights, hashes and numbers of rows; these are counted on the way."""
        before = None
        sound = [it for it in records if not RangeSet.of(it.span) & broken[it.dataset]]
        tallies = {name: Tally([it for it in sound if it.dataset == name]) for name in COUNTS}
        edges = Edges(sound)
        wrong: set[str] = set()
        recorded = _heights(records) & RangeSet.of(whole)
        pending = deque(
            window for span in recorded.spans for window in _windows(span, broken.values())
        )
        while pending:
            window = pending.popleft()
            within = RangeSet.of(window)
            blocks: pa.Table | None = None
            findings: list[Finding] = []
            if not within & broken[BLOCKS.name]:
                try:
                    blocks = await self.sink.read(BLOCKS, self.chain_id, window, COLUMNS)
                except Damaged as error:
                    if window.size > 1:
                        pending.extendleft(reversed(halves(window)))
                        continue
                    span = _recorded_with(window, records)
                    findings.append(Finding("damaged", BLOCKS.name, span, str(error)))
            if blocks is not None:
                rows[BLOCKS.name] += blocks.num_rows
                findings += blocks_findings(blocks, covered[BLOCKS.name] & within, before)
                findings += edges.findings(blocks)
                before = last_block(blocks) or before
            for dataset in COUNTS:
                if within & broken[dataset]:
                    continue
                try:
                    counts = await self.sink.counts(table(dataset), self.chain_id, window)
                except Damaged as error:
                    findings.append(Finding("damaged", dataset, error.span, str(error)))
                    continue
                tallies[dataset].add(window, counts)
                rows[dataset] += int(numbers(counts["rows"]).sum())
                if blocks is not None:
                    here = covered.get(dataset, RangeSet()) & within
                    findings += count_findings(dataset, blocks, counts, here)
            for finding in findings:
                wrong.add(finding.dataset)
                yield finding
        for dataset in COUNTS.keys() - wrong:  # otherwise it is known already, and more exactly
            for finding in tallies[dataset].findings(whole):
                yield finding

    async def _strays_in(self, unrecorded: RangeSet) -> AsyncIterator[Finding]:
        """Rows where no record knows of any."""
        for outside in unrecorded.spans:
            for each in TABLES:
                counts = await self.sink.counts(each, self.chain_id, outside)
                for span in runs(numbers(counts["block_number"])).spans:
                    words = "there, but not recorded as stored"
                    yield Finding("stray", each.name, span, words)


def _recorded_with(block: Span, records: Sequence[Stored]) -> Span:
    """The range that was written together with a block."""
    found = (it.span for it in records if it.dataset == BLOCKS.name and overlap(it.span, block))
    return next(found, block)


def _windows(whole: Span, broken: Iterable[RangeSet]) -> Iterator[Span]:
    """Pieces of a range, none of which is only in part broken, for any table."""
    spans = [span for each in broken for span in (each & RangeSet.of(whole)).spans]
    edges = {it.first for it in spans} | {it.last + 1 for it in spans}
    inner = sorted(edge for edge in edges if whole.first < edge <= whole.last)
    for first, end in zip([whole.first, *inner], [*inner, whole.last + 1], strict=True):
        yield from Span(first, end - 1).windows(_WINDOW)


def _beside(span: Span) -> RangeSet:
    """A finding's heights, and the one before, to which the first is linked."""
    return RangeSet.of((max(span.first - 1, 0), span.last))


def _coverage(
    records: Sequence[Stored], whole: Span, wanted: Mapping[str, RangeSet], rows: Counter[str]
) -> Iterator[Coverage]:
    """What there is of each table, of what there should be."""
    for dataset, heights in wanted.items():
        here = [it for it in records if it.dataset == dataset and overlap(it.span, whole)]
        stored = _heights(here) & RangeSet.of(whole)
        yield Coverage(
            dataset=dataset,
            heights=stored,
            wanted=heights,
            rows=rows[dataset],
            proven=_where(here, whole, lambda it: it.proven),
            unproven=_where(here, whole, lambda it: it.unproven),
        )


def _not_proven(
    records: Sequence[Stored], requests: Sequence[Request], whole: Span
) -> dict[str, RangeSet]:
    """Where which check is lacking that the default level makes, or that was asked for."""
    blocks = [it for it in records if it.dataset == BLOCKS.name and overlap(it.span, whole)]
    of_receipts = _heights([it for it in records if it.dataset in _OF_RECEIPTS])
    stored = _heights(blocks) & RangeSet.of(whole)
    proven = _where(blocks, whole, lambda it: it.proven)
    found: dict[str, RangeSet] = {}
    for request in requests:
        for check in request.checks:
            here = stored & RangeSet.of(request.span) - proven.get(check, RangeSet())
            if here:
                found[check] = found.get(check, RangeSet()) | here
    for receipts in (True, False):
        expected = Level.AUTO.checks_of(receipts=receipts)
        lacking = partial(_lacking, expected)
        for check, heights in _where(blocks, whole, lacking).items():
            here = heights & of_receipts if receipts else heights - of_receipts
            if here:
                found[check] = found.get(check, RangeSet()) | here
    return dict(sorted(found.items()))


def _lacking(expected: frozenset[Check], record: Stored) -> frozenset[str]:
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
