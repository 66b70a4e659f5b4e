"""What the wallet store holds, beside movements: scans, members, entries and balances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from gapless.chains.movements import NOBODY, Movement, MovementKind
from gapless.core.ranges import Span
from gapless.wallets.categories import WalletEntry


class Scan(msgspec.Struct, frozen=True, kw_only=True):
    """A range of blocks in which all movements of an address set were looked for."""

    chain_id: int
    address_set: str
    span: Span
    source: str  # where it was looked: in stored tables, or in which answers of nodes
    proven: frozenset[str] = frozenset()
    unproven: frozenset[str] = frozenset()
    parent_hash: bytes = b""  # of the first block; empty if it is not known
    last_hash: bytes = b""  # of the last block; empty if it is not known
    fence: int


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """An address of a group on one chain, and the state of its balances."""

    group: str
    chain_id: int
    address: bytes
    network: str  # whose rules apply to its blocks: others may use the same chain id
    above: int  # blocks that are stored above this height are watched for its movements
    epoch: int = 0  # in which its entries were written last
    is_complete: bool = False  # whether no part of its history was missing then, from block 0 on
    knows_coins: bool = False  # whether coins were looked for in every block
    as_of: int = -1  # the last block of that history

    def is_complete_for(self, token: bytes) -> bool:
        """Whether no movement of a token can be missing."""
        return self.is_complete and (self.knows_coins or token != NOBODY)


class Balance(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The exact sum of what a wallet received and sent of a token."""

    group: str
    wallet: bytes
    chain_id: int
    token: bytes
    token_id: int | None
    amount: int
    entries: int  # that it is the sum of
    epoch: int = 0
    is_complete: bool = False
    as_of: int = -1


class HistoryPlace(NamedTuple):
    """The place of an item in the order of a listing: by time, across chains."""

    block_timestamp: int
    chain_id: int
    block_number: int
    transaction_index: int
    position: int
    batch_position: int
    kind: str
    wallet: bytes = b""  # of an entry: two wallets of a group may share a movement

    @classmethod
    def of(cls, it: Movement, wallet: bytes = b"") -> HistoryPlace:
        where = (it.transaction_index, it.position, it.batch_position, str(it.kind))
        return cls(it.block_timestamp, it.chain_id, it.block_number, *where, wallet)


class HistoryItem(NamedTuple):
    """A movement, and what it means to a wallet."""

    movement: Movement
    entry: WalletEntry

    @property
    def place(self) -> HistoryPlace:
        return HistoryPlace.of(self.movement, self.entry.wallet)


@dataclass(frozen=True)
class HistoryFilter:
    """Which items to list. An empty tuple means any."""

    since: int | None = None  # the first second
    until: int | None = None  # the last second
    chains: tuple[int, ...] = ()
    tokens: tuple[bytes, ...] = ()
    kinds: tuple[MovementKind, ...] = ()
    counterparties: tuple[bytes, ...] = ()
    categories: tuple[str, ...] = ()  # of entries


@dataclass(frozen=True)
class Page:
    """A part of a listing. To continue, pass the place of the last item."""

    limit: int = 100
    after: HistoryPlace | None = None
    newest_first: bool = True
