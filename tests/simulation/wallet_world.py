"""Wallets that are added while their chain is followed, on one virtual clock.

Afterwards a last sync classifies everything once more. Then movements, entries and balances must
be those that follow from the chain itself, see `wallet_laws`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from gapless.blocks.job import PROVIDERS
from gapless.chains.movements import WalletNode
from gapless.chains.opening import open_sink
from gapless.config import load
from gapless.devnode import Chain, Parameters, simulated
from gapless.devnode.evm.blocks import EvmBuilder
from gapless.ledger import Ledger, open_ledger
from gapless.ledger.syncs import SyncState
from gapless.providers import EndpointSpec, Pool, Providers
from gapless.runtime.engine import Engine
from gapless.runtime.worker import WorkerOptions
from gapless.sinks import Access
from gapless.system import System
from gapless.wallets.adding import add
from gapless.wallets.plan import HOOK
from gapless.wallets.request import WalletOptions, build_wallets, rules_of
from gapless.wallets.running import SilentWalletObserver, run_wallets
from gapless.wallets.store import WalletStore
from gapless.wallets.ways import Way
from tests.simulation.follow_world import LONGEST, FollowWorld
from tests.simulation.laws import Broken
from tests.simulation.loop import VirtualLoop
from tests.simulation.programs import Member
from tests.simulation.trace import Trace
from tests.simulation.wallet_laws import WalletLaws
from tests.simulation.wallet_scenario import CHAIN_SEED, Addition, WalletScenario

_LOOK_EVERY = 20.0
_PARAMETERS = Parameters(blocks=110, txs=3, fewest=0, empty_every=5, seed=CHAIN_SEED, economy=True)


class WalletWorld(FollowWorld):
    """Everything in one run."""

    def __init__(
        self, scenario: WalletScenario, folder: Path, loop: VirtualLoop, trace: Trace
    ) -> None:
        self.wallets = scenario
        super().__init__(scenario.follow, folder, loop, trace)

    def new_chain(self) -> Chain:
        """A chain with accounts of its own, over blocks that all runs share."""
        chain_id = self.scenario.subject.network.chain_id or _PARAMETERS.chain_id
        parameters = replace(_PARAMETERS, chain_id=chain_id)
        found = _shared(parameters)
        chain = Chain(found.chain_id, found._blocks, found._receipts, EvmBuilder(parameters))
        chain.start_at(self.scenario.head)
        return chain

    async def run(self) -> None:
        for number in range(self.wallets.workers):
            self.supervise(f"worker{number}", self._work)
        for number, addition in enumerate(self.wallets.additions):
            self.supervise(f"client{number}", partial(self._add, addition))
        await super().run()

    # Processes

    async def _work(self, member: Member) -> None:
        """What `gapless worker` does."""
        async with self._providers(member) as providers:
            engine = Engine(
                self._url,
                slots=2,
                importing=True,
                options=WorkerOptions(
                    poll_seconds=self.scenario.poll_seconds,
                    heartbeat_seconds=self.scenario.heartbeat_seconds,
                    drain_seconds=20.0,
                ),
                shared={PROVIDERS: providers},
                system=member.machine.system,
            )
            async with engine:
                await member.stop.wait()

    async def _add(self, addition: Addition, member: Member) -> None:
        """What `gapless wallet add` does, with or without `--detach`."""
        await asyncio.sleep(addition.at if not self.quiet else 0.0)
        request, resolving = build_wallets(
            load(),
            addition.addresses,
            [self.scenario.subject.network.name],
            [each.name for each in self.scenario.providers],
            "sink",
            WalletOptions(
                group=addition.group,
                scan=addition.way is Way.SCAN,
                traces=addition.way is Way.TRACES,
                chunk_size=self.wallets.chunk_size,
                batch_size=self.wallets.batch_size,
            ),
            detached=addition.is_detached,
        )
        async with self._providers(member) as providers:
            added = await add(
                request,
                resolving,
                self._url,
                shared=providers,
                detached=addition.is_detached,
            )
            if addition.is_detached:
                return
            ledger = await self._ledger(member.machine.system)
            try:
                await run_wallets(added, resolving, ledger, providers, SilentWalletObserver())
            finally:
                await ledger.close()

    def _providers(self, member: Member) -> Providers:
        connect = self._network.connect
        return Providers(self.scenario.requests, system=member.machine.system, connect=connect)

    async def _ledger(self, system: System) -> Ledger:
        return await open_ledger(self._url, create=False, system=system)

    # The end of a run

    async def _until_stored(self) -> None:
        """Waits for the chain, then for the wallets; then syncs all of them once more."""
        await super()._until_stored()
        await self._until_synced(self._add_again)
        for number, each in enumerate(self.wallets.additions):
            last = replace(each, is_detached=False)
            self.supervise(f"client-last{number}", partial(self._add, last))
        await self._until_synced(lambda: None)

    async def _until_synced(self, otherwise: Callable[[], None]) -> None:
        until = self._loop.time() + LONGEST
        while True:
            self.require_expected()
            if self._loop.time() > until:
                raise Broken(f"wallets are not synced {LONGEST:g} s after the chain stopped")
            await asyncio.sleep(_LOOK_EVERY)
            if any(each.is_client for each in self.members):
                continue
            if await self._are_synced():
                return
            otherwise()

    def _add_again(self) -> None:
        """Requests abandoned work again, as a person would."""
        for each in self.wallets.additions:
            again = replace(each, is_detached=True)
            self.supervise(f"client-again{len(self.everyone)}", partial(self._add, again))

    async def _are_synced(self) -> bool:
        ledger = await self._ledger(self._system)
        try:
            syncs = await ledger.syncs()
            hooks = [each for each in await ledger.backfills() if each.job == HOOK]
        finally:
            await ledger.close()
        expected = sum(map(len, self.wallets.groups.values()))
        states = {each.state for each in syncs}
        if SyncState.ABANDONED not in states and states != {SyncState.COMPLETE}:
            self._say(f"wallets are {sorted(states)}")
        return (
            len(syncs) == expected
            and states == {SyncState.COMPLETE}
            and bool(hooks)
            and all(each.state.ended for each in hooks)
        )

    async def _compare(self) -> None:
        await super()._compare()
        async with (
            await open_sink(self._sink, Access.READ, system=self._system) as sink,
            self._node() as node,
        ):
            laws = WalletLaws(WalletStore.of(sink), node, self._chain, self.scenario.subject)
            groups = self.wallets.groups
            for group, addresses in groups.items():
                others = {it for each in groups if each != group for it in groups[each]}
                await laws.require(group, addresses, others)

    @asynccontextmanager
    async def _node(self) -> AsyncIterator[WalletNode]:
        """What the nodes know about accounts."""
        subject, requests = self.scenario.subject, self.scenario.requests
        network = replace(subject.network, chain_id=self._chain.chain_id)
        specs = [EndpointSpec(each.name, each.url) for each in self.scenario.providers]
        connect = self._network.connect
        async with (
            Providers(requests, system=self._system, connect=connect) as providers,
            Pool(specs, subject.family.queries, providers=providers) as pool,
        ):
            yield rules_of(network).node(pool, network)


@cache
def _shared(parameters: Parameters) -> Chain:
    return simulated(parameters)
