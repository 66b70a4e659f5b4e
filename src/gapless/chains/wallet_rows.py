"""Rows of a wallet: which rows name an address, and the place of a movement on its chain.

Shared by all families. Rows are selected by whole columns before any is looked at one by one, so
that rows of others cost almost nothing.

Invariant: what a movement says follows from the chain alone. It does not depend on which other
addresses are looked for, nor on which other rows happen to be at hand.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import reduce
from typing import Any, NamedTuple

import pyarrow as pa

from gapless.chains.movements import NOBODY, NOWHERE, Movement, MovementKind
from gapless.schema import compute as pc

_ADDRESS = 20
_ZERO = bytes(_ADDRESS)
_INDEX_BITS = 24  # of the position of a transaction in its block


class Place(NamedTuple):
    """Where a movement happened: in a block, and in a transaction if there is one."""

    chain_id: int
    block_number: int
    block_hash: bytes
    block_timestamp: int
    transaction_index: int = NOWHERE
    transaction_hash: bytes = b""
    initiator: bytes = NOBODY

    def movement(
        self, kind: MovementKind, sender: bytes, receiver: bytes, amount: int, **more: Any
    ) -> Movement:
        """Create a movement that happened here; the zero address is nobody."""
        return Movement(
            kind=kind,
            sender=party(sender),
            receiver=party(receiver),
            amount=amount,
            **self._asdict(),
            **more,
        )


def party(address: bytes) -> bytes:
    """Return who an address is in movements: the zero address is nobody."""
    return NOBODY if address == _ZERO else address


def address_array(addresses: Collection[bytes], padding: bytes = b"") -> pa.Array:
    """Return addresses as they are in columns, with what precedes them there."""
    return pa.array([padding + each for each in addresses], pa.binary(len(padding) + _ADDRESS))


def naming(rows: pa.Table, columns: Iterable[str], addresses: pa.Array) -> pa.ChunkedArray:
    """Return which rows name one of the addresses in one of the columns."""
    return reduce(pc.or_, (pc.is_in(rows[name], value_set=addresses) for name in columns))


def transaction_keys(rows: pa.Table) -> pa.ChunkedArray:
    """Return the transaction of each row as one number, to compare whole columns."""
    heights = pc.shift_left(rows["block_number"], pa.scalar(_INDEX_BITS, pa.uint64()))
    return pc.bit_wise_or(heights, rows["transaction_index"])


def of_transactions(rows: pa.Table, keys: Iterable[pa.ChunkedArray]) -> pa.ChunkedArray:
    """Return which rows belong to one of the transactions."""
    wanted = pa.chunked_array([chunk for each in keys for chunk in each.chunks], pa.uint64())
    return pc.is_in(transaction_keys(rows), value_set=wanted.combine_chunks())


def block_places(blocks: pa.Table, heights: Iterable[int]) -> dict[int, Place]:
    """Return the places of some blocks, by height."""
    wanted = pa.array(sorted(set(heights)), pa.uint64())
    found = blocks.filter(pc.is_in(blocks["block_number"], value_set=wanted))
    names = ("chain_id", "block_number", "hash", "block_timestamp")
    columns = (found[name].to_pylist() for name in names)
    return {row[1]: Place(*row) for row in zip(*columns, strict=True)}


def of_parties(movements: Iterable[Movement], addresses: Collection[bytes]) -> Iterator[Movement]:
    """Yield the movements whose sender or receiver is one of the addresses."""
    parties = {*map(party, addresses)}
    return (each for each in movements if each.sender in parties or each.receiver in parties)
