"""The data plane of a backfill of blocks: its endpoints, its sink, and the runs between them.

A process opens it once and all its runs share it: requests in flight, what was learned of the
providers, the decoding thread and the sink's connection. The ledger knows endpoints and sinks by
name only; what a name stands for is this process's own configuration.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from functools import partial

import msgspec

from gapless.checks.levels import Level, required
from gapless.config import Config
from gapless.core.anchors import Anchor
from gapless.core.errors import (
    MissingHistory,
    PermanentError,
    SinkError,
    StopRequested,
    UsageError,
)
from gapless.core.ranges import RangeSet, Span
from gapless.ledger import Ledger
from gapless.ledger.records import Coverage
from gapless.networks import Check, Network, find_network
from gapless.pipeline.flow import Flow, Sizes, Target
from gapless.pipeline.intake import Intake, Wanted
from gapless.runtime.context import Context
from gapless.runtime.counts import Counts
from gapless.runtime.job import Chunk
from gapless.runtime.joined import JoinedWriter, joining
from gapless.sinks import JoiningSink, Sink, Stored
from gapless.sinks.location import open_sink
from gapless.sources.evm.source import EvmSource
from gapless.sources.rpc import EndpointSpec, Pool, Profile, Providers
from gapless.sources.rpc.providers import fingerprint
from gapless.telemetry import metrics


class BlocksSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What a backfill of blocks is about; it holds names, never a URL."""

    network: str
    chain_id: int
    endpoints: tuple[str, ...]
    sink: str
    sink_id: str
    datasets: tuple[str, ...]
    verify: Level  # the name that was asked for; `checks` is what it meant then
    checks: tuple[Check, ...]
    anchors: tuple[str, ...] = ()  # that a person trusts, beside those of the network
    batch_size: int

    @property
    def chain(self) -> Network:
        return replace(find_network(self.network), chain_id=self.chain_id)

    @property
    def known_hashes(self) -> dict[int, bytes]:
        """The hashes of blocks that are known beforehand, by height."""
        return known_hashes(self.chain, map(Anchor.parse, self.anchors))

    @property
    def wanted(self) -> Wanted:
        return Wanted(
            self.chain,
            self.chain_id,
            frozenset(self.checks),
            frozenset(self.datasets),
            {height: f"0x{hash_.hex()}" for height, hash_ in self.known_hashes.items()},
        )


def known_hashes(network: Network, anchors: Iterable[Anchor]) -> dict[int, bytes]:
    """The network's own anchors and a person's, by height; two that contradict are an error."""
    found = dict(network.anchors)
    for height, hash_ in anchors:
        if found.setdefault(height, hash_) != hash_:
            raise UsageError(
                f"the anchor at {height:,} contradicts another one: `{network.name}` has"
                f" 0x{found[height].hex()} there",
                hint="check the hash, and the network's name",
            )
    return found


class Plane:
    """Fetches chunks of blocks into a sink."""

    def __init__(
        self, spec: BlocksSpec, pool: Pool, intake: Intake, sink: Sink, workers: int
    ) -> None:
        self.spec = spec
        self.pool = pool
        self.intake = intake
        self.sink = sink
        self.blocks = self.batches = 0  # written
        self.used_up = asyncio.Event()  # set when no more calls are allowed
        self._workers = workers
        self._runs = 0
        self._joined: JoiningSink | None = None
        self._asked = False  # whether they are one database

    @property
    def counts(self) -> Counts:
        return Counts(
            blocks=self.blocks,
            batches=self.batches,
            calls=dict(self.pool.calls),
            requests=self.pool.requests,
            retries=self.pool.retries,
            refused=self.intake.refused.total(),
            endpoints={
                name: msgspec.structs.replace(served, refused=self.intake.refused[name])
                for name, served in self.pool.served().items()
            },
        )

    async def run(self, chunk: Chunk, context: Context) -> None:
        """Writes the blocks of a chunk, and tells what is stored of it."""
        sizes = Sizes(
            batch_blocks=self.spec.batch_size,
            ahead=self._ahead,
            linked=Check.LINK in self.spec.checks,
        )
        last = chunk.whole_spans[-1].last
        written = partial(self._written, context, last)
        joined = await self._joins(context.ledger)
        self._runs += 1
        try:
            for span in chunk.spans:
                done = await covered(self.sink, self.spec, span)
                for part in (RangeSet.of(span) - done).spans:
                    sink: Target = self.sink
                    if joined is not None:
                        sink = JoinedWriter(joined, context, part.first, self._coverage)
                    await self._run(Flow(self.intake, sink, context.fence, written, sizes), part)
        except Exception as error:
            if joined is None:  # what was written before is stored all the same
                with suppress(SinkError):  # which may be why
                    await self._cover(chunk, context)
            if self.pool.used_up:  # no fault of the chunk's
                self.used_up.set()
                raise StopRequested(str(error)) from error
            raise
        finally:
            self._runs -= 1
        await self._cover(chunk, context)
        if chunk.spans[-1].last == last:
            context.progress(last)

    async def _joins(self, ledger: Ledger) -> JoiningSink | None:
        """The sink, if it is one database with the ledger; found out once."""
        if not self._asked:
            self._joined = await joining(self.sink, ledger)
            self._asked = True
        return self._joined

    async def _run(self, flow: Flow, span: Span) -> None:
        try:
            await flow.run(span)
        except MissingHistory as error:
            last = await self.intake.last_missing(Span(error.height, span.last))
            raise PermanentError(
                f"{error}: {error.hint}", partition=error.height, through=last
            ) from error

    async def _written(self, context: Context, last: int, span: Span) -> None:
        """Reports a batch; the last of a chunk only once its coverage was told."""
        self.blocks += span.size
        self.batches += 1
        metrics.BLOCKS.add(span.size)
        metrics.BATCHES.add(1)
        if span.last < last:
            context.progress(span.last)
        else:
            context.check()

    async def _cover(self, chunk: Chunk, context: Context) -> None:
        for span in chunk.whole_spans:
            stored = await self.sink.stored(self.spec.chain_id, span)
            context.cover([self._coverage(each) for each in stored])

    def _ahead(self) -> int:
        """How many units of a run may be under way or wait: twice the workers, for all runs."""
        return max(2, 2 * self._workers // self._runs)

    def _coverage(self, stored: Stored) -> Coverage:
        return Coverage(
            sink_id=self.sink.id,
            network=self.spec.network,
            dataset=stored.dataset,
            span=stored.span,
            first_parent_hash=stored.parent_hash,
            last_hash=stored.last_hash,
            rows=stored.rows,
            digest=stored.digest,
            checks=stored.proven,
            unproven=stored.unproven,
            fence=stored.fence,
        )


async def covered(sink: Sink, spec: BlocksSpec, span: Span) -> RangeSet:
    """The heights of a span that the sink holds as they are asked for."""
    stored = await sink.stored(spec.chain_id, span)
    found = RangeSet.of(span)
    for dataset in spec.datasets:
        found &= RangeSet(
            each.span for each in stored if each.dataset == dataset and _suffices(each, spec)
        )
    return found


def _suffices(stored: Stored, spec: BlocksSpec) -> bool:
    """Whether all was checked that is asked for, as far as it could be."""
    made = stored.proven | stored.unproven
    checks = frozenset(spec.checks)
    starts = {stored.span.first, *(era.start for era in spec.chain.eras)}
    heights = (height for height in starts if stored.span.first <= height <= stored.span.last)
    return all(required(spec.chain, checks, height) <= made for height in heights)


@contextmanager
def plane_with(spec: BlocksSpec, pool: Pool, sink: Sink, workers: int) -> Iterator[Plane]:
    """The plane between endpoints and a sink that are open."""
    with ThreadPoolExecutor(1, thread_name_prefix="gapless-decode") as threads:
        source = EvmSource(
            pool,
            spec.chain,
            receipts=spec.wanted.receipts,
            second_opinions=bool(spec.checks),
        )
        headers = EvmSource(pool, spec.chain, receipts=False)
        intake = Intake(source, headers, spec.wanted, threads)
        yield Plane(spec, pool, intake, sink, workers)


@asynccontextmanager
async def open_plane(
    spec: BlocksSpec,
    config: Config,
    ledger: Ledger,
    providers: Providers,
    *,
    max_calls: int | None = None,
) -> AsyncIterator[Plane]:
    """The plane of a backfill, with what earlier ones learned of its endpoints."""
    endpoints = endpoints_of(config, spec.endpoints)
    pool = Pool(
        endpoints,
        providers=providers,
        chain_id=spec.chain_id,
        max_calls=max_calls,
        profiles=await kept_profiles(ledger, spec.network, endpoints),
    )
    async with await open_sink(config.sink(spec.sink)) as sink, pool:
        if sink.id != spec.sink_id:
            raise UsageError(
                f"the sink `{spec.sink}` is not the one that this backfill was made for",
                hint="fetch the range again: it gets a backfill for the sink that is there now",
            )
        await ledger.raise_fence(await sink.highest_fence())
        with plane_with(spec, pool, sink, providers.workers) as plane:
            yield plane
        await keep_profiles(ledger, spec.network, pool)


def endpoints_of(config: Config, names: Iterable[str]) -> list[EndpointSpec]:
    """The endpoints of these names, as this process knows them."""
    found = [(name, config.endpoint(name)) for name in names]
    return [
        EndpointSpec(name, it.url, it.rps, profile=fingerprint(it.url) if it.given else name)
        for name, it in found
    ]


async def kept_profiles(
    ledger: Ledger, network: str, specs: Iterable[EndpointSpec]
) -> dict[str, Profile]:
    """What the ledger knows of endpoints, by name; what cannot be read any more is learned anew."""
    kept = await ledger.profiles(network)
    found = {}
    for spec in specs:
        with suppress(msgspec.ValidationError, KeyError):
            found[spec.name] = msgspec.convert(kept[spec.key], Profile)
    return found


async def keep_profiles(ledger: Ledger, network: str, pool: Pool) -> None:
    """Keeps what was learned of the endpoints of a pool."""
    learned = {key: msgspec.to_builtins(each) for key, each in pool.profiles_by_key().items()}
    await ledger.keep_profiles(network, learned)
