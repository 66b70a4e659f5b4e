"""Rows of `wallets`, `syncs`, `sync_passes`, `address_sets` and `overrides`."""

from __future__ import annotations

import zlib

import msgspec

from gapless.core.backfill import State
from gapless.core.errors import Unreadable
from gapless.core.ranges import Span
from gapless.ledger.rows.chunk import ChunkProgress
from gapless.ledger.syncs import (
    AddressSet,
    MovementPlace,
    Override,
    PassRequest,
    Sync,
    SyncKey,
    SyncProgress,
    Wallet,
    WalletKey,
)

_ENDED = frozenset(each.value for each in State if each.ended)
_ADDRESSES = msgspec.json.Decoder(tuple[str, ...]).decode
_IDS = msgspec.json.Decoder(list[str]).decode


class WalletName(msgspec.Struct, frozen=True):
    """How a statement over several wallets names each of them."""

    wallet_group: str
    address: str


class NewWallet(WalletName, frozen=True):
    label: str | None

    @classmethod
    def of(cls, wallet: Wallet) -> NewWallet:
        return cls(wallet.group, wallet.address, wallet.label)


class StoredWallet(NewWallet, frozen=True):
    added_at: float

    def wallet(self) -> Wallet:
        return Wallet(self.wallet_group, self.address, self.label, self.added_at)


class SyncName(WalletName, frozen=True):
    chain_id: int
    sink_id: str

    @property
    def key(self) -> SyncKey:
        return SyncKey(self.wallet_group, self.address, self.chain_id, self.sink_id)


class PlannedSync(SyncName, frozen=True):
    """A sync with one more pass; the ledger joins the heights with those that it has."""

    network: str
    sink: str
    first: int
    last: int

    @property
    def heights(self) -> Span:
        return Span(self.first, self.last)

    @classmethod
    def of(cls, wanted: PassRequest) -> list[PlannedSync]:
        names = wanted.network, wanted.sink
        return [cls(*key, *names, *wanted.heights) for key in wanted.syncs]


class ListedSync(PlannedSync, frozen=True):
    """A sync, with the ids of its passes as JSON."""

    created_at: float
    updated_at: float
    label: str | None
    passes: str

    @property
    def pass_ids(self) -> list[str]:
        return _IDS(self.passes)

    def sync(self, passes: tuple[str, ...], progress: SyncProgress) -> Sync:
        return Sync(
            key=self.key,
            label=self.label,
            network=self.network,
            sink=self.sink,
            heights=self.heights,
            passes=passes,
            progress=progress,
            created_at=self.created_at,
            updated_at=max(self.updated_at, progress.changed_at),
        )


class SyncPass(SyncName, frozen=True):
    """A backfill that is a part of a sync, and which addresses it looks for."""

    backfill_id: str
    address_set: str

    @classmethod
    def of(cls, wanted: PassRequest) -> list[SyncPass]:
        names = wanted.backfill.id, wanted.addresses.id
        return [cls(*key, *names) for key in wanted.syncs]


class PassCounters(msgspec.Struct, frozen=True, gc=False):
    """A pass, with counters of its ended chunks."""

    id: str
    parent_backfill_id: str | None
    group_name: str | None
    selection: str
    partitions: int
    chunk_size: int
    chunk_total: int
    planned: int
    run_order: str
    state: str
    stopping: str | None
    lease_seconds: float
    created_at: float
    changed_at: float
    complete: int
    abandoned: int
    cancelled: int
    failed_runs: int
    last_status: str | None  # of the last chunk, which may be smaller than the others
    way: str

    @property
    def has_ended(self) -> bool:
        return self.state in _ENDED

    @property
    def unended(self) -> int:
        """Chunks that have not ended, those that are not planned yet included."""
        return self.chunk_total - self.complete - self.abandoned - self.cancelled


class OpenSegments(msgspec.Struct, frozen=True, gc=False):
    """The chunks of a pass in one status."""

    backfill_id: str
    status: str
    chunks: int
    done: int  # positions
    missing_from: int  # a position, below which they have done all
    next_due: float | None
    last_due: float | None


class PassTrouble(msgspec.Struct, frozen=True, gc=False):
    """The latest failure of a chunk of a pass."""

    backfill_id: str
    attempts: int
    lost: int
    error_class: str
    error_message: str


class MissingChunk(ChunkProgress, frozen=True):
    """A chunk of a pass that is not complete."""

    backfill_id: str


class StoredSelection(msgspec.Struct, frozen=True):
    hash: str
    data: bytes


class StoredAddressSet(msgspec.Struct, frozen=True):
    """An address set; the addresses are zlib-compressed JSON."""

    id: str
    chain_id: int
    addresses: bytes

    @classmethod
    def of(cls, wanted: AddressSet) -> StoredAddressSet:
        return cls(wanted.id, wanted.chain_id, zlib.compress(msgspec.json.encode(wanted.addresses)))

    def address_set(self) -> AddressSet:
        """The set; raises `Unreadable` if it is not the one that its id stands for."""
        try:
            found = AddressSet(self.chain_id, _ADDRESSES(zlib.decompress(self.addresses)))
        except (zlib.error, msgspec.MsgspecError) as error:
            raise Unreadable(f"the address set `{self.id:.16}` cannot be read: {error}") from error
        if found.id != self.id:
            raise Unreadable(f"the address set `{self.id:.16}` does not match its id")
        return found


class MovementName(WalletName, frozen=True):
    """A movement of a wallet."""

    chain_id: int
    block_number: int
    kind: str
    transaction_index: int
    position: int
    batch_position: int

    @classmethod
    def of(cls, wallet: WalletKey, place: MovementPlace) -> MovementName:
        chain, block, kind, transaction, position, batch_position = place
        return cls(*wallet, chain, block, kind, transaction, position, batch_position)

    @property
    def place(self) -> MovementPlace:
        return (
            self.chain_id,
            self.block_number,
            self.kind,
            self.transaction_index,
            self.position,
            self.batch_position,
        )


class NewOverride(MovementName, frozen=True):
    category: str
    note: str | None

    @classmethod
    def saying(cls, said: Override) -> NewOverride:
        name = MovementName.of(said.wallet, said.movement)
        return cls(**msgspec.structs.asdict(name), category=said.category, note=said.note)


class StoredOverride(NewOverride, frozen=True):
    at: float

    def override(self) -> Override:
        return Override(
            group=self.wallet_group,
            address=self.address,
            movement=self.place,
            category=self.category,
            note=self.note,
            at=self.at,
        )
