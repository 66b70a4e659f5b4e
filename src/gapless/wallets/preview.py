"""What adding wallets would do, without doing it: the passes, and what they cost."""

from __future__ import annotations

from dataclasses import dataclass

from gapless.blocks.session import sink_at
from gapless.chains import family_of
from gapless.config import Config
from gapless.core.ranges import RangeSet, Span
from gapless.ledger.syncs import PassRequest, SyncKey
from gapless.wallets.adding import open_chains, wallet_chain
from gapless.wallets.plan import WalletChain, planner
from gapless.wallets.reading import syncs_of
from gapless.wallets.request import WalletsRequest
from gapless.wallets.search import BLOCKS, EVENTS


@dataclass(frozen=True)
class PassPreview:
    """A pass that would be planned."""

    chain: WalletChain
    planned: PassRequest
    scans: bool

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
        return BLOCKS if self.scans else EVENTS

    @property
    def calls(self) -> dict[str, int]:
        """Calls that fetching every unstored block takes at least."""
        rules, network = self.chain.wallets.rules, self.chain.wallets.network
        return family_of(network).calls(self.unstored, rules.tables) if self.unstored else {}


async def preview(request: WalletsRequest, config: Config, ledger_url: str) -> list[PassPreview]:
    """The passes that adding these wallets would plan now."""
    async with open_chains(request, config, ledger_url, None) as opened:
        system = opened[0].pool.system
        async with sink_at(config.sink(request.sink), system, create=False) as sink:
            chains = [
                await wallet_chain(request, wallets, config, chain, sink)
                for wallets, chain in zip(request.networks, opened, strict=True)
            ]
        planned: dict[SyncKey, Span] = {}
        if (ledger := await opened[0].ledger.if_there()) is not None:
            keys = [key for chain in chains for key in chain.keys(request)]
            planned = {each.key: each.heights for each in await syncs_of(ledger, keys)}
    plan = planner(request, chains, config.queue, lambda: "", detached=False)(planned)
    by_chain = {chain.chain_id: chain for chain in chains}
    return [
        PassPreview(by_chain[each.addresses.chain_id], each, request.scan) for each in plan.passes
    ]
