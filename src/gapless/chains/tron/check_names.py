"""The checks of TRON blocks, by the names that users and stored records use."""

from __future__ import annotations

from enum import StrEnum

from gapless.core import proof


class TronCheck(StrEnum):
    """The checks of a block, from the cheapest to the most expensive."""

    HEIGHT = proof.HEIGHT  # it is the requested block
    LINK = proof.LINK  # its parent is the block before
    WITNESS = "witness"  # it names the witness that produced it; the genesis has none
    EMPTY = "empty"  # the root is that of no transactions if and only if there are none
    COUNTS = "counts"  # every transaction has its info, in order; in the genesis, none
    PLACES = "places"  # every info names the block, its time and one of its transactions, in order
    HEADER_HASH = "header_hash"  # the header hashes to the block's id
    TRANSACTION_IDS = "transaction_ids"  # every transaction hashes to its id
    TRANSACTIONS_ROOT = "transactions_root"  # the transactions hash to the root in the header
    AGREED = proof.AGREED  # two endpoints return the same transactions, infos and logs
    LOGS = "logs"  # never: no hash covers logs, fees and results; recorded as unproven
    ANCHOR = proof.ANCHOR  # at a height with a known hash, the block has that hash


PROVABLE = frozenset(TronCheck) - {TronCheck.AGREED, TronCheck.LOGS, TronCheck.ANCHOR}
"""The checks that honest blocks pass."""
