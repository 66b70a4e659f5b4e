"""Read every row of a range once, to check that it is unchanged and proves what its record claims.

Digests show whether rows have changed since they were written. But whoever changes rows can also
change the recorded digests. So everything that the chain commits to is computed again from the
rows: header hashes, roots, and all columns that are derived from others.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from gapless.chains.family import RowProofs
from gapless.chains.network import Network
from gapless.core.errors import Damaged
from gapless.core.proof import LINK
from gapless.core.ranges import RangeSet, Span
from gapless.schema import Table
from gapless.schema.digest import MODULUS, digest
from gapless.sinks import Sink, Stored
from gapless.sinks.admission import ascending
from gapless.verification.report import Finding, Reproven
from gapless.verification.windows import halves, numbers

_WINDOW = 250  # blocks that are read at once, unless the grid of the sink is larger
_PROOF_WINDOW = 50  # blocks that are restored at once

Progress = Callable[[int], None]  # how many more rows have been read


@dataclass
class DeepCheck:
    """Reads all rows of the records in a range."""

    sink: Sink
    chain_id: int
    network: Network
    tables: Sequence[Table]  # of the network's family; the first is the anchor
    proofs: RowProofs
    progress: Progress
    broken: Mapping[str, RangeSet]  # heights that are known to be unreadable, by table
    findings: list[Finding] = field(default_factory=list)
    _digests: Counter[Stored] = field(default_factory=Counter)
    _broken: set[Stored] = field(default_factory=set)  # records that could not be read to the end
    _proven: dict[str, RangeSet] = field(default_factory=dict)
    _claimed: dict[str, RangeSet] = field(default_factory=dict)

    async def run(self, whole: Span, records: Sequence[Stored]) -> Reproven:
        """Check all records that overlap a range, each of them completely."""
        wanted = [it for it in records if it.span.overlap(whole)]
        for part, of_part in _parts(wanted, [*self._by_name]):
            for window in part.windows(self.sink.grid or _WINDOW):
                await self._check_window(window, of_part)
        for record in wanted:
            if record not in self._broken and self._digests[record] % MODULUS != record.digest:
                message = "the rows differ from those that were written"
                self.findings.append(Finding("digest", record.dataset, record.span, message))
        not_again = {
            check: left
            for check, heights in sorted(self._claimed.items())
            if (left := heights - self._proven.get(check, RangeSet()))
        }
        return Reproven(dict(sorted(self._proven.items())), not_again)

    async def _check_window(self, window: Span, records: Mapping[str, Stored]) -> None:
        tables: dict[str, pa.Table] = {}
        disordered: set[int] = set()
        found = await self._read(window, records)
        if found is None:
            for half in halves(window):
                await self._check_window(half, records)
            return
        for name, rows in found.items():
            record = records[name]
            self.progress(rows.num_rows)
            self._digests[record] += digest(self._by_name[name], rows)
            for height in (wrong := _disordered(self._by_name[name], rows)):
                message = "a key occurs more than once, or rows are out of order"
                self.findings.append(Finding("duplicate", name, Span(height, height), message))
            disordered |= wrong
            tables[name] = rows
        if disordered:
            tables = {
                it: _without(self._by_name[it], rows, disordered) for it, rows in tables.items()
            }
        if self._anchor in tables:
            for part in window.windows(_PROOF_WINDOW):
                self._prove(part, {it: _cut(rows, part) for it, rows in tables.items()}, records)

    async def _read(
        self, window: Span, records: Mapping[str, Stored]
    ) -> dict[str, pa.Table] | None:
        """Return the rows of a window, without unreadable tables; None to retry with halves."""
        found: dict[str, pa.Table] = {}
        for name, record in records.items():
            try:
                found[name] = await self.sink.read(self._by_name[name], self.chain_id, window)
            except Damaged as error:
                if not RangeSet.of(window) - self.broken.get(name, RangeSet()):
                    self._broken.add(record)  # already reported
                elif window.size > 1:
                    return None
                else:
                    self._broken.add(record)
                    # Without this block, the digest of the rest cannot be checked.
                    self.findings.append(Finding("damaged", name, record.span, str(error)))
        return found

    def _prove(
        self, part: Span, tables: Mapping[str, pa.Table], records: Mapping[str, Stored]
    ) -> None:
        if not tables[self._anchor].num_rows:
            return
        claimed = records[self._anchor].proven
        checks = self.proofs.repeatable(claimed)
        found = self.proofs.examine(tables, self.network, self.chain_id, checks)
        flawed = RangeSet.from_members(it.height for it in found.flaws)
        sound = RangeSet.of(part) - flawed
        lacking = self._required(part, claimed, [*tables]) - found.proof.proven if sound else ()
        if lacking and part.size > 1:  # check each block separately, to find which one it is
            for each in part.windows(1):
                self._prove(each, {it: _cut(rows, each) for it, rows in tables.items()}, records)
            return
        for flaw in found.flaws:
            span = Span(flaw.height, flaw.height)
            self.findings.append(Finding("proof", flaw.table, span, flaw.message))
        for check in sorted(lacking):
            message = f"`{check}` is recorded as proven, but the rows do not prove it"
            self.findings.append(Finding("proof", self._anchor, part, message))
        for proven in found.proof.proven:
            self._proven[proven] = self._proven.get(proven, RangeSet()) | sound
        for claim in claimed - {LINK}:
            self._claimed[claim] = self._claimed.get(claim, RangeSet()) | sound

    def _required(
        self, part: Span, claimed: frozenset[str], datasets: Sequence[str]
    ) -> frozenset[str]:
        """Return the recorded checks that must pass again, because all they need is stored."""
        for height in (part.first, part.last):  # rules change from one era to the next
            claimed = self.network.required(claimed, height)
        return self.proofs.due(claimed, datasets)

    @cached_property
    def _by_name(self) -> dict[str, Table]:
        return {table.name: table for table in self.tables}

    @property
    def _anchor(self) -> str:
        return self.tables[0].name


def _parts(
    records: Sequence[Stored], datasets: Sequence[str]
) -> Iterator[tuple[Span, dict[str, Stored]]]:
    """Split the range where a record begins or ends; yield each piece with its records."""
    rest = {
        name: deque(sorted((it for it in records if it.dataset == name), key=_first))
        for name in datasets
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


def _disordered(table: Table, rows: pa.Table) -> set[int]:
    """Return the heights of rows whose key is not greater than the previous row's."""
    if not rows.num_rows:
        return set()
    above = ascending([rows[name].to_numpy() for name in table.key])
    return {*numbers(rows["block_number"])[1:][~above].tolist()}


def _without(table: Table, rows: pa.Table, heights: set[int]) -> pa.Table:
    """Return the rows of all other heights, sorted by key."""
    others = pc.invert(pc.is_in(rows["block_number"], pa.array(sorted(heights), pa.uint64())))
    return rows.filter(others).sort_by([(name, "ascending") for name in table.key])
