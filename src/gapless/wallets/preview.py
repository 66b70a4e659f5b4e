"""What adding wallets would do, without doing it: the passes, and what they cost."""

from __future__ import annotations

from dataclasses import dataclass

from gapless.blocks.session import OpenChain, sink_at
from gapless.chains import family_of
from gapless.chains.movements import AccountAt
from gapless.config import Config
from gapless.core.ranges import RangeSet
from gapless.ledger.syncs import PassRequest, PlannedHeights, SyncKey
from gapless.wallets.adding import open_chains, wallet_chain
from gapless.wallets.plan import WalletChain, planner
from gapless.wallets.request import WalletsRequest
from gapless.wallets.ways import Evidence, Way


@dataclass(frozen=True)
class PassPreview:
    """A pass that would be planned."""

    chain: WalletChain
    planned: PassRequest
    way: Way
    finds_coins: bool
    """Whether a search for events can be completed by what accounts had and signed."""

    @property
    def stored(self) -> int:
        """Blocks that need no request, because the sink holds all their tables."""
        return len(self.chain.stored & RangeSet.of(self.planned.heights))

    @property
    def unstored(self) -> int:
        return self.planned.heights.size - self.stored

    @property
    def source(self) -> str:
        """How blocks that are not stored are searched."""
        if self.way is Way.TRACES:
            return Evidence.TRACES
        return Evidence.BLOCKS if self.way is Way.SCAN else Evidence.EVENTS

    @property
    def calls(self) -> dict[str, int]:
        """Calls that fetching every unstored block takes at least, and tracing if requested."""
        rules, network = self.chain.wallets.rules, self.chain.wallets.network
        found = family_of(network).calls(self.unstored, rules.tables) if self.unstored else {}
        if self.way is Way.TRACES:
            found["traces"] = self.planned.heights.size
        return found

    @property
    def calls_per_change(self) -> int | None:
        """Calls that finding a block takes which changed the coins of an account without an event;
        None if such blocks are not looked for, or if all blocks are fetched anyway."""
        if self.way.reads_all or not self.finds_coins:
            return None
        return 2 * self.planned.backfill.chunk_size.bit_length()  # balance and nonce, by halving


async def preview(request: WalletsRequest, config: Config, ledger_url: str) -> list[PassPreview]:
    """The passes that adding these wallets would plan now."""
    async with open_chains(request, config, ledger_url, None) as (request, opened, unreached):
        if unreached:
            raise unreached[0].error
        system = opened[0].pool.system
        async with sink_at(config.sink(request.sink), system, create=False) as sink:
            chains = [
                await wallet_chain(request, wallets, config, chain, sink)
                for wallets, chain in zip(request.networks, opened, strict=True)
            ]
        planned: dict[SyncKey, PlannedHeights] = {}
        if (ledger := await opened[0].ledger.if_there()) is not None:
            keys = [key for chain in chains for key in chain.keys(request)]
            planned = await ledger.planned([*{key.wallet for key in keys}])
        plan = planner(request, chains, config.queue, lambda: "", detached=False)(planned)
        found = []
        for chain, its in zip(chains, opened, strict=True):
            for each in plan.passes:
                if each.addresses.chain_id == chain.chain_id:
                    finds_coins = await _finds_coins(its, chain, each)
                    found.append(PassPreview(chain, each, request.way, finds_coins))
        return found


async def _finds_coins(opened: OpenChain, chain: WalletChain, planned: PassRequest) -> bool:
    """Whether the network and its nodes tell what accounts had in the past."""
    rules, first = chain.wallets.rules, planned.heights.first
    node = rules.node(opened.pool, opened.network)
    if node.signed_since is None or first < node.signed_since:
        return False
    address = rules.parse_address(planned.addresses.addresses[0])
    return await node.snapshots([AccountAt(address, first)]) is not None
