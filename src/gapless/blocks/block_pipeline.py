"""The data plane of a block backfill: its endpoints, its sink, and the runs between them.

A process opens one pipeline and all its runs share it: the limit on requests in flight, the
learned provider limits, the decoding threads and the sink connection. The ledger stores only the
names of endpoints and sinks; each process resolves a name through its own configuration.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial

import msgspec

from gapless.blocks.counts import Counts
from gapless.blocks.derivation import Derivation
from gapless.blocks.holding import holding
from gapless.blocks.reproof import Reproof
from gapless.blocks.same_database import SameDatabaseWriter, same_database
from gapless.blocks.spec import BlocksSpec
from gapless.chains.identity import refuse_wrong_chain
from gapless.chains.opening import open_sink
from gapless.config import Config, is_name
from gapless.core.errors import Damaged, MissingHistory, PermanentError, StopRequested, UsageError
from gapless.core.heights import HIGHEST
from gapless.core.proof import LINK
from gapless.core.ranges import RangeSet, Span
from gapless.ledger import Ledger
from gapless.pipeline.block_reader import BlockReader, reading_threads
from gapless.pipeline.flow import Flow, Sizes, Target, Units
from gapless.pipeline.pinned import PinnedUnits
from gapless.pipeline.stop import StopSignal, stop_on
from gapless.providers import EndpointSpec, Pool, Profile, Providers
from gapless.providers.registry import fingerprint
from gapless.runtime.context import Context
from gapless.runtime.job import Chunk
from gapless.schema import Table
from gapless.sinks import Access, JoiningSink, Sink
from gapless.telemetry import metrics


class BlockPipeline:
    """Fetches chunks of blocks into a sink."""

    def __init__(
        self,
        spec: BlocksSpec,
        pool: Pool,
        reader: BlockReader,
        sink: Sink,
        threads: Executor,
    ) -> None:
        self.spec = spec
        self.pool = pool
        self.reader = reader
        self.sink = sink
        self.blocks = self.batches = 0  # written
        self.reproven = 0  # blocks verified again from their stored rows
        self._threads = threads
        self.used_up = asyncio.Event()  # set when no more calls are allowed
        self._runs = 0
        self._flows: set[Flow] = set()
        self._joined: JoiningSink | None = None
        self._asked = False  # whether `_joined` has been determined

    @property
    def counts(self) -> Counts:
        return Counts(
            fetched=self.reader.fetched,
            at_hand=sum(flow.unwritten for flow in self._flows),
            blocks=self.blocks,
            batches=self.batches,
            reproven=self.reproven,
            calls=dict(self.pool.calls),
            requests=self.pool.requests,
            retries=self.pool.retries,
            refused=self.reader.refused.total(),
            endpoints={
                name: msgspec.structs.replace(served, refused=self.reader.refused[name])
                for name, served in self.pool.served().items()
            },
        )

    @property
    def writing(self) -> RangeSet:
        """The heights that the sink is writing now."""
        return RangeSet(flow.writing for flow in self._flows if flow.writing is not None)

    async def run(
        self,
        chunk: Chunk,
        context: Context,
        expected: Mapping[int, bytes] | None = None,
        final: int | None = None,
    ) -> None:
        """Writes the blocks of a chunk.

        A run that is asked to stop stores the blocks it has already fetched and returns the rest.
        Blocks that are not final yet come with the hashes that are `expected` of them, and no other
        blocks are written. Stored blocks above `final` are not replaced: that is up to a follower.
        """
        with stop_on(context.stop_requested) as stop:
            await self._store(chunk, context, stop, expected, final)

    async def _store(
        self,
        chunk: Chunk,
        context: Context,
        stop: StopSignal,
        expected: Mapping[int, bytes] | None,
        final: int | None,
    ) -> None:
        units: Units = self.reader if expected is None else PinnedUnits(self.reader, expected)
        sizes = Sizes(
            batch_blocks=self.spec.batch_size,
            ahead=self._ahead,
            linked=LINK in self.spec.checks,
            mends_to=HIGHEST if final is None else final,
            replaces=self.spec.refetch,
        )
        last = chunk.whole_spans[-1].last
        written = partial(self._written, context)
        joined = await self._joins(context.ledger)
        self._runs += 1
        try:
            for span in chunk.spans:
                missing = await self._missing(span, context)
                if expected is not None and missing != RangeSet.of(span):
                    missing |= await self._unlike(span, expected)
                for part in missing.spans:
                    sink: Target = self.sink
                    if joined is not None:
                        sink = SameDatabaseWriter(joined, context, part.first)
                    flow = Flow(units, sink, context.fence, written, stop, sizes)
                    await self._run(flow, part, stop)
        except Exception as error:
            if self.pool.used_up:  # the owner of the call limit stops all runs
                self.used_up.set()
                await context.stop_requested()
            if stop.requested:  # the chunk itself did not fail
                raise StopRequested(str(error)) from error
            raise
        finally:
            self._runs -= 1
        if chunk.spans[-1].last == last:
            context.progress(last)

    async def _missing(self, span: Span, context: Context) -> RangeSet:
        """Returns the heights to fetch; uses stored rows where these are sufficient."""
        whole, chain_id = RangeSet.of(span), self.spec.chain_id
        held = await holding(self.sink, self.spec, span)
        for damaged in held.damaged.spans:  # unreadable, so no part of it can be kept
            await self.sink.retract(chain_id, damaged, context.fence)
        if self.spec.refetch:
            await self._discard_unreadable(span, context.fence)
            await self._discard_unrecorded(span, context.fence)
            return whole
        reproof = Reproof(self.sink, self.spec, self._threads, context.check)
        derivation = Derivation(self.sink, self.spec, self._threads, context.check)
        try:
            proven = await reproof.prove(held.weak, context.fence)
            proven |= await derivation.derive(held.derivable, context.fence)
        except Damaged as unreadable:
            await self.sink.retract(chain_id, unreadable.span, context.fence)
            return await self._missing(span, context)
        self.reproven += len(proven)
        return whole - held.done - proven

    async def _unlike(self, span: Span, expected: Mapping[int, bytes]) -> RangeSet:
        """The stored blocks of a span that do not have the expected hash."""
        anchor = self.reader.anchor
        columns = ("block_number", anchor.links.hash)
        rows = await self.sink.read(anchor, self.spec.chain_id, span, columns)
        heights, hashes = (rows[name].to_pylist() for name in columns)
        stored = zip(heights, hashes, strict=True)
        return RangeSet.from_members(at for at, found in stored if expected.get(at) != found)

    async def _discard_unreadable(self, span: Span, fence: int) -> None:
        """Retracts ranges with values that violate a column's type: they cannot be split."""
        records = await self.sink.records(self.spec.chain_id, span)
        try:
            for table in self._tables(it.dataset for it in records):
                await self.sink.read(table, self.spec.chain_id, span)
        except Damaged:
            for each in RangeSet(it.span for it in records).spans:
                await self.sink.retract(self.spec.chain_id, each, fence)

    async def _discard_unrecorded(self, span: Span, fence: int) -> None:
        """Retracts rows without a record: they would conflict with the rows to be written."""
        chain_id = self.spec.chain_id
        records = await self.sink.records(chain_id, span)
        for table in self._tables(self.spec.datasets):
            recorded = RangeSet(it.span for it in records if it.dataset == table.name)
            for unknown in (RangeSet.of(span) - recorded).spans:
                if (await self.sink.counts(table, chain_id, unknown)).num_rows:
                    await self.sink.retract(chain_id, unknown, fence)

    def _tables(self, datasets: Iterable[str]) -> list[Table]:
        wanted = {*datasets}
        return [table for table in self.spec.family.tables if table.name in wanted]

    async def _joins(self, ledger: Ledger) -> JoiningSink | None:
        """The sink, if it shares one database with the ledger; determined once."""
        if not self._asked:
            self._joined = await same_database(self.sink, ledger)
            self._asked = True
        return self._joined

    async def _run(self, flow: Flow, span: Span, stop: StopSignal) -> None:
        self._flows.add(flow)
        try:
            await flow.run(span)
        except MissingHistory as error:
            left = Span(error.height, span.last)
            last = await stop.limit(self.reader.last_missing(left))
            raise PermanentError(
                f"{error}: {error.hint}", partition=error.height, through=last
            ) from error
        finally:
            self._flows.discard(flow)

    async def _written(self, context: Context, span: Span) -> None:
        """Records a batch that the sink has stored."""
        self.blocks += span.size
        self.batches += 1
        metrics.BLOCKS.add(span.size)
        metrics.BATCHES.add(1)
        metrics.STORED_HEIGHT.raise_to(span.last, str(self.spec.chain_id), self.spec.sink)
        context.progress(span.last)

    def _ahead(self) -> int:
        """Units of one run that may be in flight or queued: two per request, split among runs."""
        return max(2, 2 * self.pool.slots // self._runs)


@contextmanager
def pipeline_between(spec: BlocksSpec, pool: Pool, sink: Sink) -> Iterator[BlockPipeline]:
    """The pipeline between open endpoints and an open sink."""
    with reading_threads(spec.family, pool.system) as threads:
        source = spec.family.source(pool, spec.chain, spec.datasets, spec.checks)
        reader = BlockReader(spec.family, source, spec.wanted, threads, pool.system)
        yield BlockPipeline(spec, pool, reader, sink, threads)


@asynccontextmanager
async def open_pipeline(
    spec: BlocksSpec,
    config: Config,
    ledger: Ledger,
    providers: Providers,
    *,
    max_calls: int | None = None,
) -> AsyncIterator[BlockPipeline]:
    """Opens the pipeline of a backfill, with the endpoint profiles that earlier ones learned."""
    endpoints = endpoints_of(config, spec.endpoints)
    pool = Pool(
        endpoints,
        spec.family.queries,
        providers=providers,
        chain_id=spec.chain_id,
        max_calls=max_calls,
        profiles=await kept_profiles(ledger, spec.network, endpoints),
    )
    opened = open_sink(config.sink(spec.sink), Access.WRITE, system=providers.system)
    async with await opened as sink, pool:
        if sink.id != spec.sink_id:
            raise UsageError(
                f"sink `{spec.sink}` is not the sink that this backfill was created for",
                hint="fetch the range again to create a backfill for the current sink",
            )
        if known := spec.known_hashes:
            anchor = spec.family.tables[0].name
            source = spec.family.source(pool, spec.chain, [anchor], ())
            await refuse_wrong_chain(source, pool.names, known, max(known), spec.network)
        await ledger.raise_fence(await sink.highest_fence())
        with pipeline_between(spec, pool, sink) as pipeline:
            yield pipeline
        await keep_profiles(ledger, spec.network, pool)


def endpoints_of(config: Config, names: Iterable[str]) -> list[EndpointSpec]:
    """Resolves endpoint names through the configuration of this process.

    Learned limits are stored by name. A host does not identify an endpoint, since two API keys on
    one host may have different limits; an endpoint given by URL is identified by its fingerprint.
    """
    found = [(name, config.endpoint(name)) for name in names]
    return [
        EndpointSpec(
            name,
            it.url,
            it.rps,
            profile="" if _named(name) else fingerprint(it.url, it.headers),
            ws=it.ws or "",
            headers=it.headers,
        )
        for name, it in found
    ]


def _named(endpoint: str) -> bool:
    return is_name(endpoint) or endpoint.startswith("env:")


async def kept_profiles(
    ledger: Ledger, network: str, specs: Iterable[EndpointSpec]
) -> dict[str, Profile]:
    """Stored endpoint profiles by name; unreadable ones are skipped and learned again."""
    kept = await ledger.profiles(network)
    found = {}
    for spec in specs:
        with suppress(msgspec.ValidationError, KeyError):
            found[spec.name] = msgspec.convert(kept[spec.key], Profile)
    return found


async def keep_profiles(ledger: Ledger, network: str, pool: Pool) -> None:
    """Stores the learned profiles of a pool's endpoints."""
    learned = {key: msgspec.to_builtins(each) for key, each in pool.profiles_by_key().items()}
    await ledger.keep_profiles(network, learned)
