"""The specifications of a pass and of a group, as the ledger stores them; names, never a URL."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from gapless.blocks.spec import BlocksSpec
from gapless.chains import Network, find_network
from gapless.chains.movements import WalletRules
from gapless.ledger.syncs import SyncKey
from gapless.wallets.request import rules_of
from gapless.wallets.ways import Way


class WalletsSpec(BlocksSpec, frozen=True, kw_only=True):
    """A pass: which addresses to look for, and how to fetch blocks where they are needed."""

    group: str
    address_set: str
    way: Way = Way.EVENTS
    until: int = 0  # the last final block when it was planned, by which accounts must have signed

    @property
    def rules(self) -> WalletRules:
        return rules_of(self.chain)


class GroupSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The wallets of a group on one chain, in one sink."""

    group: str
    network: str
    chain_id: int
    sink: str
    sink_id: str
    endpoints: tuple[str, ...] = ()  # to ask for the names of tokens

    @property
    def chain(self) -> Network:
        return replace(find_network(self.network), chain_id=self.chain_id)

    @property
    def rules(self) -> WalletRules:
        return rules_of(self.chain)

    @property
    def name(self) -> str:
        """The name of the group of backfills that the passes of these wallets are in."""
        return f"wallets-{self.group}-{self.chain_id}-{self.sink_id}"

    def owns(self, key: SyncKey) -> bool:
        """Whether a sync is one of these wallets."""
        return (key.group, key.chain_id, key.sink_id) == (self.group, self.chain_id, self.sink_id)
