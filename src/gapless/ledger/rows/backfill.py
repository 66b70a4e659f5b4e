"""Rows of `backfills`, and of `groups` of them.

A new column of a backfill is a field here, and one of `records.Terms` if it is a part of the
request: all else copies it by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import msgspec

from gapless.core.backfill import Lifecycle
from gapless.core.chunk import Order
from gapless.core.errors import Unreadable
from gapless.core.retry import RetryPolicy
from gapless.core.selector import ExplicitSummary
from gapless.core.spec import encode_spec
from gapless.ledger.records import Backfill, BackfillRequest, ChunkCounts, ClaimedBackfill
from gapless.ledger.rows.texts import RETRY, SELECTOR, SPEC, json_text, lifecycle, read


class NewBackfill(msgspec.Struct, frozen=True):
    """The columns that are written when a backfill is created."""

    id: str
    job: str
    job_version: int
    spec: str
    selector: str
    selection: str
    partitions: int
    chunk_size: int
    chunk_total: int
    max_concurrent_runs: int
    queue: str
    run_order: str
    retry: str
    retry_longest: float
    lease_seconds: float
    timeout: float | None
    parent_backfill_id: str | None
    retry_request_id: str | None
    group_name: str | None
    standing: bool
    follow: str | None
    precedence: int
    state: str
    state_version: int

    @classmethod
    def of(cls, request: BackfillRequest) -> NewBackfill:
        created = Lifecycle(request.id)
        names = [name for name in cls.__struct_fields__ if hasattr(request, name)]
        same = {name: getattr(request, name) for name in names}
        other = {
            "spec": encode_spec(request.spec),
            "selector": json_text(request.selector),
            "selection": request.selection.digest,
            "run_order": request.order.value,
            "retry": json_text(request.retry),
            "retry_longest": request.retry.longest,
            "group_name": request.group,
            "state": created.state.value,
            "state_version": created.state_version,
        }
        return cls(**(same | other))


class StoredBackfill(NewBackfill, frozen=True):
    """All columns of a backfill."""

    planned: int
    stopping: str | None
    drift: str | None
    error: str | None
    created_at: float
    started_at: float | None
    ended_at: float | None


class CountedBackfill(StoredBackfill, frozen=True):
    """A backfill with its chunks counted by status, and the time at which they were."""

    running: int
    failed: int
    complete: int
    abandoned: int
    cancelled: int
    queue_paused: bool
    now: float

    def backfill(self) -> Backfill:
        """The backfill as it is shown; what cannot be read of it is named and shown as empty."""
        ended = self.complete + self.abandoned + self.cancelled
        counts = ChunkCounts(
            total=self.chunk_total,
            planned=self.planned,
            pending=self.planned - self.running - self.failed - ended,  # maybe a million
            running=self.running,
            complete=self.complete,
            failed=self.failed,
            abandoned=self.abandoned,
            cancelled=self.cancelled,
        )
        problems: list[str] = []

        def readable(what: str, text: str, reader: Callable[[str], Any], otherwise: Any) -> Any:
            try:
                return read(self.id, what, text, reader)
            except Unreadable as error:
                problems.append(str(error))
                return otherwise

        empty = ExplicitSummary([], self.partitions)
        selector = readable("selector", self.selector, SELECTOR, empty)
        names = [each.name for each in fields(Backfill) if hasattr(self, each.name)]
        same = {name: getattr(self, name) for name in names}
        other = {
            "selector": msgspec.to_builtins(selector),
            "spec": readable("spec", self.spec, SPEC, {}),
            "retry": readable("retry policy", self.retry, RETRY, RetryPolicy()),
            "order": readable("order", self.run_order, Order, Order.OLDEST),
            "group": self.group_name,
            "standing": bool(self.standing),
            "lifecycle": lifecycle(self.id, self.state, self.state_version, self.stopping),
            "chunks": counts,
            "queue_paused": bool(self.queue_paused),
        }
        return Backfill(**(same | other), unreadable="; ".join(problems) or None)


class LifecycleRow(msgspec.Struct, frozen=True):
    """The columns of a backfill that commands change."""

    id: str
    state: str
    state_version: int
    stopping: str | None

    def lifecycle(self) -> Lifecycle:
        return lifecycle(self.id, self.state, self.state_version, self.stopping)


class Candidate(msgspec.Struct, frozen=True):
    """A backfill to claim from."""

    id: str
    job: str
    job_version: int
    spec: str
    selection: str
    retry: str
    lease_seconds: float
    group_name: str | None
    timeout: float | None
    queue: str

    def claimed(self) -> ClaimedBackfill:
        return ClaimedBackfill(
            backfill_id=self.id,
            job=self.job,
            job_version=self.job_version,
            spec=read(self.id, "spec", self.spec, SPEC),
            selection=self.selection,
            retry=read(self.id, "retry policy", self.retry, RETRY),
            lease_seconds=self.lease_seconds,
            group=self.group_name,
            timeout=self.timeout,
            queue=self.queue,
        )


class LockedCandidate(Candidate, frozen=True):
    """A backfill to claim from, whose row is locked."""

    awaited: bool = False  # whether somebody else had it locked


class LockedBackfill(Candidate, frozen=True):
    """A backfill whose row is locked, with what planning needs."""

    chunk_total: int
    planned: int
    run_order: str
    standing: bool
    state: str
    state_version: int
    stopping: str | None

    @property
    def order(self) -> Order:
        return read(self.id, "order", self.run_order, Order)

    def lifecycle(self) -> Lifecycle:
        return lifecycle(self.id, self.state, self.state_version, self.stopping)


class InspectedBackfill(LockedBackfill, frozen=True):
    """A locked backfill, and what may be taken of it."""

    room: int
    has_expired: bool
    has_due: bool


class Signals(msgspec.Struct, frozen=True):
    """What a heartbeat tells the holder of a lease about its backfill."""

    state: str
    stopping: str | None


class JobVersion(msgspec.Struct, frozen=True):
    """A job as backfills name it."""

    job: str
    job_version: int


class NextDue(msgspec.Struct, frozen=True):
    """Seconds until a failed chunk may be tried again, and until a lease ends."""

    retry: float | None
    lease: float | None


class Group(msgspec.Struct, frozen=True):
    epoch: int
    completed_seen: int
    hook: str


class DrainedGroup(msgspec.Struct, frozen=True):
    """A group with nothing left to run, and how many of its chunks are complete."""

    name: str
    completed: int
