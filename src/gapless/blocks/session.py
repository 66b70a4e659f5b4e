"""An open fetch: its nodes, its sink, and the blocks that are missing.

Errors are found before anything is created: an invalid request before a node is contacted, an
unreachable or wrong node before a sink or a ledger is created.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Self

import msgspec

from gapless.blocks.block_pipeline import endpoints_of, kept_profiles
from gapless.blocks.branch import abandoned
from gapless.blocks.counts import Counts
from gapless.blocks.dates import without_dates
from gapless.blocks.finish_job import finished_by_workers
from gapless.blocks.holding import Holding, datasets_of_chain, discard_damaged, holding
from gapless.blocks.plan import FetchRequest, request_for_blocks, survey, unfinished
from gapless.blocks.result import FetchResult, Outcome, result_of
from gapless.blocks.spec import BlocksSpec, anchors_of, known_hashes
from gapless.chains import Network, family_of
from gapless.chains.family import Source
from gapless.chains.identity import refuse_wrong_chain
from gapless.chains.opening import open_sink
from gapless.config import Config
from gapless.core.anchors import Anchor
from gapless.core.errors import LedgerError, Orphaned, SinkUnusable, UsageError
from gapless.core.heights import Heights, Tip
from gapless.core.ranges import RangeSet, Span
from gapless.core.remedies import ReplaceBranch
from gapless.core.retry import RetryKind
from gapless.ledger import Ledger, open_ledger
from gapless.ledger.records import Backfill, BackfillRequest
from gapless.providers import Absent, Call, Pool, Providers, Share
from gapless.runtime.process import actor
from gapless.runtime.slots import FOREGROUND
from gapless.schema import Table
from gapless.sinks import Access, Request, Sink
from gapless.system import System
from gapless.telemetry import metrics

FIRST_PATIENCE, PATIENCE = 8.0, 60.0  # seconds to wait for endpoints: at first contact, and later


class FetchLedger:
    """The ledger of a fetch, opened once: at the start if it exists, else when it is needed."""

    def __init__(self, url: str, system: System) -> None:
        self.url = url
        self._system = system
        self._ledger: Ledger | None = None

    async def if_there(self) -> Ledger | None:
        if self._ledger is None:
            with suppress(LedgerError):
                self._ledger = await self._open(create=False)
        return self._ledger

    async def created(self) -> Ledger:
        if self._ledger is None:
            self._ledger = await self._open(create=True)
        return self._ledger

    async def _open(self, *, create: bool) -> Ledger:
        return await open_ledger(self.url, actor=actor(), create=create, system=self._system)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._ledger is not None:
            await self._ledger.close()


@dataclass(frozen=True)
class FetchSession:
    """An open fetch."""

    request: FetchRequest
    config: Config
    ledger: FetchLedger
    providers: Providers
    pool: Pool
    absent: Sequence[Absent]  # endpoints that could not be used at first contact
    tip: Tip
    span: Span
    spec: BlocksSpec
    sink: Sink | None  # None: it does not exist and was not to be created
    held: Holding
    missing: RangeSet  # to be fetched or verified again
    max_calls: int | None = None  # per process

    @property
    def anchor(self) -> Table:
        """The table with one row for each block."""
        return self.spec.family.tables[0]

    @property
    def requested(self) -> Span:
        """The requested heights, with tags resolved."""
        last = self.request.heights.last
        return Span(self.span.first, last if isinstance(last, int) else self.span.last)

    @property
    def unchecked_anchors(self) -> tuple[int, ...]:
        """Heights of anchors outside the span, which no block is compared with."""
        heights = (anchor.height for anchor in self.request.anchors)
        return tuple(it for it in heights if not self.span.first <= it <= self.span.last)

    async def wanted(self) -> Backfill | BackfillRequest:
        """The unfinished backfill of this fetch, or the request for a new one."""
        assert self.sink is not None
        ledger = await self.ledger.created()
        await ledger.raise_fence(await self.sink.highest_fence())
        found, backfill_id = await unfinished(ledger, self.spec, self.span, self.request.only)
        return found or request_for_blocks(
            backfill_id, self.spec, self.span, self.missing, self.request
        )

    async def leave_to_workers(self) -> Backfill:
        """Leaves the backfill to workers: the unfinished one, or a new one."""
        found = await self.wanted()
        if isinstance(found, BackfillRequest):
            return await (await self.ledger.created()).create(finished_by_workers(found))
        return found

    async def result(
        self, counts: Counts | None = None, ended: Backfill | None = None, seconds: float = 0.0
    ) -> FetchResult:
        """The result after a run of this many seconds: what is stored by now, and what is not."""
        assert self.sink is not None
        if counts is None:  # there was nothing to do
            counts = Counts(
                calls=dict(self.pool.calls),
                requests=self.pool.requests,
                endpoints=self.pool.served(),
            )
        outcome = Outcome(counts, self.providers.system.wall_clock(), seconds, ended)
        final = self.tip.final
        return await result_of(self.sink, self.spec, self.requested, final, self.span, outcome)


@asynccontextmanager
async def open_fetch(
    request: FetchRequest,
    config: Config,
    ledger_url: str,
    *,
    max_calls: int | None = None,
    create: bool = True,
    shared: Providers | None = None,
) -> AsyncIterator[FetchSession]:
    """Opens a fetch: asks the nodes for the head of the chain, and the sink for what it holds.

    `shared` are open providers that may serve other fetches too.
    """
    async with open_chain(request, config, ledger_url, max_calls, shared) as chain:
        system = chain.pool.system
        if request.heights.is_dated:
            request = replace(request, heights=await undated(request, config, chain))
        span = chain.tip.pin(request.heights)
        async with sink_at(config.sink(request.sink), system, create=create) as sink:
            if sink is None:
                spec = request.spec(chain.chain_id, "")
                held, missing = Holding(), RangeSet.of(span)
            else:
                spec, held, missing = await compare(request, chain, sink, span, create=create)
            yield FetchSession(
                request=request,
                config=config,
                ledger=chain.ledger,
                providers=chain.providers,
                pool=chain.pool,
                absent=chain.absent,
                tip=chain.tip,
                span=span,
                spec=spec,
                sink=sink,
                held=held,
                missing=missing,
                max_calls=max_calls,
            )


@dataclass(frozen=True)
class OpenChain:
    """The chain of the endpoints, checked to be the requested one."""

    ledger: FetchLedger
    providers: Providers
    pool: Pool
    network: Network
    chain_id: int
    source: Source
    tip: Tip
    known: Mapping[int, bytes]  # hashes known in advance, by height
    absent: Sequence[Absent]


@asynccontextmanager
async def open_chain(
    request: FetchRequest,
    config: Config,
    ledger_url: str,
    max_calls: int | None = None,
    shared: Providers | None = None,
) -> AsyncIterator[OpenChain]:
    """Contacts all endpoints and refuses those of another chain."""
    providers = shared or Providers(request.numbers.workers, share=Share(0, request.processes))
    endpoints, family = endpoints_of(config, request.endpoints), family_of(request.network)
    async with FetchLedger(ledger_url, providers.system) as ledger:
        known_ledger = await ledger.if_there()
        profiles = (
            {}
            if known_ledger is None
            else await kept_profiles(known_ledger, request.network.name, endpoints)
        )
        pool = Pool(
            endpoints,
            family.queries,
            chain_id=request.network.chain_id,
            max_calls=max_calls,
            patience=FIRST_PATIENCE,
            profiles=profiles,
            providers=providers,
        )
        async with nullcontext() if shared else providers, pool:
            absent = await _meet_all(pool, family.queries.head)
            source = family.source(pool, request.network, [family.tables[0].name], ())
            tip = await survey(source, request.network, request.confirmations)
            pool.patience = FIRST_PATIENCE if request.retry.kind is RetryKind.HALT else PATIENCE
            assert pool.chain_id is not None
            network = replace(request.network, chain_id=pool.chain_id)
            known = known_hashes(network, request.anchors)
            trusted = [anchor.height for anchor in request.anchors]
            await refuse_wrong_chain(source, pool.names, known, tip.final, network.name, trusted)
            yield OpenChain(
                ledger, providers, pool, network, pool.chain_id, source, tip, known, absent
            )


async def undated(request: FetchRequest, config: Config, chain: OpenChain) -> Heights:
    """The requested heights, with dates resolved."""
    system = chain.pool.system
    async with sink_at(config.sink(request.sink), system, create=False) as sink:
        return await without_dates(
            request.heights, chain.tip, chain.network, chain.source, sink, system
        )


async def compare(
    request: FetchRequest, chain: OpenChain, sink: Sink, span: Span, *, create: bool
) -> tuple[BlocksSpec, Holding, RangeSet]:
    """Compares sink and span to find what is missing; `create` records the fetch in the sink."""
    spec, known, name = request.spec(chain.chain_id, sink.id), chain.known, chain.network.name
    await _refuse_other_family(sink, spec)
    recorded = await anchors_of(sink, spec.chain_id)
    if not request.replace_branch and recorded - known.items():
        known = known_hashes(chain.network, [*request.anchors, *recorded])
        names = chain.pool.names
        await refuse_wrong_chain(chain.source, names, known, chain.tip.final, name)
    spec = msgspec.structs.replace(spec, anchors=_texts(known))
    found = await abandoned(sink, spec.family.tables[0], spec.chain_id, span, chain.source)
    stale = found.heights
    if not found.is_reorganisation(chain.network.reorg_depth):
        if not request.replace_branch:
            raise _orphaned(request, stale)
        for part in stale.spans:
            await sink.retract(spec.chain_id, part, await sink.highest_fence())
            await sink.withdraw(spec.chain_id, part)  # including anchors of the old branch
    elif stale:
        spec = msgspec.structs.replace(spec, refetch=True)
    held = await holding(sink, spec, span)
    _measure(spec, chain.tip, held)
    missing = RangeSet.of(span) if request.refetch else held.left(span)
    missing = (missing if request.only is None else request.only) | (stale & RangeSet.of(span))
    if create:
        await discard_damaged(sink, spec, span)
        anchors = frozenset(Anchor(*each) for each in known.items())
        datasets, checks = frozenset(spec.datasets), frozenset(spec.checks)
        await sink.request(spec.chain_id, Request(span, datasets, checks, anchors))
    return spec, held, missing


async def _refuse_other_family(sink: Sink, spec: BlocksSpec) -> None:
    """Refuses a chain if the sink holds one of another family with the same id."""
    own = {table.name for table in spec.family.tables}
    if others := sorted(await datasets_of_chain(sink, spec.chain_id) - own):
        raise UsageError(
            f"`{spec.sink}` holds {', '.join(others)} of another chain with the id"
            f" {spec.chain_id}, which is not a chain like `{spec.network}`",
            hint="fetch into another sink",
        )


def _measure(spec: BlocksSpec, tip: Tip, held: Holding) -> None:
    """Updates the metrics of the chain's and the sink's heights."""
    chain = str(spec.chain_id)
    metrics.HEAD_HEIGHT.set(tip.head, chain)
    if held.done:
        metrics.STORED_HEIGHT.raise_to(held.done.spans[-1].last, chain, spec.sink)


def _texts(known: Mapping[int, bytes]) -> tuple[str, ...]:
    return tuple(str(Anchor(height, hash_)) for height, hash_ in sorted(known.items()))


def _orphaned(request: FetchRequest, stale: RangeSet) -> Orphaned:
    first, last = stale.spans[0].first, stale.spans[-1].last
    return Orphaned(
        f"stored blocks {first:,} to {last:,} of `{request.sink}` are not on the node's chain:"
        " it changed deeper than a reorganisation does, or the node is on another chain or branch",
        stale=stale,
        remedy=ReplaceBranch(request.sink, has_endpoint=request.queue != FOREGROUND),
    )


async def _meet_all(pool: Pool, head: Call) -> list[Absent]:
    """Contacts every endpoint, to find one of another chain before anything is created.

    Returns the endpoints that cannot be used now; one usable endpoint is enough.
    """
    absent = await pool.meet()
    there = pool.names - {each.endpoint for each in absent}
    await asyncio.gather(*(pool.ask([head], avoid=pool.names - {name}) for name in there))
    return absent


@asynccontextmanager
async def sink_at(target: str, system: System, *, create: bool) -> AsyncIterator[Sink | None]:
    """Opens the sink; None if it does not exist and must not be created."""
    try:
        sink = await open_sink(target, Access.CREATE if create else Access.READ, system=system)
    except SinkUnusable:
        if create:
            raise
        yield None
        return
    async with sink:
        yield sink
