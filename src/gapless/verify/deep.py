"""Every row of a range, read once: is it as it was written, and does it prove what its record says?

Digests tell whether rows changed since they were written. But digests are only records, and whoever
changes rows can change records too. So whatever the chain commits to is computed again from the
rows themselves: header hashes, roots, and all columns that follow from others.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import pyarrow as pa

from gapless.checks.levels import Level
from gapless.checks.rows import examine_rows
from gapless.core.errors import Damaged
from gapless.core.ranges import RangeSet, Span
from gapless.networks import Check, Network
from gapless.schema import BLOCKS, TABLES, Table, table
from gapless.schema.digest import MODULUS, digest
from gapless.sinks import Sink, Stored
from gapless.sinks.admission import first_not_ascending
from gapless.sinks.records import overlap
from gapless.verify.report import Finding, Reproven
from gapless.verify.windows import numbers

_WINDOW = 250  # blocks that are read at once, unless the sink keeps more together
_PROOF_WINDOW = 50  # blocks that are restored at once
# Links are looked at anyway; nobody can see from rows that two endpoints agreed.
_ALWAYS = Level.ROOTS.checks - {Check.LINK}

Progress = Callable[[int], None]  # how many more rows have been read


@dataclass
class DeepLook:
    """Reads the records of a range to the last row."""

    sink: Sink
    chain_id: int
    network: Network
    progress: Progress
    findings: list[Finding] = field(default_factory=list)
    _digests: Counter[Stored] = field(default_factory=Counter)
    _broken: set[Stored] = field(default_factory=set)  # records that could not be read to the end
    _proven: dict[str, RangeSet] = field(default_factory=dict)
    _claimed: dict[str, RangeSet] = field(default_factory=dict)

    async def look(self, whole: Span, records: Sequence[Stored]) -> Reproven:
        """Looks at all records that reach into a range, and at all of each of them."""
        wanted = [it for it in records if overlap(it.span, whole)]
        for part, of_part in _parts(wanted):
            for window in part.windows(self.sink.grid or _WINDOW):
                await self._look_at(window, of_part)
        for record in wanted:
            if record not in self._broken and self._digests[record] % MODULUS != record.digest:
                words = "other rows than those that were written"
                self.findings.append(Finding("digest", record.dataset, record.span, words))
        not_again = {
            check: left
            for check, heights in sorted(self._claimed.items())
            if (left := heights - self._proven.get(check, RangeSet()))
        }
        return Reproven(dict(sorted(self._proven.items())), not_again)

    async def _look_at(self, window: Span, records: Mapping[str, Stored]) -> None:
        tables: dict[str, pa.Table] = {}
        for name, record in records.items():
            try:
                rows = await self.sink.read(table(name), self.chain_id, window)
            except Damaged:  # it is told of by name already
                self._broken.add(record)
                continue
            self.progress(rows.num_rows)
            self._digests[record] += digest(table(name), rows)
            if (height := _out_of_order(table(name), rows)) is not None:
                words = "a key is there more than once"
                self.findings.append(Finding("duplicate", name, Span(height, height), words))
                continue
            tables[name] = rows
        if BLOCKS.name in tables:
            for part in window.windows(_PROOF_WINDOW):
                self._prove(part, {it: _cut(rows, part) for it, rows in tables.items()}, records)

    def _prove(
        self, part: Span, tables: Mapping[str, pa.Table], records: Mapping[str, Stored]
    ) -> None:
        if not tables[BLOCKS.name].num_rows:
            return
        claimed = records[BLOCKS.name].proven
        checks = _ALWAYS | (frozenset({Check.SENDERS}) & claimed)
        found = examine_rows(tables, self.network, self.chain_id, checks)
        flawed = RangeSet.from_members(it.height for it in found.flaws)
        for flaw in found.flaws:
            span = Span(flaw.height, flaw.height)
            self.findings.append(Finding("proof", flaw.table, span, flaw.words))
        sound = RangeSet.of(part) - flawed
        for proven in found.proof.proven:
            self._proven[proven] = self._proven.get(proven, RangeSet()) | sound
        for claim in claimed - {Check.LINK}:
            self._claimed[claim] = self._claimed.get(claim, RangeSet()) | sound


def _parts(records: Sequence[Stored]) -> Iterator[tuple[Span, dict[str, Stored]]]:
    """The range in pieces that no record begins or ends within, each with its records."""
    rest = {
        each.name: deque(sorted((it for it in records if it.dataset == each.name), key=_first))
        for each in TABLES
    }
    edges = sorted({it.span.first for it in records} | {it.span.last + 1 for it in records})
    for first, end in pairwise(edges):
        here: dict[str, Stored] = {}
        for name, left in rest.items():
            while left and left[0].span.last < first:
                left.popleft()
            if left and left[0].span.first <= first:
                here[name] = left[0]
        if here:
            yield Span(first, end - 1), here


def _first(record: Stored) -> int:
    return record.span.first


def _cut(rows: pa.Table, part: Span) -> pa.Table:
    heights = numbers(rows["block_number"])
    start, end = heights.searchsorted([part.first, part.last + 1]).tolist()
    return rows.slice(start, end - start)


def _out_of_order(table: Table, rows: pa.Table) -> int | None:
    if not rows.num_rows:
        return None
    at = first_not_ascending([rows[name].to_numpy() for name in table.key])
    return None if at is None else int(rows["block_number"][at].as_py())
