"""What the processes of a simulation run: the same as the commands, without the command line."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

import gapless
from gapless.blocks.job import PROVIDERS
from gapless.blocks.request import FetchOptions, build_request
from gapless.blocks.session import open_fetch
from gapless.config import load
from gapless.core.backfill import State
from gapless.providers import Providers
from gapless.runtime.worker import WorkerOptions
from tests.simulation.loop import Process
from tests.simulation.machine import Machine
from tests.simulation.network import Network
from tests.simulation.scenario import Scenario


@dataclass
class Member:
    """A process with its machine, and how to ask it to stop."""

    process: Process
    machine: Machine
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    main: asyncio.Task[None] | None = None

    @property
    def is_client(self) -> bool:
        """Whether it submits work, and may still do so."""
        return self.process.name.startswith("client")


@dataclass(frozen=True)
class Programs:
    """The commands of one scenario, on its ledger and its network."""

    scenario: Scenario
    ledger_url: str
    network: Network

    async def submit(self, member: Member) -> None:
        """What `gapless fetch --detach` does."""
        request, targets = build_request(
            load(), self._network, self._heights, self._names, "sink", self._options, detached=True
        )
        request = replace(request, lease_seconds=self.scenario.lease_seconds)
        async with (
            self._providers(member) as providers,
            open_fetch(request, targets.config, self.ledger_url, shared=providers) as session,
        ):
            if session.missing:
                await session.leave_to_workers()

    async def work(self, member: Member) -> None:
        """What `gapless worker` does."""
        options = WorkerOptions(
            poll_seconds=self.scenario.poll_seconds,
            heartbeat_seconds=self.scenario.heartbeat_seconds,
            drain_seconds=20.0,
        )
        async with self._providers(member) as providers:
            engine = gapless.Engine(
                self.ledger_url,
                slots=self.scenario.slots,
                importing=True,
                options=options,
                shared={PROVIDERS: providers},
                system=member.machine.system,
            )
            async with engine:
                await member.stop.wait()

    async def fetch(self, member: Member) -> None:
        """What `gapless fetch` does, repeated until nothing is missing."""
        async with self._providers(member) as providers:
            while not member.stop.is_set():
                result = await gapless.fetch(
                    self._network,
                    self._heights,
                    rpc=self._names,
                    to="sink",
                    ledger=self.ledger_url,
                    providers=providers,
                    **self._options,
                )
                if result.state is State.SUCCEEDED and not result.gaps and not result.unproven:
                    return
                await asyncio.sleep(5.0)

    def _providers(self, member: Member) -> Providers:
        system, connect = member.machine.system, self.network.connect
        return Providers(self.scenario.requests, system=system, connect=connect)

    @property
    def _network(self) -> str:
        return self.scenario.subject.network.name

    @property
    def _names(self) -> list[str]:
        return [each.name for each in self.scenario.providers]

    @property
    def _heights(self) -> str:
        return f"{self.scenario.span.first}:{self.scenario.span.last}"

    @property
    def _options(self) -> FetchOptions:
        scenario = self.scenario
        return FetchOptions(
            chunk_size=scenario.chunk_size, batch_size=scenario.batch_size, order=scenario.order
        )
