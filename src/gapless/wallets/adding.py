"""Adds wallets: meets their chains, opens the sink, and plans everything in one transaction.

Errors are found before anything is created: a wrong node before a sink or a ledger is created, and
a plan that is not possible before a wallet is stored. A network whose nodes cannot be reached is
left out, so that it does not delay the others. It is added by the same request later.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from gapless.blocks.session import OpenChain, open_chain, sink_at, undated
from gapless.config import Config
from gapless.core.errors import Unavailable, UsageError
from gapless.core.heights import Heights, Moment, Tag
from gapless.core.ranges import RangeSet, Span
from gapless.ledger.syncs import Sync, SyncKey, Wallet
from gapless.providers import Absent, Providers
from gapless.runtime.controller import new_id
from gapless.sinks import Sink
from gapless.wallets.held import held_tables
from gapless.wallets.job import Known, Names
from gapless.wallets.plan import WalletChain, planner
from gapless.wallets.request import NetworkWallets, WalletsRequest
from gapless.wallets.spec import GroupSpec
from gapless.wallets.store import WalletStore
from gapless.wallets.ways import Way


class Unreached(NamedTuple):
    """A network that has no usable endpoint now."""

    network: str
    error: Unavailable


class OpenChains(NamedTuple):
    """The networks of a request that could be reached."""

    request: WalletsRequest  # without the others
    chains: list[OpenChain]
    unreached: tuple[Unreached, ...]


@dataclass(frozen=True)
class Added:
    """Wallets that are in the ledger, with their plans."""

    request: WalletsRequest
    chains: tuple[WalletChain, ...]
    syncs: list[Sync]  # that were planned or continued
    absent: tuple[Absent, ...]  # endpoints that could not be used at first contact
    unreached: tuple[Unreached, ...] = ()  # networks that are not in the request any more

    @property
    def keys(self) -> list[SyncKey]:
        """The syncs of all its wallets."""
        return [key for chain in self.chains for key in chain.keys(self.request)]

    @property
    def groups(self) -> list[GroupSpec]:
        return [chain.group(self.request) for chain in self.chains]

    @property
    def known(self) -> Known:
        """The names of its sink and endpoints, for passes that were planned with others."""
        return {
            (each.chain_id, each.sink_id): Names(self.request.sink, each.wallets.blocks.endpoints)
            for each in self.chains
        }

    @property
    def runs(self) -> int:
        """How many segments may run at once."""
        return sum(each.wallets.blocks.numbers.max_concurrent for each in self.chains)


async def add(
    request: WalletsRequest,
    config: Config,
    ledger_url: str,
    *,
    shared: Providers | None = None,
    detached: bool = False,
) -> Added:
    """Adds wallets with all their passes, or continues those that were added before.

    `shared` are open providers that may serve others too.
    """
    async with open_chains(request, config, ledger_url, shared) as (request, opened, unreached):
        system = opened[0].pool.system
        async with sink_at(config.sink(request.sink), system, create=True) as sink:
            assert sink is not None
            WalletStore.of(sink)  # raises if it cannot have one
            chains = [
                await wallet_chain(request, wallets, config, chain, sink)
                for wallets, chain in zip(request.networks, opened, strict=True)
            ]
            ledger = await opened[0].ledger.created()
            await ledger.raise_fence(await sink.highest_fence())
        fresh = partial(new_id, system)
        wallets = [Wallet(request.group, each, request.label) for each in request.addresses]
        plan = planner(request, chains, config.queue, fresh, detached=detached)
        syncs = await ledger.add_wallets(wallets, plan, fresh)
        absent = tuple(each for chain in opened for each in chain.absent)
        return Added(request, tuple(chains), syncs, absent, unreached)


@asynccontextmanager
async def open_chains(
    request: WalletsRequest, config: Config, ledger_url: str, shared: Providers | None
) -> AsyncIterator[OpenChains]:
    """Contacts the nodes of all networks of a request; raises `Unavailable` if none is there."""
    async with AsyncExitStack() as stack:
        providers = shared
        if providers is None:
            workers = request.networks[0].blocks.numbers.workers
            providers = await stack.enter_async_context(Providers(workers))
        opened = dict[NetworkWallets, OpenChain]()
        unreached = list[Unreached]()
        for each in request.networks:
            opening = open_chain(each.blocks, config, ledger_url, shared=providers)
            try:
                opened[each] = await stack.enter_async_context(opening)
            except Unavailable as error:
                unreached.append(Unreached(each.network.name, error))
        if not opened:
            raise unreached[0].error
        reached = replace(request, networks=tuple(opened))
        yield OpenChains(reached, [*opened.values()], tuple(unreached))


async def wallet_chain(
    request: WalletsRequest,
    wallets: NetworkWallets,
    config: Config,
    chain: OpenChain,
    sink: Sink | None,
) -> WalletChain:
    """A network of a request as it is; without a sink, nothing is stored yet."""
    start = request.start
    if isinstance(start, Moment):
        dated = replace(wallets.blocks, heights=Heights(start, Tag.FINALIZED))
        first = (await undated(dated, config, chain)).first
        assert isinstance(first, int)
        start = first
    rules, final = wallets.rules, chain.tip.final
    node = rules.node(chain.pool, chain.network)
    if request.way is Way.TRACES and await node.traces([final]) is None:
        raise UsageError(
            f"no endpoint of `{chain.network.name}` traces transactions",
            hint="give one with `trace_block` or `debug_traceBlockByNumber`, or scan instead",
        )
    stored = RangeSet()
    if sink is not None:
        stored = (await held_tables(sink, rules, chain.chain_id, Span(0, final))).heights
    return WalletChain(
        wallets=wallets,
        chain_id=chain.chain_id,
        sink_id="" if sink is None else sink.id,
        start=start,
        final=final,
        stored=stored,
        finds_events=node.finds_events,
    )
