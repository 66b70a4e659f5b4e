"""The checks of EVM blocks, by the names that users and stored records use."""

from __future__ import annotations

from enum import StrEnum

from gapless.core import proof


class Check(StrEnum):
    """The checks of a block, from the cheapest to the most expensive."""

    HEIGHT = proof.HEIGHT  # it is the requested block
    LINK = proof.LINK  # its parent is the block before
    COUNTS = "counts"  # every transaction has its receipt
    PLACES = "places"  # its transactions and receipts name the block and their position in it
    EMPTY = "empty"  # a root is that of the empty list if and only if the list is empty
    GAS = "gas"  # the last receipt's cumulative gas is the block's
    RECEIPT_BLOOMS = "receipt_blooms"  # each receipt's bloom is that of its logs
    BLOOM = "bloom"  # the header's bloom is that of all logs
    HEADER_HASH = "header_hash"
    RECEIPTS_ROOT = "receipts_root"
    STATE_SYNC = "state_sync"  # Polygon: the receipt outside the roots; nothing proves it
    TRANSACTIONS_ROOT = "transactions_root"  # and each transaction's hash
    WITHDRAWALS_ROOT = "withdrawals_root"
    DERIVED = "derived"  # gas used, contract addresses and others that follow from proven fields
    PRICES = "prices"  # effective gas prices, by EIP-1559
    LOG_INDEX = "log_index"  # logs are numbered without a gap
    SENDERS = "senders"  # every sender is the signer
    AGREED = proof.AGREED  # logs without receipts: two endpoints return the same ones
    ANCHOR = proof.ANCHOR  # at a height with a known hash, the block has that hash


FULL = frozenset(Check) - {Check.STATE_SYNC, Check.AGREED, Check.ANCHOR}
"""The checks that the blocks of a standard Ethereum network pass."""
BASIC = frozenset({Check.HEIGHT, Check.LINK, Check.COUNTS, Check.PLACES})
