"""A run: processes, providers, a ledger and a sink on one virtual clock, from one seed.

    outcome = run(4711)
    assert outcome.problem is None, outcome

The processes are real engines and fetches; only what `System` and the HTTP transport stand for is
simulated. Troubles come as the scenario says, until it is quiet; then every process gets as long as
it needs, and at the end the sink is compared with the chain.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from traceback import format_exception
from typing import Any

import apsw

import gapless
from gapless.blocks.finish_job import finished_by_workers
from gapless.blocks.job import PROVIDERS
from gapless.blocks.request import FetchOptions, wish_for
from gapless.blocks.session import open_fetch
from gapless.chains.opening import open_sink
from gapless.config import load
from gapless.core.backfill import State
from gapless.core.errors import GaplessError
from gapless.core.ranges import RangeSet
from gapless.devnode import Chain, Parameters, simulated
from gapless.ledger import open_ledger
from gapless.ledger.records import BackfillRequest
from gapless.ledger.views import EVERYTHING
from gapless.providers import Providers
from gapless.runtime.worker import WorkerOptions
from gapless.sinks import Access
from gapless.system import Process as Identity
from tests.simulation import laws
from tests.simulation.loop import PROCESS, START, Process, Stuck, VirtualLoop
from tests.simulation.machine import Disk, Machine, close_with_process
from tests.simulation.network import Network, Node
from tests.simulation.scenario import CHAINS, HEAD, Front, Kind, Scenario, TransportFailure, drawn

LONGEST = 12 * 3600.0
"""Seconds of virtual time, after the last trouble, in which everything must have come right."""

_CHAIN_ID = 1337
_RETRY = "[retry]\nbase = 2\nmax_delay = 20\n"


@dataclass(frozen=True)
class Outcome:
    """What came of a run."""

    seed: int
    problem: str | None
    trace: tuple[str, ...]
    seconds: float  # of virtual time

    def __str__(self) -> str:
        told = "\n".join(self.trace[-40:])
        command = f"python -m tests.simulation --seed {self.seed} --runs 1 --trace"
        return f"seed {self.seed}: {self.problem}\n{told}\nto reproduce it: {command}"


def run(seed: int, scenario: Scenario | None = None) -> Outcome:
    """Runs the scenario of a seed, or another one with the chance of this seed."""
    loop = VirtualLoop()
    asyncio.set_event_loop(loop)
    folder = Path(tempfile.mkdtemp(prefix="gapless-simulation-", dir=_memory()))
    trace: list[str] = []
    problem: str | None = None
    with _surroundings(folder), _logged(trace, loop, folder):
        world = World(scenario or drawn(seed), folder, loop, trace)
        try:
            loop.run_until_complete(world.run())
            problem = world.laws.broken
        except (laws.Broken, Stuck, Unexpected) as error:
            problem = world.laws.broken or f"{type(error).__name__}: {error}"
        finally:
            seconds = loop.time() - START
            told = tuple(trace)
            with _unraisable_ignored():
                world.dispose()
                loop.close()
                del world
                gc.collect()
            asyncio.set_event_loop(None)
            shutil.rmtree(folder)
    return Outcome(seed, problem, told, seconds)


class Unexpected(Exception):
    """A process ended by an error that is not one of ours."""


@dataclass
class Member:
    """A process with its machine, and how to ask it to stop."""

    process: Process
    machine: Machine
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    main: asyncio.Task[None] | None = None


class World:
    """Everything in one run."""

    def __init__(
        self, scenario: Scenario, folder: Path, loop: VirtualLoop, trace: list[str]
    ) -> None:
        self.scenario = scenario
        self._folder = folder
        self._loop = loop
        self._trace = trace
        self._chance = Random(f"world {scenario.seed}")
        self._url = f"sqlite:///{folder}/ledger.db"
        self._sink = folder / "sink.db"
        self.chain = _chain(scenario)
        self.laws = laws.Laws(folder / "ledger.db", self._sink, loop.time, self._said)
        self._nodes = {
            each.url: Node(each, self.chain, Random(f"{each.name} {scenario.seed}"), loop.time)
            for each in scenario.providers
        }
        self._network = Network(self._nodes, self._said)
        self._members: list[Member] = []
        self._everyone: list[Process] = []
        self._supervisors: list[asyncio.Task[None]] = []
        self._offsets: dict[str, float] = {}
        self._quiet = False
        self._over = False
        self._unexpected: BaseException | None = None
        self._observer = self._machine("observer", Disk(0.0001, 0.0002))
        self._write_config()
        loop.set_exception_handler(self._note_unhandled)

    # The run

    async def run(self) -> None:
        """Starts everybody, brings the troubles, and waits until all is stored and proven."""
        runner = self._work if self.scenario.front is Front.WORKERS else self._fetch
        if self.scenario.front is Front.WORKERS:
            self._supervise("client", self._submit, again=True)
        for number in range(self.scenario.processes):
            self._supervise(f"{self.scenario.front}{number}", runner, again=True)
        troubles = asyncio.create_task(self._bring_troubles())
        await asyncio.sleep(self.scenario.quiet_at)
        await troubles
        self._calm()
        await self._until_stored()
        self._over = True
        await self._stop_all()
        await self._compare()

    async def _until_stored(self) -> None:
        """Waits for the end; asks again for what was given up, as a person does."""
        until = self._loop.time() + LONGEST
        while not await self._stored():
            if self._loop.time() > until:
                raise laws.Broken(f"not done {LONGEST:g} s after the last trouble")
            await asyncio.sleep(15.0)

    async def _stored(self) -> bool:
        self._require_expected()
        if not self._all_ended():
            return False
        span = self.scenario.span
        async with await open_sink(
            str(self._sink), Access.READ, system=self._observer.system
        ) as sink:
            held = await sink.records(self.chain.chain_id, span)
        whole = RangeSet(it.span for it in held if it.dataset == "logs")
        if RangeSet.of(span) - whole:
            if self.scenario.front is Front.WORKERS:
                self._supervise("client-again", self._submit, again=False)
            return False
        return True

    def _all_ended(self) -> bool:
        """Whether every backfill has ended, and there is one.

        A fetch that finds everything stored leaves the ledger alone, even if an earlier process
        died before it could end their backfill: a worker ends it.
        """
        states: list[State] = []
        with suppress(apsw.Error), self._sql(self._folder / "ledger.db") as ledger:
            found: list[Any] = ledger.execute("SELECT state FROM backfills").fetchall()
            states = [State(state) for (state,) in found]
        ended = bool(states) and all(state.ended for state in states)
        if states and not ended and not self._members:
            self._supervise("settler", self._work, again=True)
        return ended

    async def _stop_all(self) -> None:
        for member in self._members:
            member.stop.set()
        mains = [each.main for each in self._members if each.main and each.process.alive]
        if mains:
            _, left = await asyncio.wait(mains, timeout=300.0)
            if left:
                raise laws.Broken(f"{len(left)} processes do not stop")
        self._require_expected()

    async def _compare(self) -> None:
        system = self._observer.system
        async with await open_sink(str(self._sink), Access.READ, system=system) as sink:
            await laws.require_rows(sink, self.chain, self.scenario.span)
            await laws.require_proof(sink, self.chain)
        ledger = await open_ledger(self._url, create=False, system=system)
        try:
            await laws.require_sound(ledger, await ledger.backfills(limit=EVERYTHING))
        finally:
            await ledger.close()

    def dispose(self) -> None:
        """Closes what crashed processes have left."""
        self._loop.set_exception_handler(lambda *_: None)
        for supervisor in self._supervisors:
            supervisor._log_destroy_pending = False  # type: ignore[attr-defined]
        for process in self._everyone:
            if process.alive:
                process.crash()
            process.dispose()
        self._observer.process.crash()
        self.laws.close()

    # Processes

    def _supervise(self, name: str, main: Runner, *, again: bool) -> None:
        keeping = self._keep_alive(name, main, again=again)
        self._supervisors.append(asyncio.create_task(keeping, name=f"supervisor-{name}"))

    async def _keep_alive(self, name: str, main: Runner, *, again: bool) -> None:
        """Starts a process anew whenever it has died or failed, as a supervisor does."""
        for attempt in range(200):
            member = await self._started(f"{name}.{attempt}", main)
            assert member.main is not None
            death = asyncio.create_task(member.process.death.wait())
            await asyncio.wait([member.main, death], return_when=asyncio.FIRST_COMPLETED)
            death.cancel()
            if self._over or (member.main.done() and not self._failed(member)):
                if member in self._members:
                    self._members.remove(member)
                return
            self._said(f"{member.process} is gone")
            if member in self._members:
                self._members.remove(member)
            if not again and self._quiet:
                return
            await asyncio.sleep(self._chance.uniform(0.1, 10.0))

    async def _started(self, name: str, main: Runner) -> Member:
        member = Member(*self._processed(name))
        self._members.append(member)
        self._said(f"{member.process} starts")
        member.main = member.process.start(main(member))
        return member

    def _failed(self, member: Member) -> bool:
        """Whether the main task failed; a stop, or an end of its work, is none."""
        assert member.main is not None
        error = None if member.main.cancelled() else member.main.exception()
        if error is None:
            return member.stop.is_set() and not self._over
        if not _ours(error):
            self._unexpected = self._unexpected or error
        self._said(f"{member.process} failed: {error!r}")
        return True

    def _note_unhandled(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Takes an error that nobody awaits as what it is: a bug, here or in the engine."""
        error = context.get("exception") or RuntimeError(context["message"])
        self._said(f"unhandled: {context['message']} {error!r}")
        self._unexpected = self._unexpected or error

    def _require_expected(self) -> None:
        if self._unexpected is not None:
            raise Unexpected("".join(format_exception(self._unexpected)))
        if self.laws.broken:
            raise laws.Broken(self.laws.broken)

    def _processed(self, name: str) -> tuple[Process, Machine]:
        machine = self._machine(name, Disk() if self._quiet else self.scenario.disk)
        machine.offset = self._offsets.get(machine.identity.host, 0.0)
        return machine.process, machine

    def _machine(self, name: str, disk: Disk) -> Machine:
        process = Process(name)
        self._everyone.append(process)
        host = f"host{len(self._everyone) % 3}/boot"
        return Machine(
            process=process,
            identity=Identity(host, 100 + len(self._everyone), "then"),
            chance=Random(f"{name} {self.scenario.seed}"),
            clock=self._loop.time,
            disk=disk,
            is_alive=self._is_alive,
            watch=self.laws,
        )

    def _is_alive(self, wanted: Identity) -> bool:
        return any(each.machine.identity == wanted and each.process.alive for each in self._members)

    # What processes do

    def _providers(self, machine: Machine) -> Providers:
        return Providers(4, system=machine.system, connect=self._network.connect)

    @property
    def _options(self) -> FetchOptions:
        scenario = self.scenario
        return FetchOptions(
            chunk_size=scenario.chunk_size, batch_size=scenario.batch_size, order=scenario.order
        )

    @property
    def _heights(self) -> str:
        return f"{self.scenario.span.first}:{self.scenario.span.last}"

    async def _submit(self, member: Member) -> None:
        """What `gapless fetch --detach` does."""
        names = [each.name for each in self.scenario.providers]
        wish, places = wish_for(
            load(), "custom", self._heights, names, "sink", self._options, detached=True
        )
        system = member.machine.system
        async with (
            self._providers(member.machine) as providers,
            open_fetch(wish, places.config, self._url, shared=providers) as fetching,
        ):
            if not fetching.missing:
                return
            ledger = await open_ledger(self._url, actor=member.process.name, system=system)
            wanted = await fetching.wanted(ledger)
            if isinstance(wanted, BackfillRequest):
                request = finished_by_workers(wanted)
                await ledger.create(replace(request, lease_seconds=self.scenario.lease_seconds))
            await ledger.close()

    async def _work(self, member: Member) -> None:
        """What `gapless worker` does."""
        options = WorkerOptions(
            poll_seconds=self.scenario.poll_seconds,
            heartbeat_seconds=self.scenario.heartbeat_seconds,
            drain_seconds=20.0,
        )
        async with self._providers(member.machine) as providers:
            engine = gapless.Engine(
                self._url,
                slots=self.scenario.slots,
                importing=True,
                options=options,
                shared={PROVIDERS: providers},
                system=member.machine.system,
            )
            async with engine:
                await member.stop.wait()

    async def _fetch(self, member: Member) -> None:
        """What `gapless fetch` does, until nothing is missing."""
        names = [each.name for each in self.scenario.providers]
        async with self._providers(member.machine) as providers:
            while not member.stop.is_set():
                result = await gapless.fetch(
                    "custom",
                    self._heights,
                    rpc=names,
                    to="sink",
                    ledger=self._url,
                    providers=providers,
                    **self._options,
                )
                if result.state is State.SUCCEEDED and not result.gaps and not result.unproven:
                    return
                await asyncio.sleep(5.0)

    # Troubles

    async def _bring_troubles(self) -> None:
        for trouble in self.scenario.troubles:
            await asyncio.sleep(max(0.0, START + trouble.at - self._loop.time()))
            self._bring(trouble)

    def _bring(self, trouble: TransportFailure) -> None:
        self._said(f"{trouble.kind} {trouble.victim} {trouble.seconds:.3f}")
        running = [each for each in self._members if each.process.alive]
        victim = running[trouble.victim % len(running)] if running else None
        node = list(self._nodes.values())[trouble.victim % len(self._nodes)]
        match trouble.kind:
            case Kind.CRASH if victim is not None:
                victim.process.crash()
            case Kind.PAUSE if victim is not None:
                victim.process.pause()
                self._loop.call_later(trouble.seconds, victim.process.resume)
            case Kind.DRAIN if victim is not None:
                victim.stop.set()
            case Kind.CLOCK if victim is not None:
                self._jump(victim.machine.identity.host, trouble.seconds)
            case Kind.LEDGER_LOCK:
                self._lock(self._folder / "ledger.db", trouble.seconds)
            case Kind.SINK_LOCK:
                self._lock(self._sink, trouble.seconds)
            case Kind.OUTAGE:
                node.up = False
                self._loop.call_later(trouble.seconds, setattr, node, "up", True)
            case Kind.REORG:
                self.chain.grow(2)
                self.chain.reorg(self.chain.head - min(FINAL_DEPTH, int(trouble.seconds)))

    def _jump(self, host: str, seconds: float) -> None:
        self._offsets[host] = self._offsets.get(host, 0.0) + seconds
        for each in self._members:
            if each.machine.identity.host == host:
                each.machine.offset = self._offsets[host]

    def _lock(self, path: Path, seconds: float) -> None:
        """Holds a transaction open, as a program beside us may."""
        if not path.exists():
            return
        holder = apsw.Connection(str(path))
        try:
            holder.execute("BEGIN IMMEDIATE")
        except apsw.BusyError:
            holder.close()
        else:
            self._loop.call_later(seconds, holder.close)

    def _calm(self) -> None:
        """Ends all troubles."""
        self._said("quiet")
        self._quiet = True
        for node in self._nodes.values():
            node.heal()
        self._offsets.clear()
        for each in self._members:
            each.machine.offset, each.machine.disk = 0.0, Disk()

    # Around it

    def _said(self, what: str, process: Process | None = None) -> None:
        who = process or PROCESS.get()
        self._trace.append(_line(self._loop, who, what.replace(str(self._folder), "…")))

    @contextmanager
    def _sql(self, path: Path) -> Iterator[apsw.Connection]:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            yield connection
        finally:
            connection.close()

    def _write_config(self) -> None:
        endpoints = "".join(
            f'[endpoints.{each.name}]\nurl = "{each.url}"\nnetwork = "custom"\n'
            for each in self.scenario.providers
        )
        sink = f'[sinks.sink]\nurl = "{self._sink}"\n'
        (self._folder / "gapless.toml").write_text(endpoints + sink + _RETRY)


Runner = Callable[[Member], Coroutine[Any, Any, None]]
FINAL_DEPTH = 40

_stored_chains: dict[int, Chain] = {}


def _chain(scenario: Scenario) -> Chain:
    """A chain of its own for every run, over blocks that all runs share."""
    if scenario.chain not in _stored_chains:
        seed = scenario.chain % CHAINS
        parameters = Parameters(blocks=HEAD, txs=3, fewest=0, empty_every=7, seed=100 + seed)
        _stored_chains[scenario.chain] = simulated(parameters)
    found = _stored_chains[scenario.chain]
    chain = Chain(found.chain_id, found._blocks, found._receipts, found._builder)
    chain.start_at(scenario.head)
    return chain


def _line(loop: VirtualLoop, who: Process | None, what: str) -> str:
    return f"{loop.time() - START:.6f} {who or '-'} {what}"


def _ours(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(map(_ours, error.exceptions))
    return isinstance(error, GaplessError)


def _memory() -> str | None:
    """A folder that needs no disk, if there is one: its files are synced thousands of times."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


@contextmanager
def _surroundings(folder: Path) -> Iterator[None]:
    """Configuration from this folder alone, connections that die with their process, no GC."""
    before = os.environ.get("GAPLESS_CONFIG")
    os.environ["GAPLESS_CONFIG"] = str(folder / "gapless.toml")
    apsw.connection_hooks.append(close_with_process)
    gc.freeze()  # what is there by now is not looked at again, which makes a collection cheap
    gc.disable()  # it would close abandoned coroutines in the middle of a run
    try:
        yield
    finally:
        gc.enable()
        apsw.connection_hooks.remove(close_with_process)
        del os.environ["GAPLESS_CONFIG"]
        if before is not None:
            os.environ["GAPLESS_CONFIG"] = before


@contextmanager
def _unraisable_ignored() -> Iterator[None]:
    """For coroutines that a crash has left: closing them may fail, and means nothing."""
    before, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        yield
    finally:
        sys.unraisablehook = before


@contextmanager
def _logged(trace: list[str], loop: VirtualLoop, folder: Path) -> Iterator[None]:
    """Has the log of the processes in the trace."""

    class Tracing(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            told = record.getMessage().replace(str(folder), "…")
            trace.append(_line(loop, PROCESS.get(), told))

    logger, handler = logging.getLogger("gapless"), Tracing()
    level, propagate = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate
