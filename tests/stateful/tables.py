"""The ledger's tables, read directly: what the laws are checked against.

Nothing here uses the ledger's own statements, so a wrong statement cannot hide itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Protocol

import apsw
import asyncpg
import msgspec

from gapless.core.backfill import State, Stop
from gapless.core.chunk import Order, Status
from gapless.core.ranges import RangeSet
from gapless.core.retry import RetryPolicy
from gapless.ledger.records import Progress

Key = tuple[str, int]
"""Backfill and index of a chunk."""


@dataclass(frozen=True)
class Chunk:
    """A row of `chunks`."""

    backfill_id: str
    index: int
    rank: int
    first: int
    last: int
    status: Status
    attempts: int
    lost: int
    fence: int | None
    claim_id: str | None
    owner: str | None
    due: float | None
    last_processed: int | None
    last_failure_position: int | None
    holes: RangeSet
    ended_at: float | None
    purged_at: float | None
    write_fence: int | None

    @property
    def key(self) -> Key:
        return self.backfill_id, self.index

    @property
    def progress(self) -> Progress:
        return Progress(self.last_processed, self.holes)

    @property
    def done(self) -> set[int]:
        return done_of(self.first, self.progress)

    @property
    def missing(self) -> set[int]:
        return set(range(self.first, self.last + 1)) - self.done


@dataclass(frozen=True)
class Backfill:
    """A row of `backfills`, without columns that never matter here."""

    id: str
    job: str
    job_version: int
    selection: str
    partitions: int
    chunk_size: int
    chunk_total: int
    planned: int
    max_concurrent_runs: int
    queue: str
    order: Order
    retry: RetryPolicy
    lease_seconds: float
    state: State
    state_version: int
    stopping: Stop | None
    parent: str | None
    group: str | None
    standing: bool
    follow: str | None
    precedence: int

    @property
    def place(self) -> tuple[int, str]:
        """Among the backfills of its follow: the highest is served first."""
        return self.precedence, self.id

    @property
    def active(self) -> bool:
        """Whether chunks may be planned and claimed."""
        return self.state in (State.PENDING, State.RUNNING) and self.stopping is None

    def lapsed(self, chunk: Chunk, now: float) -> bool:
        """Whether the lease has expired, or is impossibly distant because the clock jumped back."""
        assert chunk.due is not None
        return not now < chunk.due <= now + self.lease_seconds + 1

    def is_due(self, chunk: Chunk, now: float) -> bool:
        """Whether a failed chunk has waited long enough."""
        assert chunk.due is not None
        return not now < chunk.due <= now + self.retry.longest + 1


@dataclass(frozen=True)
class Cursor:
    """A row of `cursors`."""

    follow: str
    owner: str | None
    lease_until: float | None
    fence: int
    version: int


@dataclass(frozen=True)
class Snapshot:
    """All tables at one moment, in an order that does not depend on the database."""

    backfills: dict[str, Backfill] = field(default_factory=dict)
    chunks: dict[Key, Chunk] = field(default_factory=dict)
    counts: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    folded: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    cursors: dict[str, Cursor] = field(default_factory=dict)
    vanishing: frozenset[str] = frozenset()  # backfills that are being deleted
    epochs: dict[str, int] = field(default_factory=dict)
    events: tuple[int, int] = (0, 0)

    def of(self, backfill_id: str, *statuses: Status) -> list[Chunk]:
        """The chunks of a backfill by index, with some statuses or all."""
        found = [
            chunk
            for chunk in self.chunks.values()
            if chunk.backfill_id == backfill_id and (not statuses or chunk.status in statuses)
        ]
        return sorted(found, key=lambda chunk: chunk.index)

    def leased(self, backfill_id: str, now: float) -> list[Chunk]:
        backfill = self.backfills[backfill_id]
        running = self.of(backfill_id, Status.RUNNING)
        return [chunk for chunk in running if not backfill.lapsed(chunk, now)]

    def takeable(self, backfill_id: str, now: float) -> int:
        """How many chunks wait for a worker."""
        backfill = self.backfills[backfill_id]
        failed = self.of(backfill_id, Status.FAILED)
        unplanned = backfill.chunk_total - backfill.planned
        due = sum(backfill.is_due(chunk, now) for chunk in failed)
        return unplanned + len(self.of(backfill_id, Status.PENDING)) + due

    def busy(self, group: str) -> bool:
        """Whether a backfill of the group has a pending or running chunk, planned or not."""
        return any(
            self.of(each.id, Status.PENDING, Status.RUNNING)
            or (each.stopping is None and each.planned < each.chunk_total)
            for each in self.backfills.values()
            if each.group == group and not each.state.ended
        )

    def completed(self, group: str) -> int:
        members = [each.id for each in self.backfills.values() if each.group == group]
        return sum(len(self.of(each, Status.COMPLETE)) for each in members)


def done_of(first: int, progress: Progress) -> set[int]:
    """The positions of a chunk that are done with this progress."""
    if progress.last_processed is None:
        return set()
    return set(range(first, progress.last_processed + 1)) - set(progress.holes)


class Tables(Protocol):
    """A separate connection to the ledger's database."""

    async def rows(self, query: str) -> list[Sequence[Any]]: ...
    async def close(self) -> None: ...


class SqliteTables:
    def __init__(self, path: Path) -> None:
        self._connection = apsw.Connection(str(path))

    async def rows(self, query: str) -> list[Sequence[Any]]:
        return list(self._connection.execute(query))

    async def close(self) -> None:
        self._connection.close()


class PostgresTables:
    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection

    @classmethod
    async def connect(cls, url: str) -> PostgresTables:
        return cls(
            await asyncpg.connect(url, server_settings={"search_path": "gapless", "jit": "off"})
        )

    async def rows(self, query: str) -> list[Sequence[Any]]:
        return [tuple(row) for row in await self._connection.fetch(query)]

    async def empty(self) -> None:
        """Empties every table; the sequence of fences continues."""
        names = await self.rows(
            "SELECT tablename FROM pg_tables"
            " WHERE schemaname = 'gapless' AND tablename <> 'schema_version'"
        )
        await self._connection.execute(f"TRUNCATE {', '.join(row[0] for row in names)}")

    async def close(self) -> None:
        await self._connection.close()


async def read(tables: Tables) -> Snapshot:
    """The current tables."""
    chunks = [_chunk(row) for row in await tables.rows(f"SELECT {CHUNK_COLUMNS} FROM chunks")]
    backfills = [
        _backfill(row) for row in await tables.rows(f"SELECT {BACKFILL_COLUMNS} FROM backfills")
    ]
    counts = await tables.rows(
        "SELECT backfill_id, sum(complete), sum(abandoned), sum(cancelled), sum(folded_complete),"
        " sum(folded_abandoned), sum(folded_cancelled) FROM counts GROUP BY backfill_id"
    )
    cursors = await tables.rows("SELECT follow, owner, lease_until, fence, version FROM cursors")
    marked = await tables.rows("SELECT backfill_id FROM events WHERE type = 'BackfillFolded'")
    standing = {each.id for each in backfills if each.standing}
    epochs = await tables.rows("SELECT name, epoch FROM groups ORDER BY name")
    events = await tables.rows("SELECT count(*), coalesce(max(seq), 0) FROM events")
    return Snapshot(
        {each.id: each for each in sorted(backfills, key=lambda each: each.id)},
        {each.key: each for each in sorted(chunks, key=lambda each: each.key)},
        {row[0]: (int(row[1]), int(row[2]), int(row[3])) for row in counts},
        {row[0]: (int(row[4]), int(row[5]), int(row[6])) for row in counts},
        {row[0]: Cursor(*row) for row in cursors},
        frozenset(row[0] for row in marked) - standing,
        {row[0]: row[1] for row in epochs},
        (events[0][0], events[0][1]),
    )


CHUNK_COLUMNS = (
    "backfill_id, chunk_index, rank, first, last, status, attempts, lost, fence, claim_id, owner,"
    " due, last_processed, last_failure_position, holes, ended_at, purged_at, write_fence"
)
BACKFILL_COLUMNS = (
    "id, job, job_version, selection, partitions, chunk_size, chunk_total, planned,"
    " max_concurrent_runs, queue, run_order, retry, lease_seconds, state, state_version, stopping,"
    " parent_backfill_id, group_name, standing, follow, precedence"
)


def _chunk(row: Sequence[Any]) -> Chunk:
    values = _named(Chunk, row)
    values["status"] = Status(values["status"])
    holes = values["holes"]
    values["holes"] = RangeSet(msgspec.json.decode(holes)) if holes else RangeSet()
    return Chunk(**values)


def _backfill(row: Sequence[Any]) -> Backfill:
    values = _named(Backfill, row)
    values["order"] = Order(values["order"])
    values["retry"] = msgspec.json.decode(values["retry"], type=RetryPolicy)
    values["state"] = State(values["state"])
    values["standing"] = bool(values["standing"])
    values["stopping"] = Stop(values["stopping"]) if values["stopping"] else None
    return Backfill(**values)


def _named(kind: type[Chunk | Backfill], row: Sequence[Any]) -> dict[str, Any]:
    return dict(zip((field.name for field in fields(kind)), row, strict=True))
