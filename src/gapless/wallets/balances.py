"""What wallets hold: exact sums of what they received and sent.

A sum counts every movement by what it says, whatever its category. So a sum does not depend on the
order in which movements are added, on the rules of categories, or on overrides, and what is
subtracted leaves no trace.

Spoofs count too. A spoof of an honest token has the value 0, because the token's contract refuses
to send more than a balance: it cannot make a sum wrong. A spoof above the balance is an event of a
token that lies, or of one whose balances change without events; there the event is true, and
leaving it out would make the sum of an honest token wrong. The sum of a token that lies shows what
the token says, and may be below zero: such a holding is `is_overdrawn`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from gapless.chains.movements import Movement
from gapless.wallets.categories import WalletEntry


class Asset(NamedTuple):
    """Something that a wallet can hold."""

    wallet: bytes
    token: bytes
    token_id: int | None


class TokenHolding(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a token a wallet holds, by the sum of its movements.

    A wallet owns a token that exists once while it holds 1 of its id.
    """

    wallet: bytes
    token: bytes
    token_id: int | None
    amount: int

    @property
    def is_overdrawn(self) -> bool:
        """Whether more was sent than received: movements are missing, or the token lies."""
        return self.amount < 0


class Reconciled(msgspec.Struct, frozen=True):
    """A sum beside what the chain says."""

    computed: int
    on_chain: int | None
    """None if it is unknown, because no endpoint answers for that block."""

    @property
    def unexplained(self) -> int | None:
        """What changed the balance without a known movement; None if it is unknown."""
        return None if self.on_chain is None else self.on_chain - self.computed


class Sums:
    """Signed amounts of assets; those that are 0 are not kept."""

    def __init__(self, amounts: Mapping[Asset, int] | None = None) -> None:
        self._amounts = {asset: it for asset, it in (amounts or {}).items() if it}

    def __getitem__(self, asset: Asset) -> int:
        return self._amounts.get(asset, 0)

    def __len__(self) -> int:
        return len(self._amounts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sums) and self._amounts == other._amounts

    __hash__ = None  # type: ignore[assignment] # it changes

    def items(self) -> Iterator[tuple[Asset, int]]:
        """All amounts other than 0."""
        yield from self._amounts.items()

    def add(self, movement: Movement, entry: WalletEntry) -> None:
        """Count a movement for the wallet of an entry."""
        asset = Asset(entry.wallet, movement.token, movement.token_id)
        self.change(asset, entry.direction * movement.amount)

    def subtract(self, movement: Movement, entry: WalletEntry) -> None:
        """Undo `add`."""
        asset = Asset(entry.wallet, movement.token, movement.token_id)
        self.change(asset, -entry.direction * movement.amount)

    def change(self, asset: Asset, amount: int) -> None:
        amount += self._amounts.get(asset, 0)
        if amount:
            self._amounts[asset] = amount
        else:
            self._amounts.pop(asset, None)

    def merge(self, other: Sums) -> None:
        """Add the sums of other movements."""
        for asset, amount in other.items():
            self.change(asset, amount)

    def holdings(self) -> list[TokenHolding]:
        """All assets that are not 0, in the order of wallets, tokens and ids."""
        found = sorted(self._amounts.items(), key=lambda it: _order(it[0]))
        return [TokenHolding(**asset._asdict(), amount=amount) for asset, amount in found]


def _order(asset: Asset) -> tuple[bytes, bytes, int]:
    return asset.wallet, asset.token, -1 if asset.token_id is None else asset.token_id
