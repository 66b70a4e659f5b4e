"""What the passes of a process share: open stores, and open nodes.

Nodes are opened when a pass first needs one: where a sink holds all tables, none is contacted.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

import msgspec

from gapless.blocks.block_pipeline import endpoints_of, keep_profiles, kept_profiles
from gapless.blocks.job import PROVIDERS, Host
from gapless.chains.identity import refuse_wrong_chain
from gapless.chains.movements import WalletNode
from gapless.chains.opening import open_sink
from gapless.core.errors import UsageError
from gapless.pipeline.block_reader import BlockReader, reading_threads
from gapless.providers import Pool, Providers
from gapless.sinks import Access, Sink
from gapless.wallets.coins import CoinSearch
from gapless.wallets.spec import WalletsSpec
from gapless.wallets.store import WalletStore
from gapless.wallets.ways import Way

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class OpenStore:
    """A sink with its wallets, and threads for what takes long to compute."""

    sink: Sink
    wallets: WalletStore
    threads: Executor

    async def compute(self, function: Callable[P, T], *values: P.args, **_: P.kwargs) -> T:
        """Calls a function in a thread, because it would delay heartbeats otherwise."""
        return await asyncio.get_running_loop().run_in_executor(self.threads, function, *values)


@dataclass(frozen=True)
class OpenNodes:
    """The nodes of a chain: for blocks, and for what they know about accounts."""

    pool: Pool
    reader: BlockReader
    accounts: WalletNode
    coins: CoinSearch


async def shared_store(host: Host, sink: str, sink_id: str) -> OpenStore:
    """The store that all passes and hooks of this process share."""
    return await host.shared(f"wallets-{sink_id}-{sink}", lambda: _open_store(host, sink, sink_id))


async def shared_nodes(host: Host, spec: WalletsSpec) -> OpenNodes:
    """The nodes that all passes of this process over the same blocks share."""
    providers = await host.shared(
        PROVIDERS, lambda: Providers(host.config.fetch.workers, system=host.system)
    )
    spec = msgspec.structs.replace(
        spec, group="", address_set="", way=Way.EVENTS, until=0, sink="", sink_id=""
    )
    key = f"wallets-{msgspec.json.encode(spec).decode()}"
    return await host.shared(key, lambda: _open_nodes(host, spec, providers))


@asynccontextmanager
async def _open_store(host: Host, sink: str, sink_id: str) -> AsyncIterator[OpenStore]:
    opened = open_sink(host.config.sink(sink), Access.WRITE, system=host.system)
    async with await opened as found:
        if found.id != sink_id:
            raise UsageError(
                f"sink `{sink}` is not the sink that these wallets were added to",
                hint="add the wallets again, to the current sink",
            )
        await host.ledger.raise_fence(await found.highest_fence())
        with host.system.executor(1, "gapless-wallets") as threads:
            yield OpenStore(found, WalletStore.of(found), threads)


@asynccontextmanager
async def _open_nodes(
    host: Host, spec: WalletsSpec, providers: Providers
) -> AsyncIterator[OpenNodes]:
    endpoints, family = endpoints_of(host.config, spec.endpoints), spec.family
    pool = Pool(
        endpoints,
        family.queries,
        providers=providers,
        chain_id=spec.chain_id,
        profiles=await kept_profiles(host.ledger, spec.network, endpoints),
    )
    async with pool:
        if known := spec.known_hashes:
            headers = family.source(pool, spec.chain, [family.tables[0].name], ())
            await refuse_wrong_chain(headers, pool.names, known, max(known), spec.network)
        with reading_threads(family, pool.system) as threads:
            source = family.source(pool, spec.chain, spec.datasets, spec.checks)
            reader = BlockReader(family, source, spec.wanted, threads, pool.system)
            accounts = spec.rules.node(pool, spec.chain)
            yield OpenNodes(pool, reader, accounts, CoinSearch(accounts))
        await keep_profiles(host.ledger, spec.network, pool)
