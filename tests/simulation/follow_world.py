"""Processes that follow a live chain, on one virtual clock.

The chain moves and incidents come until the scenario is over. Then the chain stands still, every
process gets as long as it needs, and the sink is compared with the chain.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

from gapless.blocks import job as blocks
from gapless.blocks.job import PROVIDERS
from gapless.blocks.request import FetchOptions
from gapless.chains.opening import open_sink
from gapless.config import load
from gapless.core.ranges import Span
from gapless.devnode import Chain, Growth, Parameters
from gapless.following import job
from gapless.following.creation import create
from gapless.following.request import build_follow
from gapless.following.service import following
from gapless.ledger import open_ledger
from gapless.providers import Providers
from gapless.runtime.engine import Engine
from gapless.runtime.worker import WorkerOptions
from gapless.sinks import Access
from tests.simulation.follow_laws import FollowLaws
from tests.simulation.follow_scenario import FollowScenario
from tests.simulation.incidents import Incidents
from tests.simulation.laws import Broken, require_proof, require_rows
from tests.simulation.loop import VirtualLoop
from tests.simulation.machine import Disk
from tests.simulation.network import Network, Node
from tests.simulation.programs import Member
from tests.simulation.stage import Stage
from tests.simulation.trace import Trace

NAME = "head"
LONGEST = 3 * 3600.0
"""Seconds of virtual time, after the chain stands still, within which everything must recover."""

_LOOK_EVERY = 20.0
_RETRY = "[retry]\nbase = 2\nmax_delay = 20\n"


class FollowWorld(Stage):
    """Everything in one run."""

    def __init__(
        self, scenario: FollowScenario, folder: Path, loop: VirtualLoop, trace: Trace
    ) -> None:
        ledger, sink = folder / "ledger.db", folder / "sink.db"
        laws = FollowLaws(ledger, sink, scenario.subject.anchor, trace.say)
        super().__init__(scenario.seed, scenario.disk, laws, loop, trace)
        self.laws: FollowLaws = laws
        self.scenario = scenario
        self._trace = trace
        self._url, self._sink = f"sqlite:///{ledger}", str(sink)
        self._chain = self.new_chain()
        nodes = {
            each.url: Node(each, self._chain, Random(f"{each.name} {scenario.seed}"), loop.time)
            for each in scenario.providers
        }
        self._network = Network(nodes, trace.say)
        self.incidents = Incidents(
            self.members, list(nodes.values()), self._chain, (ledger, sink), trace.say
        )
        self._system = self.machine("observer", Disk(0.0001, 0.0002)).system
        (folder / "gapless.toml").write_text(self._configuration())

    def new_chain(self) -> Chain:
        return self.scenario.subject.chain(_parameters(self.scenario), self.scenario.head)

    async def run(self) -> None:
        """Follows the chain while it moves, and compares once it stands still."""
        for number in range(self.scenario.followers):
            self.supervise(f"follow{number}", self._follow)
        incidents = asyncio.create_task(self.incidents.bring(self.scenario.incidents))
        growth = Growth(self._chain, self.scenario.reorgs)
        for _ in range(self.scenario.steps):
            await asyncio.sleep(self.scenario.step_seconds)
            growth.step()
            self._say(f"the chain is at {self._chain.head} {self._chain.hash(self._chain.head)}")
            self.require_expected()
        incidents.cancel()
        self.calm()
        await self._until_stored()
        await self.stop_all()
        await self._compare()

    async def _follow(self, member: Member) -> None:
        """What `gapless follow` does."""
        scenario, config = self.scenario, load()
        request, targets = build_follow(
            config,
            scenario.subject.network.name,
            [each.name for each in scenario.providers],
            "sink",
            scenario.start,
            FetchOptions(chunk_size=scenario.chunk_size, datasets=scenario.datasets),
            NAME,
        )
        system = member.machine.system
        async with Providers(
            scenario.requests, system=system, connect=self._network.connect
        ) as providers:
            await create(request, targets.config, self._url, shared=providers)
            engine = Engine(
                self._url,
                slots=scenario.slots,
                jobs=[job.job(), blocks.job()],
                options=WorkerOptions(
                    poll_seconds=scenario.poll_seconds,
                    heartbeat_seconds=scenario.heartbeat_seconds,
                    drain_seconds=20.0,
                    only=NAME,
                ),
                shared={PROVIDERS: providers},
                config=targets.config,
                system=system,
            )
            async with engine, following(engine, [NAME]) as followers:
                await member.stop.wait()
                followers.stop()
                await engine.drain()

    # The end of a run

    async def _until_stored(self) -> None:
        until, head = self._loop.time() + LONGEST, self._chain.head
        while not self.laws.is_done(head, self._chain.hash(head)):
            self.require_expected()
            if self._loop.time() > until:
                raise Broken(f"not done {LONGEST:g} s after the chain stopped: {self.laws.left()}")
            await asyncio.sleep(_LOOK_EVERY)

    async def _compare(self) -> None:
        if failed := [line for line in self._trace.lines if "follower_failed" in line]:
            raise Broken(f"a follower ended with an error: {failed[0]}")
        ledger = await open_ledger(self._url, create=False, system=self._system)
        try:
            if problems := await ledger.check():
                raise Broken(f"the ledger disagrees with itself: {problems}")
        finally:
            await ledger.close()
        assert self.laws.state is not None
        span = Span(self.laws.state.start, self._chain.head)
        async with await open_sink(self._sink, Access.READ, system=self._system) as sink:
            subject, datasets = self.scenario.subject, self.scenario.datasets.split(",")
            await require_rows(sink, self._chain, span, subject, datasets)
            await require_proof(sink, self._chain, subject, deep=self.scenario.seed % 8 == 0)

    def _configuration(self) -> str:
        network = self.scenario.subject.network.name
        endpoints = "".join(
            f'[endpoints.{each.name}]\nurl = "{each.url}"\nnetwork = "{network}"\n'
            for each in self.scenario.providers
        )
        return f'{endpoints}[sinks.sink]\nurl = "{self._sink}"\n{_RETRY}'


def _parameters(scenario: FollowScenario) -> Parameters:
    return Parameters(blocks=470, txs=1, empty_every=3, seed=200 + scenario.chain)
