"""What a wallet holds on a network: by its movements, and by what a node reports.

Without a height, the sums of all known movements are shown; they are compared with the chain at the
last block of the wallet's history. Nodes often remember accounts at recent blocks only, and what
they do not remember is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from gapless.core.heights import Moment
from gapless.wallets.finding import WalletReader
from gapless.wallets.reconcile import reconcile
from gapless.wallets.records import Balance, Member
from gapless.wallets.request import rules_of

if TYPE_CHECKING:
    from gapless.blocks.session import OpenChain

Token = tuple[int, bytes, int | None]
"""The chain, the token and its id."""


@dataclass(frozen=True)
class Holdings:
    """Balances, and what nodes report; a token that is not there was not asked about."""

    balances: list[Balance] = field(default_factory=list)
    on_chain: dict[Token, int | None] = field(default_factory=dict)


@dataclass(frozen=True)
class ChainWallet:
    """A wallet on one chain, and the last block up to which its movements are known."""

    reader: WalletReader
    chain_id: int
    member: Member | None
    known_to: int

    async def computed(self, at: int | Moment | None) -> list[Balance]:
        """The sums of its movements: of all, or until a block or a time."""
        if at is None:
            found = await self.reader.balances()
            return [each for each in found if each.chain_id == self.chain_id]
        key, address = self.reader.wallet.key, self.reader.wallet.address
        height, time = (at, None) if isinstance(at, int) else (None, at.ends - 1)
        found = await self.reader.store.balances_at(
            key.group, address, self.chain_id, height=height, time=time
        )
        return [
            msgspec.structs.replace(
                each, is_complete=height is not None and self._is_complete(each.token, height)
            )
            for each in found
        ]

    async def compared(self, chain: OpenChain, height: int) -> Holdings:
        """Its balances after a block, beside what the node reports for it."""
        wallet, rules = self.reader.wallet, rules_of(chain.network)
        node = rules.node(chain.pool, chain.network)
        group, address = wallet.key.group, wallet.address
        found = Holdings()
        compared = await reconcile(self.reader.store, node, group, address, self.chain_id, height)
        for each in compared:
            balance = Balance(
                group=group,
                wallet=address,
                chain_id=self.chain_id,
                token=each.token,
                token_id=each.token_id,
                amount=each.balance.computed,
                entries=0,
                is_complete=self._is_complete(each.token, height),
                as_of=height,
            )
            found.balances.append(balance)
            found.on_chain[self.chain_id, each.token, each.token_id] = each.balance.on_chain
        return found

    def _is_complete(self, token: bytes, height: int) -> bool:
        member = self.member
        return member is not None and member.is_complete_for(token) and height <= self.known_to
