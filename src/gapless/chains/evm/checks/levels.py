"""The checks of each level on an EVM chain.

off        none
links      height, parent link, counts, positions, empty roots, gas, blooms
receipts   links, the header's hash and the receipts root
auto       receipts, the transactions and withdrawals roots, and every transaction's hash:
           everything that the network commits to
roots      auto, and every field that follows from those by arithmetic
senders    roots, and the sender of every transaction, recovered from its signature
"""

from __future__ import annotations

from collections.abc import Collection

from gapless.chains.evm.check_names import Check
from gapless.chains.level import Level

_LINKS = frozenset(
    {
        *(Check.HEIGHT, Check.LINK, Check.COUNTS, Check.PLACES, Check.EMPTY),
        *(Check.GAS, Check.RECEIPT_BLOOMS, Check.BLOOM),
    }
)
_RECEIPTS = _LINKS | {Check.HEADER_HASH, Check.RECEIPTS_ROOT}
_COMMITTED = _RECEIPTS | {Check.TRANSACTIONS_ROOT, Check.WITHDRAWALS_ROOT}
_ROOTS = _COMMITTED | {Check.DERIVED, Check.PRICES, Check.LOG_INDEX}
# Checks that are not possible without receipts.
_NEEDS_RECEIPTS = frozenset(
    {
        *(Check.COUNTS, Check.GAS, Check.RECEIPT_BLOOMS, Check.BLOOM, Check.RECEIPTS_ROOT),
        *(Check.DERIVED, Check.PRICES, Check.LOG_INDEX, Check.SENDERS),
    }
)
_CHECKS = {
    Level.OFF: frozenset[Check](),
    Level.LINKS: _LINKS,
    Level.RECEIPTS: _RECEIPTS,
    Level.AUTO: _COMMITTED,
    Level.ROOTS: _ROOTS,
    Level.SENDERS: _ROOTS | {Check.SENDERS},
}


def needs_receipts(datasets: Collection[str]) -> bool:
    """Whether any of these tables is derived from receipts."""
    return not {"transactions", "logs", "transfers"}.isdisjoint(datasets)


def checks_of(level: Level, datasets: Collection[str]) -> frozenset[Check]:
    """Return the checks of a level that are possible if these tables are fetched."""
    checks = _CHECKS[level]
    return checks if needs_receipts(datasets) else checks - _NEEDS_RECEIPTS
