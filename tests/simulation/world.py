"""Processes, providers, a ledger and a sink on one virtual clock.

The processes are real engines and fetches; only `System` and the HTTP transport are simulated.
Incidents come as the scenario says, until the quiet phase; then every process gets as long as it
needs, and at the end the sink is compared with the chain.
"""

from __future__ import annotations

import asyncio
from contextlib import closing, suppress
from pathlib import Path
from random import Random
from typing import Any

import apsw

from gapless.chains.opening import open_sink
from gapless.core.backfill import State
from gapless.core.ranges import RangeSet
from gapless.devnode import Parameters
from gapless.ledger import open_ledger
from gapless.ledger.views import EVERYTHING
from gapless.sinks import Access
from tests.simulation.incidents import Incidents
from tests.simulation.laws import Broken, Laws, require_proof, require_rows, require_sound
from tests.simulation.loop import VirtualLoop
from tests.simulation.machine import Disk
from tests.simulation.network import Network, Node
from tests.simulation.observed import LedgerSeen, sink_seen
from tests.simulation.programs import Programs
from tests.simulation.scenario import HEAD, Front, Scenario
from tests.simulation.stage import Stage
from tests.simulation.trace import Trace

LONGEST = 12 * 3600.0
"""Seconds of virtual time, after the last incident, within which everything must recover."""

_LOOK_EVERY = 10.0
_STARTING_SECONDS = 60
_RETRY = "[retry]\nbase = 2\nmax_delay = 20\n"
_SINKS = {"sqlite": "sink.db", "parquet": "sink/"}


class World(Stage):
    """Everything in one run."""

    def __init__(self, scenario: Scenario, folder: Path, loop: VirtualLoop, trace: Trace) -> None:
        ledger, sink = folder / "ledger.db", folder / _SINKS[scenario.sink]
        subject = scenario.subject
        seen = LedgerSeen(ledger), sink_seen(scenario.sink, sink, subject.anchor)
        laws = Laws(*seen, subject.datasets, loop.time, trace.say)
        super().__init__(scenario.seed, scenario.disk, laws, loop, trace)
        self.scenario = scenario
        self._ledger = ledger
        self._url = f"sqlite:///{ledger}"
        self._sink = f"{folder}/{_SINKS[scenario.sink]}"
        self._chain = subject.chain(_parameters(scenario), scenario.head)
        nodes = {
            each.url: Node(each, self._chain, Random(f"{each.name} {scenario.seed}"), loop.time)
            for each in scenario.providers
        }
        self._programs = Programs(scenario, self._url, Network(nodes, trace.say))
        self.incidents = Incidents(
            self.members, list(nodes.values()), self._chain, (ledger, sink), trace.say
        )
        self._system = self.machine("observer", Disk(0.0001, 0.0002)).system
        (folder / "gapless.toml").write_text(self._configuration())

    async def run(self) -> None:
        """Starts all processes, applies the incidents, and waits until all is stored and proven."""
        front, programs = self.scenario.front, self._programs
        if front is Front.WORKERS:
            self.supervise("client", programs.submit)
        for number in range(self.scenario.processes):
            program = programs.work if front is Front.WORKERS else programs.fetch
            self.supervise(f"{front}{number}", program)
        await self._until_begun()
        incidents = asyncio.create_task(self.incidents.bring(self.scenario.incidents))
        done = asyncio.create_task(self._until_done())
        await asyncio.wait([done], timeout=self.scenario.quiet_at)
        if done.done():
            done.result()
        done.cancel()
        incidents.cancel()
        self.calm()
        await self._until_stored()
        await self.stop_all()
        await self._compare()

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
                raise Broken(f"not done {LONGEST:g} s after the last incident")
            await asyncio.sleep(_LOOK_EVERY)
            seen = seen + 1 if await self._is_done() else 0
            if not seen:
                self._ask_again()

    async def _is_done(self) -> bool:
        """Whether all is stored, every backfill has ended, and no process may start another."""
        self.require_expected()
        if any(each.is_client or each.process.paused for each in self.members):
            return False
        states = self._states()
        if not states or not all(state.ended for state in states):
            return False
        async with await open_sink(self._sink, Access.READ, system=self._system) as sink:
            records = await sink.records(self._chain.chain_id, self.scenario.span)
        last = self.scenario.subject.datasets[-1]
        held = RangeSet(it.span for it in records if it.dataset == last)
        return not RangeSet.of(self.scenario.span) - held

    def _ask_again(self) -> None:
        """Requests abandoned work again, as a person would, or starts a worker if needed.

        A fetch that finds everything stored does not touch the ledger, even if an earlier process
        died before it could end their backfill: a worker ends it.
        """
        states = self._states()
        if any(each.is_client for each in self.members):
            return
        if all(state.ended for state in states) and self.scenario.front is Front.WORKERS:
            self.supervise(f"client-again{len(self.everyone)}", self._programs.submit)
        elif states and not self.members:
            self.supervise("settler", self._programs.work)

    def _states(self) -> list[State]:
        with suppress(apsw.Error), closing(apsw.Connection(str(self._ledger))) as ledger:
            found: list[Any] = ledger.execute("SELECT state FROM backfills").fetchall()
            return [State(state) for (state,) in found]
        return []

    async def _compare(self) -> None:
        async with await open_sink(self._sink, Access.READ, system=self._system) as sink:
            subject = self.scenario.subject
            await require_rows(sink, self._chain, self.scenario.span, subject, subject.datasets)
            await require_proof(sink, self._chain, subject, deep=self.scenario.seed % 8 == 0)
        ledger = await open_ledger(self._url, create=False, system=self._system)
        try:
            await require_sound(ledger, await ledger.backfills(limit=EVERYTHING))
        finally:
            await ledger.close()

    def _configuration(self) -> str:
        network = self.scenario.subject.network.name
        endpoints = "".join(
            f'[endpoints.{each.name}]\nurl = "{each.url}"\nnetwork = "{network}"\n'
            for each in self.scenario.providers
        )
        return f'{endpoints}[sinks.sink]\nurl = "{self._sink}"\n{_RETRY}'


def _parameters(scenario: Scenario) -> Parameters:
    return Parameters(blocks=HEAD, txs=3, fewest=0, empty_every=7, seed=100 + scenario.chain)
