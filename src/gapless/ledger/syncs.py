"""Wallets and their syncs, as the ledger takes and shows them.

A sync is a wallet on a chain, for a sink. It is identified by facts (chain id, sink id); the names
of network and sink may change. What was planned for it is one range of heights. A *pass* is a
backfill over a part of that range, for all addresses of an immutable set: wallets that are added
together share their pass, and an earlier start or a later end is one more pass. So is another way
of looking, which its spec names as `way`: it covers heights again. What retries a pass is a pass of
the same syncs.

    PENDING ──> RUNNING ──> COMPLETE     every height of the range is done
       ^           │  ├───> FAILED       nothing runs, and a segment waits for its retry
       └───────────┘  ├───> ABANDONED    heights are missing that nobody retries
                      └───> CANCELLED    heights are missing because passes were cancelled

The state of a sync is not stored: it follows from its passes, and so does its progress.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

import msgspec

from gapless.core.errors import UsageError
from gapless.core.ranges import RangeSet, Span
from gapless.ledger.records import BackfillRequest, ChunkCounts

WAY = "way"
"""The key, in the spec of a pass, of how it looks. Two ways may cover the same heights."""
MOST_SEGMENTS = 365
"""The chunks of a pass, which are planned when it is created."""


class WalletKey(NamedTuple):
    """An address in a group. The same address may be in several groups."""

    group: str
    address: str  # as the chain's family writes it


class SyncKey(NamedTuple):
    """A wallet on a chain, for a sink."""

    group: str
    address: str
    chain_id: int
    sink_id: str

    @property
    def wallet(self) -> WalletKey:
        return WalletKey(self.group, self.address)


@dataclass(frozen=True)
class Wallet:
    """An address in a group, and what its owner calls it."""

    group: str
    address: str
    label: str | None = None  # None, when it is added again: as it was
    added_at: float = 0.0  # set by the ledger

    @property
    def key(self) -> WalletKey:
        return WalletKey(self.group, self.address)


class AddressSet(msgspec.Struct, frozen=True, dict=True):
    """The addresses that a pass looks for. Its id is its content, so it never changes."""

    chain_id: int
    addresses: tuple[str, ...]

    @classmethod
    def of(cls, chain_id: int, addresses: Iterable[str]) -> AddressSet:
        return cls(chain_id, tuple(sorted(set(addresses))))

    @cached_property
    def id(self) -> str:
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()


@dataclass(frozen=True, kw_only=True)
class PassRequest:
    """A backfill that looks for some wallets of a group, and so becomes a part of their syncs."""

    backfill: BackfillRequest
    group: str  # of the wallets
    addresses: AddressSet
    network: str
    sink: str
    sink_id: str

    def __post_init__(self) -> None:
        request = self.backfill
        if request.standing or request.follow is not None or len(request.selection.spans) != 1:
            raise UsageError(f"`{request.id}` does not cover one range of heights")
        if not self.addresses.addresses:
            raise UsageError(f"`{request.id}` looks for no address")
        if request.chunk_total > MOST_SEGMENTS:
            raise UsageError(
                f"`{request.id}` would have {request.chunk_total:,} segments",
                hint=f"choose larger ones: a plan has at most {MOST_SEGMENTS}",
            )

    @property
    def heights(self) -> Span:
        return Span(*self.backfill.selection.spans[0])

    @property
    def way(self) -> str:
        return str(self.backfill.spec.get(WAY, ""))

    @property
    def syncs(self) -> list[SyncKey]:
        chain_id = self.addresses.chain_id
        return [
            SyncKey(self.group, address, chain_id, self.sink_id)
            for address in self.addresses.addresses
        ]


@dataclass(frozen=True)
class WalletPlan:
    """What to do for wallets: new passes, and syncs whose unfinished segments to retry now."""

    passes: tuple[PassRequest, ...] = ()
    renewed: tuple[SyncKey, ...] = ()


@dataclass(frozen=True)
class PlannedHeights:
    """What is planned for a sync."""

    heights: Span
    ways: Mapping[str, RangeSet]  # of these, those that passes of each way cover


Planner = Callable[[Mapping[SyncKey, PlannedHeights]], WalletPlan]
"""Decides what to do, given what is planned for each sync of the wallets.

It runs within the transaction, maybe more than once: it must be quick, and have no effects.
"""


class SyncState(StrEnum):
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    FAILED = "FAILED"
    PAUSED = "PAUSED"
    COMPLETE = "COMPLETE"
    ABANDONED = "ABANDONED"
    CANCELLED = "CANCELLED"


@dataclass(frozen=True)
class SyncFilter:
    """Which syncs to list; None means any."""

    group: str | None = None
    address: str | None = None
    network: str | None = None
    state: SyncState | None = None


class Trouble(msgspec.Struct, frozen=True):
    """Why a segment is not done: its latest failure."""

    attempts: int  # failed runs in a row
    error_class: str
    error_message: str


class SyncProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far some passes are. Syncs with the same passes share it."""

    state: SyncState
    segments: ChunkCounts
    """Chunks of all passes. Those that were retried count as what they became."""
    done: int
    """Heights that are done. Of a segment that was interrupted, what it did counts when it runs."""
    total: int  # heights that are planned
    processed_to: int | None
    """Everything from the first height to this one is done; None if the first one is not."""
    trouble: Trouble | None  # of the segment to be retried next, else of an abandoned one
    failed_runs: int
    next_retry_at: float | None
    changed_at: float  # heartbeats included

    @property
    def segments_pct(self) -> float:
        return _percentage(self.segments.complete, self.segments.total)

    @property
    def heights_pct(self) -> float:
        return _percentage(self.done, self.total)


class Sync(msgspec.Struct, frozen=True, kw_only=True):
    """A wallet on a chain, for a sink, and how far it is."""

    key: SyncKey
    label: str | None
    network: str
    sink: str
    heights: Span
    passes: tuple[str, ...]  # ids of backfills, the oldest first
    progress: SyncProgress
    created_at: float
    updated_at: float  # when it was last planned, or one of its passes changed

    @property
    def state(self) -> SyncState:
        return self.progress.state


def _percentage(part: int, whole: int) -> float:
    return round(100 * part / whole, 2) if whole else 0.0


MovementPlace = tuple[int, int, str, int, int, int]
"""The key of a movement: chain, block, kind, transaction, position in it, position in a batch."""


@dataclass(frozen=True, kw_only=True)
class Override:
    """What a person says a movement means to a wallet."""

    group: str
    address: str
    movement: MovementPlace
    category: str
    note: str | None = None
    at: float = 0.0  # set by the ledger

    @property
    def wallet(self) -> WalletKey:
        return WalletKey(self.group, self.address)
