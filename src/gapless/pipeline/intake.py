"""From heights to units: ask, parse, check, decode; and a second opinion where that fails.

A block that does not hold together is asked for again from another endpoint, beside others like it;
after that, each time later. If every opinion is refused, the block is quarantined: the run keeps
its height as a hole, and nothing of it is stored. Parsing, checking and decoding run on a thread of
their own, or heartbeats would starve.

Answers are read without the keys that no column is made for. Whether there are any is seen at
samples, which are read in full: the ends of what is fetched, every 1,000th block, and the first
answer of each endpoint. Once one has such a key, all answers are read in full.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial, reduce
from itertools import groupby
from operator import and_
from random import random
from typing import ParamSpec, Protocol, TypeVar

import pyarrow as pa

from gapless.checks.check import Proof, check_anchor, check_block, check_range_logs
from gapless.checks.completion import complete
from gapless.core.errors import BadAnswer, MissingHistory, PermanentError
from gapless.core.ranges import RangeSet, Span
from gapless.core.remedies import AddEndpoint
from gapless.networks import Check, Network
from gapless.pipeline.unit import Unit
from gapless.schema.arrow import Tables
from gapless.sources.evm.decode import decode_blocks, decode_headers
from gapless.sources.evm.kept import (
    keep_block,
    keep_light_block,
    keep_receipts,
    keeps_something,
)
from gapless.sources.evm.range_logs import decode_range_logs
from gapless.sources.evm.source import RawBlock
from gapless.sources.evm.structs import (
    Block,
    LightBlock,
    RangeLog,
    Receipt,
    parse_block,
    parse_light_block,
    parse_logs,
    parse_receipts,
)
from gapless.sources.rpc.limits import delay
from gapless.sources.together import together
from gapless.telemetry import log, metrics

P = ParamSpec("P")
T = TypeVar("T")

OPINIONS = 6
DISTRUSTED_AFTER = 3  # answers that did not hold: fewer may be a whim
SAMPLE_EVERY = 1000


class Answers(Protocol):
    """A source of raw blocks."""

    @property
    def unit(self) -> int: ...
    async def fetch(self, span: Span, *, avoid: Collection[str] = ()) -> list[RawBlock]: ...
    async def head(self) -> int: ...


@dataclass(frozen=True)
class Wanted:
    """What is read of each block, and how it is checked."""

    network: Network
    chain_id: int
    checks: frozenset[Check]
    datasets: frozenset[str]
    anchors: Mapping[int, str] = field(default_factory=dict)  # hashes that are known, by height

    @property
    def receipts(self) -> bool:
        return needs_receipts(self.datasets)


def needs_receipts(datasets: Collection[str]) -> bool:
    """Whether any of these tables is made of receipts."""
    return not {"transactions", "logs"}.isdisjoint(datasets)


@dataclass(frozen=True)
class Read:
    """A block that was read, and passed its checks."""

    block: Block | LightBlock
    receipts: list[Receipt] | None
    logs: list[RangeLog]  # from a node that has no receipts to give
    proof: Proof


class Intake:
    """The units of one network, shared by all runs of a process."""

    def __init__(
        self, source: Answers, headers: Answers, wanted: Wanted, threads: Executor
    ) -> None:
        self.chain_id = wanted.chain_id
        self.reorg_depth = wanted.network.reorg_depth
        self.fetched = 0  # blocks that were handed on
        self.refused: Counter[str] = Counter()  # answers that did not hold, by endpoint
        self._source = source
        self._headers = headers
        self._wanted = wanted
        self._threads = threads
        self._keeping = False
        self._known: set[str] = set()  # endpoints of which an answer was read in full

    @property
    def unit(self) -> int:
        return self._source.unit

    async def hashes(self, span: Span) -> dict[int, str]:
        last = min(span.last, await self._headers.head())
        raws = await self._headers.fetch(Span(span.first, last)) if span.first <= last else []
        return {raw.height: parse_light_block(raw.block).hash for raw in raws}

    async def last_missing(self, span: Span) -> int:
        """The last block of a span that is too old for every endpoint, given that the first is."""
        low, high = span.first, span.last + 1
        while high - low > 1:
            middle = (low + high) // 2
            try:
                await self._source.fetch(Span(middle, middle))
                high = middle
            except MissingHistory:
                low = middle
        return low

    async def fetch(self, span: Span, edges: Collection[int] = ()) -> Unit:
        """The blocks of a span; those at the `edges` are read in full."""
        good: dict[int, Read] = {}
        sampled: set[int] = set()
        suspects: set[str] = set()
        left, findings = RangeSet.of(span), dict[int, BadAnswer]()
        refusals, givers = 0, dict[int, str]()
        for _ in range(OPINIONS):
            keeping = self._keeping
            if refusals > 1:  # once may be a whim; whoever lags behind needs time
                await asyncio.sleep(delay(refusals - 1, random()))
            avoid = frozenset(suspects)
            asking = [self._source.fetch(part, avoid=avoid) for part in left.spans]
            for raws in await together(asking):
                givers |= {raw.height: raw.endpoint for raw in raws}
                sampled |= (samples := self._samples(raws, edges))
                found = await self._in_thread(examine, raws, self._wanted, samples, keeping)
                self._keeping |= found.has_keys
                good |= found.good
                findings |= found.findings
                suspects |= {raw.endpoint for raw in raws if raw.height in found.findings}
            if self._keeping and not keeping:
                good, left = {}, RangeSet.of(span)  # again, with all their keys
                continue
            left = RangeSet.of(span) - RangeSet.from_members(good)
            if not left:
                blocks = [good[height] for height in range(span.first, span.last + 1)]
                tables = await self._in_thread(decode, blocks, self._wanted)
                if isinstance(tables, Tables):
                    self.fetched += span.size
                    return _unit(span, blocks, tables, kept=keeping, sampled=sampled)
                findings |= tables
                left = RangeSet.from_members(tables)
            refusals += 1
            for height in left:
                self._refuse(givers[height], height, findings.get(height))
        raise _quarantine(left.spans[0].first, findings, suspects)

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

    async def _in_thread(
        self, function: Callable[P, T], *arguments: P.args, **named: P.kwargs
    ) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, partial(function, *arguments, **named))


def _unit(
    span: Span, blocks: Sequence[Read], tables: Tables, *, kept: bool, sampled: Collection[int]
) -> Unit:
    return Unit(
        span,
        tables,
        [each.block.hash for each in blocks],
        [each.block.parent_hash for each in blocks],
        reduce(and_, (each.proof for each in blocks)),
        kept,
        max(sampled, default=None),
    )


def _quarantine(
    height: int, findings: Mapping[int, BadAnswer], endpoints: Collection[str]
) -> PermanentError:
    asked = ", ".join(f"`{name}`" for name in sorted(endpoints))
    return PermanentError(
        f"block {height} is in quarantine: {OPINIONS} answers were refused"
        f" (asked {asked}): {findings.get(height)}",
        partition=height,
        remedy=AddEndpoint(),
    )


@dataclass(frozen=True)
class Examined:
    """What came of some answers."""

    good: dict[int, Read]
    findings: dict[int, BadAnswer]
    has_keys: bool  # whether one that was read in full has keys without a column


def examine(
    raws: Sequence[RawBlock], wanted: Wanted, samples: Collection[int], keeping: bool
) -> Examined:
    """Reads and checks each block by itself."""
    good: dict[int, Read] = {}
    findings: dict[int, BadAnswer] = {}
    has_keys = False
    for raw in raws:
        full = keeping or raw.height in samples
        try:
            good[raw.height] = read = _read(raw, wanted, full=full)
        except BadAnswer as error:
            findings[raw.height] = error
        else:
            has_keys |= full and keeps_something(read.block, read.receipts or ())
    return Examined(good, findings, has_keys)


def _read(raw: RawBlock, wanted: Wanted, *, full: bool) -> Read:
    block: Block | LightBlock
    receipts = None
    if not wanted.receipts:
        block = keep_light_block(raw.block) if full else parse_light_block(raw.block)
    else:
        block = keep_block(raw.block) if full else parse_block(raw.block)
        if raw.receipts is not None:
            receipts = keep_receipts(raw.receipts, block) if full else parse_receipts(raw.receipts)
    if block.number.lower() != hex(raw.height):
        raise BadAnswer(f"block {block.number} was answered for {raw.height}")
    check_anchor(block, wanted.network, wanted.anchors.get(raw.height))
    complete(block, receipts, wanted.network, raw.height)
    how = (wanted.network, wanted.checks, raw.height)
    proof = check_block(block, receipts, *how)
    if raw.logs is None or not isinstance(block, Block):
        return Read(block, receipts, [], proof)
    logs = parse_logs(raw.logs)
    others = None if raw.other_logs is None else parse_logs(raw.other_logs)
    return Read(block, receipts, logs, proof | check_range_logs(block, logs, others, *how))


def decode(blocks: Sequence[Read], wanted: Wanted) -> Tables | dict[int, BadAnswer]:
    """The wanted tables of the blocks, or which of them cannot be decoded."""
    try:
        groups = groupby(blocks, key=lambda each: each.receipts is not None)
        parts = [_decoded(list(group), wanted) for _, group in groups]
    except BadAnswer:
        return dict(_undecodable(blocks, wanted))
    names = [name for name in parts[0] if name in wanted.datasets]
    return Tables({name: pa.concat_tables([part[name] for part in parts]) for name in names})


def _undecodable(blocks: Sequence[Read], wanted: Wanted) -> Iterator[tuple[int, BadAnswer]]:
    for each in blocks:
        try:
            _decoded([each], wanted)
        except BadAnswer as error:
            yield int(each.block.number, 16), error


def _decoded(blocks: Sequence[Read], wanted: Wanted) -> Tables:
    """The tables of blocks that all have receipts, or all have none."""
    light = [each.block for each in blocks if isinstance(each.block, LightBlock)]
    if light:
        return decode_headers(light, wanted.chain_id)
    full = [each.block for each in blocks if isinstance(each.block, Block)]
    receipts = [each.receipts for each in blocks if each.receipts is not None]
    if receipts:
        return decode_blocks(full, receipts, wanted.chain_id)
    logs = [log for each in blocks for log in each.logs]
    tables = decode_blocks(full, None, wanted.chain_id)
    return Tables({**tables, "logs": decode_range_logs(full, logs, wanted.chain_id)})
