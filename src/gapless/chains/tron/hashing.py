"""The hashes of TRON: block ids, transaction ids and the Merkle root of the transactions.

    id of a block          height (8 bytes) ‖ the last 24 bytes of sha256(header)
    id of a transaction    sha256(raw_data)
    leaf of a transaction  sha256(raw_data, signatures and results)

The root covers whole transactions as the witness had them. A node's JSON leaves out fields that the
node does not know, so a root computed from JSON can differ though nothing is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from gapless.chains.tron.protobuf import bytes_field, item_field, number_field

_HEIGHT = 8  # bytes
NO_TRANSACTIONS = bytes(32)
"""The root of a block without transactions."""


def header_bytes(
    *,
    timestamp: int,
    transactions_root: bytes,
    parent_hash: bytes,
    number: int,
    witness_id: int = 0,
    witness_address: bytes,
    version: int,
    account_state_root: bytes = b"",
) -> bytes:
    """Encode a header, whose hash is in the block's id."""
    return b"".join(
        (
            number_field(1, timestamp),
            bytes_field(2, transactions_root),
            bytes_field(3, parent_hash),
            number_field(7, number),
            number_field(8, witness_id),
            bytes_field(9, witness_address),
            number_field(10, version),
            bytes_field(11, account_state_root),
        )
    )


def block_id(number: int, header: bytes) -> bytes:
    return number.to_bytes(_HEIGHT, "big") + sha256(header).digest()[_HEIGHT:]


def transaction_id(raw_data: bytes) -> bytes:
    return sha256(raw_data).digest()


def transaction_bytes(
    raw_data: bytes, signatures: Sequence[bytes], results: Sequence[bytes]
) -> bytes:
    """Encode a whole transaction; results are encoded messages."""
    signed = b"".join(item_field(2, each) for each in signatures)
    return item_field(1, raw_data) + signed + b"".join(item_field(5, each) for each in results)


def merkle_root(transactions: Sequence[bytes]) -> bytes:
    """Return the root of encoded transactions; a node without a neighbour moves up unchanged."""
    level = [sha256(each).digest() for each in transactions]
    if not level:
        return NO_TRANSACTIONS
    while len(level) > 1:
        pairs = (level[at : at + 2] for at in range(0, len(level), 2))
        level = [sha256(b"".join(it)).digest() if len(it) > 1 else it[0] for it in pairs]
    return level[0]
