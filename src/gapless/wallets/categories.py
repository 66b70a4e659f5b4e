"""What a movement means to a wallet: one entry per movement and own wallet.

The rules are in `wallets.classify`. A category that a person has set wins over them: an override
names the movement by its key, so it is found again whenever the rules run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum

import msgspec

from gapless.chains.movements import MovementKey
from gapless.core.errors import UsageError
from gapless.core.similar import known_names


class Category(StrEnum):
    """What a movement is to a wallet."""

    IN = "in"
    OUT = "out"
    BETWEEN = "between"  # from one wallet of the group to another
    MINT = "mint"  # created
    BURN = "burn"  # destroyed
    SWAP = "swap"  # a leg of a transaction that gives one token for another
    WRAP = "wrap"  # a leg of coins becoming tokens of the wrapping contract, or the reverse
    FEE = "fee"
    APPROVAL = "approval"  # the fee of a transaction that only grants an allowance
    SPOOF = "spoof"  # claims that the wallet sent something, which it did not
    REWARD = "reward"  # for its stake or votes
    WITHDRAWAL = "withdrawal"  # from a validator: stake and rewards


class Flag(StrEnum):
    """What else a reader should know about an entry."""

    LOOKALIKE = "lookalike"  # the counterparty resembles another, which the wallet has paid
    ZERO_VALUE = "zero_value"
    SELF = "self"  # the sender is the receiver
    MANUAL = "manual"  # a person has set the category


class WalletEntry(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a movement means to one wallet."""

    wallet: bytes
    movement: MovementKey
    direction: int
    """-1 if the wallet sent it, 1 if it received it, 0 if it did both."""
    category: Category
    flags: frozenset[Flag] = frozenset()


Overrides = Mapping[tuple[MovementKey, bytes], Category]
"""Categories that a person has set, by movement and wallet."""


def overridden(entries: Iterable[WalletEntry], overrides: Overrides) -> Iterator[WalletEntry]:
    """Replace the categories that a person has set, and flag them."""
    for entry in entries:
        category = overrides.get((entry.movement, entry.wallet))
        if category is None:
            yield entry
        else:
            flags = entry.flags | {Flag.MANUAL}
            yield msgspec.structs.replace(entry, category=category, flags=flags)


def parse_category(text: str) -> Category:
    """Return a category by its name; raise `UsageError` if there is no such category."""
    try:
        return Category(text)
    except ValueError:
        raise UsageError(
            f"`{text}` is not a category", hint=known_names(text, [*Category])
        ) from None
