"""A fetch that is open: its nodes, its sink, and what is missing between them.

Everything that can be wrong is found before anything is made: a wrong wish before a node is asked,
an unreachable or wrong node before a sink or a ledger is there.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial

import msgspec

from gapless.blocks import job as blocks
from gapless.blocks.block_pipeline import Plane, endpoints_of, kept_profiles, plane_with
from gapless.blocks.branch import abandoned
from gapless.blocks.counts import Counts
from gapless.blocks.dates import without_dates
from gapless.blocks.holding import Holding, discard_damaged, holding
from gapless.blocks.plan import FOREGROUND, Wish, request_for_blocks, survey, unfinished
from gapless.blocks.spec import BlocksSpec, anchors_of, known_hashes
from gapless.chains import Level, family_of
from gapless.chains.identity import refuse_wrong_chain
from gapless.chains.opening import open_sink
from gapless.config import Config
from gapless.core.anchors import Anchor
from gapless.core.backfill import State
from gapless.core.errors import Damaged, LedgerError, Orphaned, SinkError, SinkUnusable
from gapless.core.heights import Tip
from gapless.core.proof import lacking_proofs
from gapless.core.ranges import RangeSet, Span
from gapless.core.remedies import ReplaceBranch
from gapless.core.retry import RetryKind
from gapless.ledger import Ledger, open_ledger
from gapless.ledger.records import Backfill, BackfillRequest
from gapless.providers import Absent, Call, EndpointSpec, Pool, Profile, Providers, Served, Share
from gapless.runtime.engine import BackfillHandle, Engine
from gapless.runtime.process import actor
from gapless.runtime.worker import WorkerOptions
from gapless.sinks import Access, Request, Sink, Stored
from gapless.system import System
from gapless.telemetry import metrics

FIRST_PATIENCE, PATIENCE = 8.0, 60.0  # seconds with endpoints: at first contact, and later


@dataclass(frozen=True)
class FetchResult:
    """What came of a fetch."""

    id: str | None  # of its backfill; None: there was nothing to do
    state: State
    error: str | None
    spec: BlocksSpec
    requested: Span  # with a tag resolved
    final: int  # the last block that will not change
    span: Span  # what of the request is final
    stored: RangeSet  # of the span
    unproven: RangeSet  # stored, with fewer proofs than asked for
    gaps: RangeSet  # what is missing of the span
    rows: Mapping[str, int]  # stored, by dataset
    not_proven: frozenset[str]  # checks of the default level, or asked for, that some block lacks
    fetched: int  # blocks that this run has written
    reproven: int  # blocks that were proven again from their own rows
    batches: int  # in so many writes
    started_at: float
    ended_at: float
    calls: Mapping[str, int]
    requests: int
    retries: int  # calls that were sent again
    refused: int  # answers that did not hold
    endpoints: Mapping[str, Served]  # by name

    @property
    def interrupted(self) -> bool:
        """Whether it was stopped before its end; the same fetch again resumes it."""
        return not self.state.ended

    @property
    def not_final(self) -> Span | None:
        """What was requested and is not final yet, so that it was left out."""
        first = max(self.requested.first, self.final + 1)
        return Span(first, self.requested.last) if first <= self.requested.last else None

    @property
    def seconds(self) -> float:
        return self.ended_at - self.started_at

    @property
    def blocks_per_second(self) -> float:
        return self.fetched / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class Fetching:
    """An open fetch."""

    wish: Wish
    ledger_url: str
    providers: Providers
    pool: Pool
    absent: Sequence[Absent]  # endpoints that could not be used at first contact
    tip: Tip
    span: Span
    spec: BlocksSpec
    sink: Sink | None  # None: it is not there, and was not to be made
    held: Holding
    missing: RangeSet  # to be fetched, or proven again

    @property
    def requested(self) -> Span:
        """The heights as they were asked for; a tag is what it was resolved to."""
        last = self.wish.heights.last
        return Span(self.span.first, last if isinstance(last, int) else self.span.last)

    @property
    def unchecked_anchors(self) -> tuple[int, ...]:
        """Heights of anchors that no block of the span is compared with."""
        heights = (anchor.height for anchor in self.wish.anchors)
        return tuple(it for it in heights if not self.span.first <= it <= self.span.last)

    async def wanted(self, ledger: Ledger) -> Backfill | BackfillRequest:
        """The backfill that this fetch has begun before, or what to ask for."""
        assert self.sink is not None
        await ledger.raise_fence(await self.sink.highest_fence())
        found, backfill_id = await unfinished(ledger, self.spec, self.span, self.wish.only)
        return found or request_for_blocks(
            backfill_id, self.spec, self.span, self.missing, self.wish
        )

    async def engine(self) -> tuple[Engine, Backfill | BackfillRequest]:
        """The engine that runs this fetch and nothing else, and what it is to run.

        Of several processes, each has its share of the chunks that run at once.
        """
        system = self.providers.system
        ledger = await open_ledger(self.ledger_url, actor=actor(), system=system)
        try:
            wanted = await self.wanted(ledger)
        finally:
            await ledger.close()
        options = WorkerOptions(only=wanted.id)
        slots = {wanted.queue: max(1, wanted.max_concurrent_runs // self.wish.processes)}
        return Engine(self.ledger_url, slots=slots, options=options, system=system), wanted

    def plane(self) -> AbstractContextManager[Plane]:
        assert self.sink is not None
        return plane_with(self.spec, self.pool, self.sink, self.providers.workers)

    async def result(
        self, counts: Counts | None = None, ended: Backfill | None = None, seconds: float = 0.0
    ) -> FetchResult:
        """What is stored by now, and what is not, after a run of so many seconds."""
        if counts is None:  # nothing was to be done
            counts = Counts(
                calls=dict(self.pool.calls),
                requests=self.pool.requests,
                endpoints=self.pool.served(),
            )
        assert self.sink is not None
        ended_at = self.providers.system.wall_clock()
        if ended is None or ended.state is State.SUCCEEDED:
            await self.sink.finish()
        elif ended.state.ended:  # else whoever resumes it does that
            with suppress(SinkError):  # what has failed is told as it is
                await self.sink.finish()
        stored = await self._stored(self.sink)
        rows: Counter[str] = Counter()
        for each in stored:
            rows[each.dataset] += each.rows
        held = await holding(self.sink, self.spec, self.span)
        return FetchResult(
            id=None if ended is None else ended.id,
            state=State.SUCCEEDED if ended is None else ended.state,
            error=None if ended is None else ended.error,
            spec=self.spec,
            requested=self.requested,
            final=self.tip.final,
            span=self.span,
            stored=held.done | held.weak,
            unproven=held.weak,
            gaps=held.left(self.span) - held.weak,
            rows=rows,
            not_proven=self._not_proven(stored),
            fetched=counts.blocks,
            reproven=counts.reproven,
            batches=counts.batches,
            started_at=ended_at - seconds,
            ended_at=ended_at,
            calls=counts.calls,
            requests=counts.requests,
            retries=counts.retries,
            refused=counts.refused,
            endpoints=counts.endpoints,
        )

    async def _stored(self, sink: Sink) -> list[Stored]:
        try:
            return await sink.stored(self.spec.chain_id, self.span)
        except Damaged:  # it cannot be cut to the span without being read
            return await sink.records(self.spec.chain_id, self.span)

    def _not_proven(self, stored: Sequence[Stored]) -> frozenset[str]:
        expected = self.spec.family.level(Level.AUTO, self.spec.datasets)
        lists = (
            lacking_proofs(each.proven, each.unproven, expected)
            for each in stored
            if each.dataset in self.spec.datasets
        )
        return frozenset().union(*lists)


async def start(engine: Engine, plane: Plane, wanted: Backfill | BackfillRequest) -> BackfillHandle:
    """Creates the backfill in an engine that is at work, or takes it up.

    Somebody who asks again wants it now: chunks that wait after a failure are due at once.
    """
    job = blocks.job(plane)
    if isinstance(wanted, BackfillRequest):
        return await engine.submit(job, wanted)
    await engine.ledger.hasten(wanted.id)
    return await engine.attach(job, wanted.id)


@asynccontextmanager
async def open_fetch(
    wish: Wish,
    config: Config,
    ledger_url: str,
    *,
    max_calls: int | None = None,
    create: bool = True,
    shared: Providers | None = None,
) -> AsyncIterator[Fetching]:
    """Asks the nodes where the chain stands, and the sink what it has.

    With `shared`, providers that are open already and may serve other fetches too.
    """
    providers = shared or Providers(wish.numbers.workers, share=Share(0, wish.processes))
    endpoints, system = endpoints_of(config, wish.endpoints), providers.system
    family = family_of(wish.network)
    pool = Pool(
        endpoints,
        family.queries,
        chain_id=wish.network.chain_id,
        max_calls=max_calls,
        patience=FIRST_PATIENCE,
        profiles=await _known_profiles(ledger_url, wish.network.name, endpoints, system),
        providers=providers,
    )
    async with nullcontext() if shared else providers, pool:
        absent = await _introduced(pool, family.queries.head)
        anchor = family.tables[0]
        source = family.source(pool, wish.network, [anchor.name], ())
        tip = await survey(source, wish.network, wish.confirmations)
        pool.patience = FIRST_PATIENCE if wish.retry.kind is RetryKind.HALT else PATIENCE
        assert pool.chain_id is not None
        network = replace(wish.network, chain_id=pool.chain_id)
        known = known_hashes(network, wish.anchors)
        trusted = [anchor.height for anchor in wish.anchors]
        await refuse_wrong_chain(source, pool.names, known, tip.final, network.name, trusted)
        if wish.heights.is_dated:
            async with _sink_at(config.sink(wish.sink), system, create=False) as sink:
                heights = await without_dates(wish.heights, tip, network, source, sink, system)
            wish = replace(wish, heights=heights)
        span = tip.pin(wish.heights)
        async with _sink_at(config.sink(wish.sink), system, create=create) as sink:
            spec = wish.spec(pool.chain_id, "" if sink is None else sink.id)
            opened = partial(Fetching, wish, ledger_url, providers, pool, absent, tip, span)
            if sink is None:
                yield opened(spec, sink, Holding(), RangeSet.of(span))
                return
            recorded = await anchors_of(sink, spec.chain_id)
            if not wish.replace_branch and recorded - known.items():
                known = known_hashes(network, [*wish.anchors, *recorded])
                await refuse_wrong_chain(source, pool.names, known, tip.final, network.name)
            spec = msgspec.structs.replace(spec, anchors=_texts(known))
            found = await abandoned(sink, anchor, spec.chain_id, span, source)
            stale = found.heights
            if not found.is_reorganisation(network.reorg_depth):
                if not wish.replace_branch:
                    raise _orphaned(wish, stale)
                for part in stale.spans:
                    await sink.retract(spec.chain_id, part, await sink.highest_fence())
                    await sink.withdraw(spec.chain_id, part)  # with anchors of the old branch
            elif stale:
                spec = msgspec.structs.replace(spec, refetch=True)
            held = await holding(sink, spec, span)
            _measure(spec, tip, held)
            missing = RangeSet.of(span) if wish.refetch else held.left(span)
            missing = (missing if wish.only is None else wish.only) | (stale & RangeSet.of(span))
            if create:
                await discard_damaged(sink, spec, span)
                anchors = frozenset(Anchor(*each) for each in known.items())
                datasets, checks = frozenset(spec.datasets), frozenset(spec.checks)
                await sink.request(spec.chain_id, Request(span, datasets, checks, anchors))
            yield opened(spec, sink, held, missing)


def _measure(spec: BlocksSpec, tip: Tip, held: Holding) -> None:
    """Tells the metrics how far the chain and the sink are."""
    chain = str(spec.chain_id)
    metrics.HEAD_HEIGHT.set(tip.head, chain)
    if held.done:
        metrics.STORED_HEIGHT.raise_to(held.done.spans[-1].last, chain, spec.sink)


def _texts(known: Mapping[int, bytes]) -> tuple[str, ...]:
    return tuple(str(Anchor(height, hash_)) for height, hash_ in sorted(known.items()))


def _orphaned(wish: Wish, stale: RangeSet) -> Orphaned:
    first, last = stale.spans[0].first, stale.spans[-1].last
    return Orphaned(
        f"stored blocks {first:,} to {last:,} of `{wish.sink}` are not on the node's chain:"
        " it changed deeper than a reorganisation does, or the node is on another chain or branch",
        stale=stale,
        remedy=ReplaceBranch(wish.sink, has_endpoint=wish.queue != FOREGROUND),
    )


async def _introduced(pool: Pool, head: Call) -> list[Absent]:
    """Asks every endpoint, so that one of another chain is found before anything is made.

    Tells which cannot be used for now; one that can is enough.
    """
    absent = await pool.meet()
    there = pool.names - {each.endpoint for each in absent}
    await asyncio.gather(*(pool.ask([head], avoid=pool.names - {name}) for name in there))
    return absent


async def _known_profiles(
    ledger_url: str, network: str, endpoints: Sequence[EndpointSpec], system: System
) -> dict[str, Profile]:
    """What the ledger knows of the endpoints, if there is a ledger."""
    with suppress(LedgerError):
        ledger = await open_ledger(ledger_url, create=False, system=system)
        try:
            return await kept_profiles(ledger, network, endpoints)
        finally:
            await ledger.close()
    return {}


@asynccontextmanager
async def _sink_at(target: str, system: System, *, create: bool) -> AsyncIterator[Sink | None]:
    """The sink; None if it is not there and may not be created."""
    try:
        sink = await open_sink(target, Access.CREATE if create else Access.READ, system=system)
    except SinkUnusable:
        if create:
            raise
        yield None
        return
    async with sink:
        yield sink
