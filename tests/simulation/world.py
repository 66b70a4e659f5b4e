"""Processes, providers, a ledger and a sink on one virtual clock.

The processes are real engines and fetches; only `System` and the HTTP transport are simulated.
Incidents come as the scenario says, until the quiet phase; then every process gets as long as it
needs, and at the end the sink is compared with the chain.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import closing, suppress
from pathlib import Path
from random import Random
from traceback import format_exception
from typing import Any

import apsw

from gapless.chains.opening import open_sink
from gapless.core.backfill import State
from gapless.core.errors import GaplessError
from gapless.core.ranges import RangeSet
from gapless.devnode import Chain, Parameters, simulated
from gapless.ledger import open_ledger
from gapless.ledger.views import EVERYTHING
from gapless.sinks import Access
from gapless.system import Process as Identity
from tests.simulation import laws
from tests.simulation.incidents import Incidents
from tests.simulation.loop import Process, VirtualLoop
from tests.simulation.machine import Disk, Machine
from tests.simulation.network import Network, Node
from tests.simulation.observed import LedgerSeen, sink_seen
from tests.simulation.programs import Member, Programs
from tests.simulation.scenario import HEAD, Front, Scenario
from tests.simulation.trace import Trace

LONGEST = 12 * 3600.0
"""Seconds of virtual time, after the last incident, within which everything must recover."""

HOSTS = 3
_LOOK_EVERY = 10.0
_STARTING_SECONDS = 60
_STOPPING_SECONDS = 300.0
_RETRY = "[retry]\nbase = 2\nmax_delay = 20\n"
_SINKS = {"sqlite": "sink.db", "parquet": "sink/"}

Program = Callable[[Member], Coroutine[Any, Any, None]]


class Unexpected(Exception):
    """A process ended with an error that is not one of ours."""


class World:
    """Everything in one run."""

    def __init__(self, scenario: Scenario, folder: Path, loop: VirtualLoop, trace: Trace) -> None:
        self.scenario = scenario
        self._loop = loop
        self._say = trace.say
        self._chance = Random(f"world {scenario.seed}")
        self._ledger = folder / "ledger.db"
        self._url = f"sqlite:///{self._ledger}"
        self._sink = f"{folder}/{_SINKS[scenario.sink]}"
        self._chain = _chain(scenario)
        seen = LedgerSeen(self._ledger), sink_seen(scenario.sink, Path(self._sink))
        self.laws = laws.Laws(*seen, loop.time, trace.say)
        nodes = {
            each.url: Node(each, self._chain, Random(f"{each.name} {scenario.seed}"), loop.time)
            for each in scenario.providers
        }
        self._programs = Programs(scenario, self._url, Network(nodes, trace.say))
        self._members: list[Member] = []
        self._everyone: list[Process] = []  # including ended ones
        self._supervisors: list[asyncio.Task[None]] = []
        files = self._ledger, Path(self._sink)
        self._incidents = Incidents(
            self._members, list(nodes.values()), self._chain, files, trace.say
        )
        self._quiet = False
        self._over = False
        self._unexpected: BaseException | None = None
        self._system = self._machine("observer", Disk(0.0001, 0.0002)).system
        (folder / "gapless.toml").write_text(self._configuration())
        loop.set_exception_handler(self._note_unhandled)

    async def run(self) -> None:
        """Starts all processes, applies the incidents, and waits until all is stored and proven."""
        front, programs = self.scenario.front, self._programs
        if front is Front.WORKERS:
            self._supervise("client", programs.submit)
        for number in range(self.scenario.processes):
            program = programs.work if front is Front.WORKERS else programs.fetch
            self._supervise(f"{front}{number}", program)
        await self._until_begun()
        incidents = asyncio.create_task(self._incidents.bring(self.scenario.incidents))
        done = asyncio.create_task(self._until_done())
        await asyncio.wait([done], timeout=self.scenario.quiet_at)
        if done.done():
            done.result()
        done.cancel()
        incidents.cancel()
        self._quiet = True
        self._incidents.end()
        await self._until_stored()
        self._over = True
        await self._stop_all()
        await self._compare()

    def dispose(self) -> None:
        """Closes what crashed processes left open."""
        self._loop.set_exception_handler(lambda *_: None)
        for supervisor in self._supervisors:
            supervisor._log_destroy_pending = False  # type: ignore[attr-defined]
        for process in self._everyone:
            if process.alive:
                process.crash()
            process.dispose()
        self.laws.close()

    # The end of a run

    async def _until_begun(self) -> None:
        """Waits for the first backfill: earlier incidents would only hit the start."""
        for _ in range(_STARTING_SECONDS):
            if self._states():
                return
            await asyncio.sleep(1.0)

    async def _until_done(self) -> None:
        while not await self._is_done():  # noqa: ASYNC110 - no event tells of other processes
            await asyncio.sleep(_LOOK_EVERY)

    async def _until_stored(self) -> None:
        """Waits for the end, seen twice: a drained group starts one more backfill."""
        until, seen = self._loop.time() + LONGEST, 0
        while seen < 2:
            if self._loop.time() > until:
                raise laws.Broken(f"not done {LONGEST:g} s after the last incident")
            await asyncio.sleep(_LOOK_EVERY)
            seen = seen + 1 if await self._is_done() else 0
            if not seen:
                self._ask_again()

    async def _is_done(self) -> bool:
        """Whether all is stored, every backfill has ended, and no process may start another."""
        self._require_expected()
        if any(each.is_client or each.process.paused for each in self._members):
            return False
        states = self._states()
        if not states or not all(state.ended for state in states):
            return False
        async with await open_sink(self._sink, Access.READ, system=self._system) as sink:
            records = await sink.records(self._chain.chain_id, self.scenario.span)
        held = RangeSet(it.span for it in records if it.dataset == "logs")
        return not RangeSet.of(self.scenario.span) - held

    def _ask_again(self) -> None:
        """Requests abandoned work again, as a person would, or starts a worker if needed.

        A fetch that finds everything stored does not touch the ledger, even if an earlier process
        died before it could end their backfill: a worker ends it.
        """
        states = self._states()
        if any(each.is_client for each in self._members):
            return
        if all(state.ended for state in states) and self.scenario.front is Front.WORKERS:
            self._supervise(f"client-again{len(self._everyone)}", self._programs.submit)
        elif states and not self._members:
            self._supervise("settler", self._programs.work)

    def _states(self) -> list[State]:
        with suppress(apsw.Error), closing(apsw.Connection(str(self._ledger))) as ledger:
            found: list[Any] = ledger.execute("SELECT state FROM backfills").fetchall()
            return [State(state) for (state,) in found]
        return []

    async def _stop_all(self) -> None:
        for member in self._members:
            member.stop.set()
        mains = [each.main for each in self._members if each.main and each.process.alive]
        if mains:
            _, left = await asyncio.wait(mains, timeout=_STOPPING_SECONDS)
            if left:
                raise laws.Broken(f"{len(left)} processes do not stop")
        self._require_expected()

    async def _compare(self) -> None:
        async with await open_sink(self._sink, Access.READ, system=self._system) as sink:
            await laws.require_rows(sink, self._chain, self.scenario.span)
            await laws.require_proof(sink, self._chain, deep=self.scenario.seed % 8 == 0)
        ledger = await open_ledger(self._url, create=False, system=self._system)
        try:
            await laws.require_sound(ledger, await ledger.backfills(limit=EVERYTHING))
        finally:
            await ledger.close()

    # Processes

    def _supervise(self, name: str, program: Program) -> None:
        keeping = self._keep_running(name, program)
        self._supervisors.append(asyncio.create_task(keeping, name=f"supervisor-{name}"))

    async def _keep_running(self, name: str, program: Program) -> None:
        """Restarts a process whenever it has died or failed, as a supervisor does."""
        attempt, done = 0, False
        while not done:
            member = self._start(f"{name}.{attempt}", program)
            assert member.main is not None
            death = asyncio.create_task(member.process.death.wait())
            await asyncio.wait([member.main, death], return_when=asyncio.FIRST_COMPLETED)
            death.cancel()
            done = self._over or (member.main.done() and not self._failed(member))
            self._say(f"{member.process} is gone")
            self._members.remove(member)
            attempt += 1
            if not done:
                await asyncio.sleep(self._chance.uniform(0.1, 10.0))

    def _start(self, name: str, program: Program) -> Member:
        machine = self._machine(name, Disk() if self._quiet else self.scenario.disk)
        machine.offset = self._incidents.offset(machine.identity.host)
        member = Member(machine.process, machine)
        self._members.append(member)
        self._say(f"{member.process} starts")
        member.main = member.process.start(program(member))
        return member

    def _failed(self, member: Member) -> bool:
        """Whether to restart it: it failed, or was drained before its work was done."""
        assert member.main is not None
        error = None if member.main.cancelled() else member.main.exception()
        if error is None:
            return member.stop.is_set() and not self._over
        if not _is_ours(error):
            self._unexpected = self._unexpected or error
        self._say(f"{member.process} failed: {error!r}")
        return True

    def _machine(self, name: str, disk: Disk) -> Machine:
        process, number = Process(name), len(self._everyone)
        self._everyone.append(process)
        return Machine(
            process=process,
            identity=Identity(f"host{number % HOSTS}/boot", 100 + number, "then"),
            chance=Random(f"{name} {self.scenario.seed}"),
            clock=self._loop.time,
            disk=disk,
            is_alive=self._is_alive,
            watch=self.laws,
        )

    def _is_alive(self, wanted: Identity) -> bool:
        return any(each.machine.identity == wanted and each.process.alive for each in self._members)

    def _note_unhandled(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Treats an error that nobody awaits as what it is: a bug, here or in the engine."""
        error = context.get("exception") or RuntimeError(context["message"])
        self._say(f"unhandled: {context['message']} {error!r}")
        self._unexpected = self._unexpected or error

    def _require_expected(self) -> None:
        if self._unexpected is not None:
            raise Unexpected("".join(format_exception(self._unexpected)))
        if self.laws.broken:
            raise laws.Broken(self.laws.broken)

    def _configuration(self) -> str:
        endpoints = "".join(
            f'[endpoints.{each.name}]\nurl = "{each.url}"\nnetwork = "custom"\n'
            for each in self.scenario.providers
        )
        return f'{endpoints}[sinks.sink]\nurl = "{self._sink}"\n{_RETRY}'


_chains: dict[int, Chain] = {}


def _chain(scenario: Scenario) -> Chain:
    """A separate chain for every run, over blocks that all runs share."""
    if scenario.chain not in _chains:
        seed = 100 + scenario.chain
        _chains[scenario.chain] = simulated(
            Parameters(blocks=HEAD, txs=3, fewest=0, empty_every=7, seed=seed)
        )
    found = _chains[scenario.chain]
    chain = Chain(found.chain_id, found._blocks, found._receipts, found._builder)
    chain.start_at(scenario.head)
    return chain


def _is_ours(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_ours, error.exceptions))
    return isinstance(error, GaplessError)
