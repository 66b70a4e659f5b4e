"""Turn heights into units: fetch and read blocks, and refetch those that fail the checks.

A block that fails the checks is fetched again from another endpoint, together with others that
failed; from the second retry on, each retry waits longer. If every answer is rejected, the block is
quarantined: the run records its height as a gap and stores nothing of it. Reading runs in threads,
because it would delay heartbeats otherwise.

By default, answers are read without the keys that have no column. Samples are read in full to
detect such keys: the edges of a fetch, every 1,000th block, and the first answer of each endpoint.
Once a sample has such a key, all answers are read in full.
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
from gapless.providers.gather import gather_all
from gapless.providers.limits import delay
from gapless.schema.arrow import Tables
from gapless.system import SYSTEM, System
from gapless.telemetry import log, metrics

OPINIONS = 6
DISTRUSTED_AFTER = 3  # rejected answers; fewer may be an accident
SAMPLE_EVERY = 1000


class BlockReader:
    """Reads the units of one network; all runs of a process share it."""

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
        self.fetched = 0  # blocks returned to callers
        self.refused: Counter[str] = Counter()  # answers that failed the checks, by endpoint
        self._family = family
        self._source = source
        self._wanted = wanted
        self._threads = threads
        self._system = system
        self._whole = False  # whether answers are read with all their keys
        self._sampled_endpoints: set[str] = set()  # at least one answer was read in full

    @property
    def unit(self) -> int:
        return self._source.unit

    async def hashes(self, span: Span) -> dict[int, bytes]:
        return await self._source.hashes(span)

    async def last_missing(self, span: Span) -> int:
        """Return the last block that no endpoint has, given that none has the first."""
        missing, present = span.first, span.last + 1
        while present - missing > 1:
            middle = (missing + present) // 2
            try:
                await self._source.fetch(Span(middle, middle))
            except MissingHistory:
                missing = middle
            else:
                present = middle
        return missing

    async def fetch(
        self, span: Span, edges: Collection[int] = (), avoid: Collection[str] = ()
    ) -> Unit:
        """Fetch and read the blocks of a span, if possible not from the endpoints to `avoid`.

        Blocks at the `edges` are read in full.
        """
        progress = _Progress(span, suspects={*avoid})
        for _ in range(OPINIONS):
            whole = self._whole
            if progress.refusals > 1:  # one may be an accident; a lagging node needs time
                await asyncio.sleep(delay(progress.refusals - 1, self._system.chance()))
            others = frozenset(progress.suspects)
            fetches = [self._source.fetch(part, avoid=others) for part in progress.left.spans]
            for raws in await gather_all(fetches):
                samples = self._samples(raws, edges)
                reading = await self._read(raws, samples, whole=whole)
                self._whole |= reading.has_extra
                progress.add(raws, samples, reading)
            if self._whole and not whole:
                progress.restart()  # with all keys
            elif not progress.left:
                self.fetched += span.size
                return progress.unit(self._family, has_all_keys=whole)
            else:
                progress.refusals += 1
                for height in progress.left:
                    self._refuse(progress.endpoints[height], height, progress.findings.get(height))
        raise progress.quarantine()

    def _refuse(self, endpoint: str, height: int, finding: BadAnswer | None) -> None:
        """Count a rejected answer against the endpoint that gave it."""
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
            if raw.endpoint not in self._sampled_endpoints:
                self._sampled_endpoints.add(raw.endpoint)
                found.add(raw.height)
        return found

    async def _read(
        self, raws: Sequence[RawBlock], samples: Collection[int], *, whole: bool
    ) -> Reading:
        read = partial(self._family.read, raws, self._wanted, samples, whole=whole)
        return await asyncio.get_running_loop().run_in_executor(self._threads, read)


def reading_threads(family: Family, system: System) -> Executor:
    """Start the threads that units are read on.

    A thread for each core of this process's share if the family's decoder computes without Python's
    lock. Otherwise one: more would only take the lock from each other.
    """
    threads = system.cores() if family.decoder.is_parallel else 1
    return system.executor(threads, "gapless-decode")


@dataclass
class _Progress:
    """The blocks of a span that were read so far."""

    span: Span
    refusals: int = 0
    blocks: dict[int, ReadBlock] = field(default_factory=dict)
    parts: list[Tables] = field(default_factory=list)
    sampled: set[int] = field(default_factory=set)
    suspects: set[str] = field(default_factory=set)
    endpoints: dict[int, str] = field(default_factory=dict)  # by height, which one answered last
    findings: dict[int, BadAnswer] = field(default_factory=dict)

    @property
    def left(self) -> RangeSet:
        return RangeSet.of(self.span) - RangeSet.from_members(self.blocks)

    def add(self, raws: Sequence[RawBlock], samples: set[int], reading: Reading) -> None:
        self.endpoints |= {raw.height: raw.endpoint for raw in raws}
        self.suspects |= {raw.endpoint for raw in raws if raw.height in reading.refused}
        self.sampled |= samples
        self.findings |= reading.refused
        self.blocks |= reading.blocks
        if reading.blocks:
            self.parts.append(reading.tables)

    def restart(self) -> None:
        self.blocks, self.parts = {}, []

    def unit(self, family: Family, *, has_all_keys: bool) -> Unit:
        blocks = [self.blocks[height] for height in range(self.span.first, self.span.last + 1)]
        return Unit(
            self.span,
            _join(self.parts, family),
            [each.hash for each in blocks],
            [each.parent_hash for each in blocks],
            reduce(and_, (each.proof for each in blocks)),
            has_all_keys,
            max(self.sampled, default=None),
            frozenset(self.endpoints.values()),
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


def _join(parts: Sequence[Mapping[str, pa.Table]], family: Family) -> Tables:
    """Concatenate the rows of all parts, sorted by their keys."""
    if len(parts) == 1:
        return Tables(parts[0])
    found = {}
    for table in family.tables:
        if table.name in parts[0]:
            rows = pa.concat_tables([part[table.name] for part in parts])
            found[table.name] = rows.sort_by([(name, "ascending") for name in table.key])
    return Tables(found)
