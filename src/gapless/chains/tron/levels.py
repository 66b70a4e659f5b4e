"""The checks of each level on a TRON chain.

off        none
links      height, parent link, witness, empty root, and infos that belong to the transactions
receipts   links, the block's id and every transaction's id: TRON does not commit to receipts
auto       receipts, and the transactions root
roots      auto, and that a second endpoint returns the same, which doubles the calls
senders    the same as roots: the keys that may sign for an account are not in the block
"""

from __future__ import annotations

from collections.abc import Collection

from gapless.chains.level import Level
from gapless.chains.tron.check_names import TronCheck
from gapless.chains.tron.tables import TRON_BLOCKS

_OF_INFOS = frozenset({TronCheck.COUNTS, TronCheck.PLACES})
_LINKS = _OF_INFOS | {TronCheck.HEIGHT, TronCheck.LINK, TronCheck.WITNESS, TronCheck.EMPTY}
_IDS = _LINKS | {TronCheck.HEADER_HASH, TronCheck.TRANSACTION_IDS}
_AUTO = _IDS | {TronCheck.TRANSACTIONS_ROOT}
_ROOTS = _AUTO | {TronCheck.AGREED}
_CHECKS = {
    Level.OFF: frozenset[TronCheck](),
    Level.LINKS: _LINKS,
    Level.RECEIPTS: _IDS,
    Level.AUTO: _AUTO,
    Level.ROOTS: _ROOTS,
    Level.SENDERS: _ROOTS,
}


def needs_infos(datasets: Collection[str]) -> bool:
    """Whether any of these tables has columns that come from infos."""
    return bool({*datasets} - {TRON_BLOCKS.name})


def checks_of(level: Level, datasets: Collection[str]) -> frozenset[TronCheck]:
    """Return the checks of a level that are possible if these tables are fetched."""
    checks = _CHECKS[level]
    return checks if needs_infos(datasets) else checks - _OF_INFOS
