"""From heights to units: fetch, read, and get a second opinion where a block does not hold.

A block that does not hold together is fetched again from another endpoint, beside others like it;
after that, each time later. If every opinion is refused, the block is quarantined: the run keeps
its height as a hole, and nothing of it is stored. Reading runs on a thread of its own, because it
would keep heartbeats waiting otherwise.

Answers are read without the keys that no column is made for. Whether there are any is seen in
samples, which are read in full: the ends of what is fetched, every 1,000th block, and the first
answer of each endpoint. Once one has such a key, all answers are read in full.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial, reduce
from operator import and_

import pyarrow as pa

from gapless.chains.family import Family, RawBlock, ReadBlock, Reading, Source, Wanted
from gapless.core.errors import BadAnswer, MissingHistory, PermanentError
from gapless.core.ranges import RangeSet, Span
from gapless.core.remedies import AddEndpoint
from gapless.pipeline.unit import Unit
from gapless.providers.limits import delay
from gapless.providers.together import together
from gapless.schema.arrow import Tables
from gapless.system import SYSTEM, System
from gapless.telemetry import log, metrics

OPINIONS = 6
DISTRUSTED_AFTER = 3  # answers that did not hold: fewer may be a whim
SAMPLE_EVERY = 1000


class BlockReader:
    """The units of one network, shared by all runs of a process."""

    def __init__(
        self,
        family: Family,
        source: Source,
        wanted: Wanted,
        threads: Executor,
        system: System = SYSTEM,
    ) -> None:
        self.chain_id = wanted.chain_id
        self.reorg_depth = wanted.network.reorg_depth
        self.anchor = family.tables[0]
        self.fetched = 0  # blocks that were handed on
        self.refused: Counter[str] = Counter()  # answers that did not hold, by endpoint
        self._family = family
        self._source = source
        self._wanted = wanted
        self._threads = threads
        self._system = system
        self._whole = False  # whether answers are read with all their keys
        self._known: set[str] = set()  # endpoints of which an answer was read in full

    @property
    def unit(self) -> int:
        return self._source.unit

    async def hashes(self, span: Span) -> dict[int, bytes]:
        return await self._source.hashes(span)

    async def last_missing(self, span: Span) -> int:
        """The end of the blocks that nobody has, given that nobody has the first."""
        missing, there = span.first, span.last + 1
        while there - missing > 1:
            middle = (missing + there) // 2
            try:
                await self._source.fetch(Span(middle, middle))
            except MissingHistory:
                missing = middle
            else:
                there = middle
        return missing

    async def fetch(self, span: Span, edges: Collection[int] = ()) -> Unit:
        """The blocks of a span; those at the `edges` are read in full."""
        progress = _Progress(span)
        for _ in range(OPINIONS):
            whole = self._whole
            if progress.refusals > 1:  # once may be a whim; whoever lags behind needs time
                await asyncio.sleep(delay(progress.refusals - 1, self._system.chance()))
            avoid = frozenset(progress.suspects)
            asking = [self._source.fetch(part, avoid=avoid) for part in progress.left.spans]
            for raws in await together(asking):
                samples = self._samples(raws, edges)
                reading = await self._read(raws, samples, whole=whole)
                self._whole |= reading.has_extra
                progress.add(raws, samples, reading)
            if self._whole and not whole:
                progress.start_again()  # with all keys
            elif not progress.left:
                self.fetched += span.size
                return progress.unit(self._family, kept=whole)
            else:
                progress.refusals += 1
                for height in progress.left:
                    self._refuse(progress.givers[height], height, progress.findings.get(height))
        raise progress.quarantine()

    def _refuse(self, endpoint: str, height: int, finding: BadAnswer | None) -> None:
        """Counts an answer that did not hold against the endpoint that gave it."""
        self.refused[endpoint] += 1
        metrics.REFUSED_ANSWERS.add(1, endpoint)
        log(logging.INFO, "answer_refused", endpoint=endpoint, height=height, error=finding)
        if self.refused[endpoint] == DISTRUSTED_AFTER:
            log(logging.WARNING, "endpoint_distrusted", endpoint=endpoint, error=finding)

    def _samples(self, raws: Sequence[RawBlock], edges: Collection[int]) -> set[int]:
        found = set()
        for raw in raws:
            if raw.height % SAMPLE_EVERY == 0 or raw.height in edges:
                found.add(raw.height)
            if raw.endpoint not in self._known:
                self._known.add(raw.endpoint)
                found.add(raw.height)
        return found

    async def _read(
        self, raws: Sequence[RawBlock], samples: Collection[int], *, whole: bool
    ) -> Reading:
        read = partial(self._family.read, raws, self._wanted, samples, whole=whole)
        return await asyncio.get_running_loop().run_in_executor(self._threads, read)


@dataclass
class _Progress:
    """What has come of a span so far."""

    span: Span
    refusals: int = 0
    blocks: dict[int, ReadBlock] = field(default_factory=dict)
    parts: list[Tables] = field(default_factory=list)
    sampled: set[int] = field(default_factory=set)
    suspects: set[str] = field(default_factory=set)
    givers: dict[int, str] = field(default_factory=dict)
    findings: dict[int, BadAnswer] = field(default_factory=dict)

    @property
    def left(self) -> RangeSet:
        return RangeSet.of(self.span) - RangeSet.from_members(self.blocks)

    def add(self, raws: Sequence[RawBlock], samples: set[int], reading: Reading) -> None:
        self.givers |= {raw.height: raw.endpoint for raw in raws}
        self.suspects |= {raw.endpoint for raw in raws if raw.height in reading.refused}
        self.sampled |= samples
        self.findings |= reading.refused
        self.blocks |= reading.blocks
        if reading.blocks:
            self.parts.append(reading.tables)

    def start_again(self) -> None:
        self.blocks, self.parts = {}, []

    def unit(self, family: Family, *, kept: bool) -> Unit:
        blocks = [self.blocks[height] for height in range(self.span.first, self.span.last + 1)]
        return Unit(
            self.span,
            _joined(self.parts, family),
            [each.hash for each in blocks],
            [each.parent_hash for each in blocks],
            reduce(and_, (each.proof for each in blocks)),
            kept,
            max(self.sampled, default=None),
        )

    def quarantine(self) -> PermanentError:
        height = self.left.spans[0].first
        asked = ", ".join(f"`{name}`" for name in sorted(self.suspects))
        return PermanentError(
            f"block {height} is in quarantine: {OPINIONS} answers were refused"
            f" (asked {asked}): {self.findings.get(height)}",
            partition=height,
            remedy=AddEndpoint(),
        )


def _joined(parts: Sequence[Mapping[str, pa.Table]], family: Family) -> Tables:
    """The rows of all parts, in the order of their keys."""
    if len(parts) == 1:
        return Tables(parts[0])
    found = {}
    for table in family.tables:
        if table.name in parts[0]:
            rows = pa.concat_tables([part[table.name] for part in parts])
            found[table.name] = rows.sort_by([(name, "ascending") for name in table.key])
    return Tables(found)
