"""What classification must remember of a group's earlier movements, on one chain.

Two things: how much its wallets hold, and whom they have paid. Both are small, however long the
history is, and can be stored: a block is classified from what the store says about the wallets,
tokens and counterparties in that block.

Pasts of consecutive parts of a history can be computed apart and joined. The past before a block
can be restored from the past after it: see `retract`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from gapless.chains.movements import Movement
from gapless.wallets.balances import Sums
from gapless.wallets.categories import WalletEntry

MOST_PAYEES = 50_000
"""Of a wallet. Those that it pays later are not remembered."""
_SHOWN = 4  # characters that people compare, at both ends of an address


class Payee(NamedTuple):
    """An address that a wallet has paid."""

    address: bytes
    since: int
    """The block in which it was paid first."""


@dataclass
class Past:
    """What is known of the time before the movements that come next."""

    sums: Sums = field(default_factory=Sums)
    payees: dict[bytes, dict[str, Payee]] = field(default_factory=dict)
    """By wallet and face: the first address with this face that the wallet has paid."""
    incomplete: frozenset[bytes] = frozenset()
    """Wallets whose sums are not their balances, because earlier movements are missing."""

    def pay(self, wallet: bytes, face: str, payee: Payee) -> None:
        """Remember that a wallet paid an address."""
        known = self.payees.setdefault(wallet, {})
        if len(known) < MOST_PAYEES:
            known.setdefault(face, payee)

    def append(self, later: Past) -> None:
        """Join the past of the movements that follow."""
        self.sums.merge(later.sums)
        for wallet, payees in later.payees.items():
            for shown, payee in payees.items():
                self.pay(wallet, shown, payee)
        self.incomplete |= later.incomplete

    def retract(self, first_block: int, entries: Iterable[tuple[Movement, WalletEntry]]) -> None:
        """Forget a block and all later ones, given all their entries."""
        for movement, entry in entries:
            self.sums.subtract(movement, entry)
        for wallet, payees in [*self.payees.items()]:
            left = {shown: it for shown, it in payees.items() if it.since < first_block}
            if left:
                self.payees[wallet] = left
            else:
                del self.payees[wallet]


def face(address: str) -> str:
    """What people compare of an address: its first and last four characters.

    >>> face("0xAb5801a7D398351b8bE11C439e05C5B3259aeC9B")
    'ab58ec9b'
    """
    shown = address.removeprefix("0x").casefold()
    return shown[:_SHOWN] + shown[-_SHOWN:]
