"""Publishers of one stream, whose every call a seed interrupts, delays or lets fail.

The sink is a real SQLite file. The stream is a model of the contract in memory, or a real server of
Redis; the same seed does the same on both. Two publishers take turns. Before and after each of
their calls, to the sink or to the stream, the seed decides what happens next: the other publisher,
a write, a reorganisation, a crash, a lost answer. At the end everything calms down, and a consumer
that replays the stream must have exactly the chain.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any, Protocol

import pyarrow as pa

from gapless.chains.evm.decode.structs import parse_block, parse_receipts
from gapless.chains.evm.decode.tables import decode_blocks
from gapless.chains.evm.tables import TABLES
from gapless.chains.opening import open_sink
from gapless.core.errors import GaplessError, StreamUnreachable
from gapless.core.ranges import RangeSet, Span
from gapless.devnode import Parameters, simulated
from gapless.publishers.entries import EntryTables
from gapless.publishers.feeder import Feeder, FeederOptions
from gapless.publishers.publisher import PublishedBlock, Publisher
from gapless.publishers.rows import StoredBlocks
from gapless.schema.arrow import Tables
from gapless.sinks import Batch, Sink
from tests.conformance.publisher.consumer import Seen, expected, replayed
from tests.conformance.sink.stage import within

CHAIN_ID = 1337
HEAD = 40
DEPTH = 12  # hashes that the stream keeps
DEEPEST = 6  # blocks that a reorganisation replaces
ENTRIES = EntryTables.of(TABLES)
STEPS = 45
_MOST_MOVES = 1500


class Server(Protocol):
    """A server of streams, as a seed handles it."""

    async def connect(self, owner: str) -> Publisher: ...
    async def entries(self) -> list[Seen]: ...
    async def flush(self) -> None: ...
    async def expire_lease(self) -> None: ...
    async def crash(self) -> None: ...
    async def close(self) -> None: ...


@dataclass
class Crash(Exception):
    """The process of a publisher ends here."""


@dataclass
class Actor:
    """A publisher process, which stops before and after every call."""

    name: str
    task: asyncio.Task[int | None] | None = None
    parked: asyncio.Event = field(default_factory=asyncio.Event)
    release: asyncio.Future[BaseException | None] | None = None
    feeder: Feeder | None = None
    stream: Publisher | None = None
    at: str = ""

    async def pass_gate(self, at: str) -> None:
        self.at = at
        self.release = asyncio.get_running_loop().create_future()
        self.parked.set()
        error = await self.release
        if error is not None:
            raise error


class Gated:
    """A sink or a stream whose calls stop before and after."""

    def __init__(self, wrapped: Any, actor: Actor) -> None:
        self._wrapped, self._actor = wrapped, actor

    def __getattr__(self, name: str) -> Any:
        if not callable(getattr(type(self._wrapped), name, None)):
            return getattr(self._wrapped, name)

        async def call(*arguments: Any, **named: Any) -> Any:
            await self._actor.pass_gate(f"before {name}")
            result = await getattr(self._wrapped, name)(*arguments, **named)
            await self._actor.pass_gate(f"after {name}")
            return result

        return call


class PublishWorld:
    """One run from one seed."""

    def __init__(self, seed: int, server: Server, sink: Sink) -> None:
        self.chance = Random(f"publish {seed}")
        self.server, self.sink = server, sink
        self.actors = [Actor("one"), Actor("two")]
        self.chain = BranchedChain()
        self.tip, self.fence = 8, 0
        self.stored = RangeSet()
        self.start = self.chance.choice((0, 3, None))
        self.lease = self.chance.choice((0.0, 3600.0))
        self.trace: list[str] = []
        self.seen: list[Seen] = []
        self.problem: str | None = None

    async def run(self) -> None:
        actions: list[tuple[Callable[[], Awaitable[None]], int]] = [
            (self._publish, 60),
            (self._write, 20),
            (self._grow, 8),
            (self._reorganise, 10),
            (self.server.expire_lease, 2),
            (self.server.crash, 1),
            (self._flush, 1),
            (self._replay, 2),
        ]
        if self.chance.random() < 0.8:
            await self._begin()
        steps, weights = zip(*actions, strict=True)
        for step in self.chance.choices(steps, weights, k=STEPS):
            await step()
        await self._calm()

    async def _begin(self) -> None:
        """Publishes some blocks in peace, so that there is something to retract from the start."""
        self.tip = self.chance.randint(12, 20)
        await self._store(Span(self.chance.choice((0, 5)), self.tip))
        stream = await self.server.connect("first")
        options = FeederOptions("events", "events", self.start, DEPTH)
        feeder = Feeder(StoredBlocks(self.sink, CHAIN_ID, ENTRIES), stream, options)
        while await feeder.turn():
            pass
        await stream.resign()

    async def _write(self) -> None:
        """Stores some missing blocks, often the newest first."""
        missing = (RangeSet.of((0, self.tip)) - self.stored).spans
        if not missing:
            return
        span = missing[-1] if self.chance.random() < 0.6 else self.chance.choice(missing)
        size = self.chance.randint(1, 4)
        if self.chance.random() < 0.5:
            span = Span(max(span.first, span.last - size + 1), span.last)
        else:
            span = Span(span.first, min(span.last, span.first + size - 1))
        await self._store(span)

    async def _store(self, span: Span) -> None:
        self.fence += 1
        await self.sink.write(Batch(CHAIN_ID, span, self.chain.rows(span)), self.fence)
        self.stored |= RangeSet.of(span)
        self.trace.append(f"stored {span}")

    async def _grow(self) -> None:
        self.tip = min(HEAD, self.tip + self.chance.randint(1, 4))

    async def _reorganise(self) -> None:
        lowest = max(1, self.tip - DEEPEST + 1)
        fork = self.chain.returned(lowest, self.tip) if self.chance.random() < 0.4 else None
        if fork is None:
            fork = self.chance.randint(lowest, self.tip)
            self.chain.reorganise(fork)
        self.fence += 1
        await self.sink.retract(CHAIN_ID, Span(fork, HEAD), self.fence)
        self.stored -= RangeSet.of((fork, HEAD))
        self.trace.append(f"retracted from {fork} on")
        if self.chance.random() < 0.5:
            await self._store(Span(fork, self.tip))

    async def _flush(self) -> None:
        if self.chance.random() < 0.5:
            await self.server.flush()
            self.trace.append("flushed")

    async def _replay(self) -> None:
        """Takes over to retract a block, which somebody must publish again."""
        stream = await self.server.connect("replay")
        await stream.lead(3600.0, force=True)
        if heights := [*(await stream.record()).heights]:
            chosen = self.chance.choice(heights)
            await stream.retract([PublishedBlock(chosen, None)], None)
            self.trace.append(f"replayed {chosen}")
        await stream.resign()

    async def _publish(self) -> None:
        """Lets one of the publishers pass some gates."""
        actor = self.chance.choice(self.actors)
        for _ in range(self.chance.choice((1, 4, 12, 24))):
            fate: BaseException | None = None
            if self.chance.random() < 0.02:
                fate = Crash()
            elif self.chance.random() < 0.02:
                fate = StreamUnreachable("the answer was lost")
            await self._move(actor, fate)

    async def _move(self, actor: Actor, fate: BaseException | None = None) -> int | None:
        actor.parked.clear()
        if actor.task is None:
            actor.task = asyncio.create_task(self._turn(actor))
        else:
            assert actor.release is not None
            actor.release.set_result(fate)
        parked = asyncio.create_task(actor.parked.wait())
        await asyncio.wait([actor.task, parked], return_when=asyncio.FIRST_COMPLETED)
        parked.cancel()
        if not actor.task.done():
            self.trace.append(f"{actor.name} {actor.at}{f' {fate!r}' if fate else ''}")
            return None
        task, actor.task = actor.task, None
        try:
            done = task.result()
        except (Crash, GaplessError) as error:
            self.trace.append(f"{actor.name} ends: {error!r}")
            actor.feeder = None
            return None
        self.trace.append(f"{actor.name} took a turn: {done}")
        return done

    async def _turn(self, actor: Actor) -> int | None:
        if actor.feeder is None:
            stream = await self.server.connect(actor.name)
            options = FeederOptions("events", "events", self.start, DEPTH, self.lease)
            blocks = StoredBlocks(Gated(self.sink, actor), CHAIN_ID, ENTRIES)
            actor.feeder = Feeder(blocks, Gated(stream, actor), options)
        return await actor.feeder.turn()

    async def _calm(self) -> None:
        """Everything works again. Publishers that sleep wake up in the middle of it."""
        while missing := (RangeSet.of((0, self.tip)) - self.stored).spans:
            await self._store(missing[0])
        survivor = self.chance.choice(self.actors)
        await self.server.expire_lease()
        for _ in range(_MOST_MOVES):
            actor = self.chance.choice(self.actors)
            if actor.task is None and actor is not survivor:
                continue
            done = await self._move(actor)
            if actor is not survivor:
                await self.server.expire_lease()  # of a publisher that woke up too late
            elif actor.task is None and done == 0 and await self._is_complete():
                break
        await self._compare()

    async def _is_complete(self) -> bool:
        record = await (await self.server.connect("observer")).record()
        return record.complete_to == self.tip

    async def _compare(self) -> None:
        span = Span(self.start or 0, self.tip)
        rows, self.seen = self.chain.rows(span), [*await self.server.entries()]
        assert replayed(self.seen) == expected(ENTRIES.outgoing(rows, span))

    async def close(self) -> None:
        for actor in self.actors:
            if actor.task is not None:
                actor.task.cancel()
                await asyncio.gather(actor.task, return_exceptions=True)
        await self.server.close()


class BranchedChain:
    """A chain that can be reorganised thousands of times: its hashes are invented.

    The content of a block is that of some block of a simulated chain, another one on each branch.
    """

    def __init__(self) -> None:
        self._branches = [0] * (HEAD + 1)  # the branch that each height is on
        self._before = self._branches
        self._latest = 0

    def reorganise(self, fork: int) -> None:
        self._latest += 1
        self._before = self._branches
        self._branches = [*self._branches[:fork], *[self._latest] * (HEAD + 1 - fork)]

    def returned(self, lowest: int, highest: int) -> int | None:
        """Returns to the branch before, if it differs from these heights on; at which height?"""
        pairs = zip(self._branches, self._before, strict=True)
        fork = next((at for at, (now, before) in enumerate(pairs) if now != before), None)
        if fork is None or not lowest <= fork <= highest:
            return None
        self._branches, self._before = self._before, self._branches
        return fork

    def rows(self, span: Span) -> Tables:
        """All rows of some blocks."""
        found: dict[str, list[pa.Table]] = {table.name: [] for table in TABLES}
        for height in range(span.first, span.last + 1):
            source = (height + 7 * self._branches[height]) % (HEAD + 1)
            for name, rows in contents(source).items():
                moved = _with(rows, "block_number", pa.array([height] * rows.num_rows, pa.uint64()))
                if name == TABLES[0].name:
                    moved = _with(moved, "hash", self._hash(height))
                    moved = _with(moved, "parent_hash", self._hash(height - 1))
                found[name].append(moved)
        return Tables({name: pa.concat_tables(rows) for name, rows in found.items()})

    def _hash(self, height: int) -> pa.Array:
        text = f"{height} on {self._branches[height]}" if height >= 0 else "before all"
        return pa.array([sha256(text.encode()).digest()], pa.binary(32))


def _with(rows: pa.Table, name: str, values: pa.Array) -> pa.Table:
    at = rows.schema.get_field_index(name)
    return rows.set_column(at, rows.schema.field(at), values)


@cache
def contents(height: int) -> dict[str, pa.Table]:
    """The rows of one block of the simulated chain."""
    return {name: within(rows, Span(height, height)) for name, rows in _simulated().items()}


@cache
def _simulated() -> Tables:
    parameters = Parameters(blocks=HEAD, txs=2, fewest=0, empty_every=4, seed=9, chain_id=CHAIN_ID)
    with tempfile.TemporaryDirectory() as folder:
        chain = simulated(parameters, Path(folder))
        blocks = [parse_block(chain.block(height)) for height in range(HEAD + 1)]
        receipts = [parse_receipts(chain.receipts(height)) for height in range(HEAD + 1)]
        return decode_blocks(blocks, receipts, CHAIN_ID)


@cache
def _empty_sink() -> Path:
    """A new sink, to be copied: creating one takes longer than a run."""
    folder = Path(tempfile.mkdtemp(prefix="gapless-publish-"))

    async def create() -> None:
        async with await open_sink(str(folder / "empty.db")):
            pass

    asyncio.run(create())
    return folder / "empty.db"


def run_publish(seed: int, server: Callable[[], Server]) -> PublishWorld:
    """Run a seed; the world that is returned knows what happened."""
    empty = _empty_sink()
    with tempfile.TemporaryDirectory(prefix="gapless-publish-", dir=_memory()) as folder:
        path = Path(folder) / "sink.db"
        shutil.copy(empty, path)

        async def go() -> PublishWorld:
            async with await open_sink(str(path)) as sink:
                world = PublishWorld(seed, server(), sink)
                try:
                    await world.run()
                except (AssertionError, LookupError) as error:
                    world.problem = f"{type(error).__name__}: {error}"
                finally:
                    await world.close()
                return world

        return asyncio.run(go())


def _memory() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None
