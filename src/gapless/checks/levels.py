"""How much is asked of a block: a level is a name for a set of checks.

    level      checks
    off        none
    links      height, parent link, counts, places, empty roots, gas, blooms
    receipts   links, the header's hash and the receipts root
    auto       receipts, the transactions and withdrawals roots and every transaction's hash:
               whatever the network commits to
    roots      auto, and every field that follows from those by arithmetic
    senders    roots, and the sender of every transaction, recovered from its signature

A backfill stores the checks, not the level, so that it keeps its meaning when a level changes.
"""

from __future__ import annotations

from enum import StrEnum

from gapless.networks import Check, Network

_LINKS = frozenset(
    {
        *(Check.HEIGHT, Check.LINK, Check.COUNTS, Check.PLACES, Check.EMPTY),
        *(Check.GAS, Check.RECEIPT_BLOOMS, Check.BLOOM),
    }
)
_RECEIPTS = _LINKS | {Check.HEADER_HASH, Check.RECEIPTS_ROOT}
COMMITTED = _RECEIPTS | {Check.TRANSACTIONS_ROOT, Check.WITHDRAWALS_ROOT}
"""Everything that a chain commits to, where it does."""
_ROOTS = COMMITTED | {Check.DERIVED, Check.PRICES, Check.LOG_INDEX}
# What nobody can say of a block whose receipts were not fetched.
_NEEDS_RECEIPTS = frozenset(
    {
        *(Check.COUNTS, Check.GAS, Check.RECEIPT_BLOOMS, Check.BLOOM, Check.RECEIPTS_ROOT),
        *(Check.DERIVED, Check.PRICES, Check.LOG_INDEX, Check.SENDERS),
    }
)


class Level(StrEnum):
    """A set of checks that people ask for by name."""

    OFF = "off"
    LINKS = "links"
    RECEIPTS = "receipts"
    AUTO = "auto"
    ROOTS = "roots"
    SENDERS = "senders"

    @property
    def checks(self) -> frozenset[Check]:
        return _CHECKS[self]

    def checks_of(self, *, receipts: bool) -> frozenset[Check]:
        """The checks that make sense for blocks that are fetched with or without receipts."""
        return self.checks if receipts else self.checks - _NEEDS_RECEIPTS


_CHECKS = {
    Level.OFF: frozenset[Check](),
    Level.LINKS: _LINKS,
    Level.RECEIPTS: _RECEIPTS,
    Level.AUTO: COMMITTED,
    Level.ROOTS: _ROOTS,
    Level.SENDERS: _ROOTS | {Check.SENDERS},
}


def lacking_proofs(
    proven: frozenset[str], unproven: frozenset[str], expected: frozenset[Check] = COMMITTED
) -> frozenset[str]:
    """What a person should know is not proven: of what is expected, or was asked for in vain."""
    return (expected | unproven) - proven


def required(network: Network, checks: frozenset[Check], height: int) -> frozenset[Check]:
    """Which of the checks a block at this height must pass, because its network supports them."""
    return network.checks_at(height) & checks
