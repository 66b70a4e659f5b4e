"""Explains why a chunk is not running, from the state of the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gapless.core.backfill import State, Stop
from gapless.core.chunk import Status
from gapless.core.ranges import RangeSet
from gapless.core.selector import Selection
from gapless.core.similar import did_you_mean
from gapless.ledger.records import Backfill, ChunkRow, WorkerRow
from gapless.runtime.catalog import versioned
from gapless.runtime.slots import serves


@dataclass(frozen=True)
class Explanation:
    """What a chunk, or the unplanned rest of a backfill, waits for."""

    chunk_index: int | None
    status: str
    reason: str
    detail: str
    until: float | None = None
    partitions: str | None = None


def explain_chunk(
    backfill: Backfill,
    chunk: ChunkRow,
    workers: Sequence[WorkerRow],
    selection: Selection | None = None,
) -> Explanation:
    """Why a planned chunk runs, waits or has ended; a selection adds the partitions."""
    reason, detail, until = _chunk_reason(backfill, chunk, workers)
    partitions = None
    if selection is not None:
        partitions = selection.describe(RangeSet.of(chunk.span))[0]
    return Explanation(chunk.chunk_index, chunk.status.value, reason, detail, until, partitions)


def explain_unplanned(backfill: Backfill, workers: Sequence[WorkerRow]) -> Explanation | None:
    """Why chunks are not planned yet; None if all are, or never will be."""
    left = backfill.chunks.total - backfill.chunks.planned
    if not left or backfill.state.ended:
        return None
    held = _held_back(backfill, workers)
    reason, detail = held or ("unplanned", "planned when running chunks finish")
    return Explanation(None, f"{left} UNPLANNED", reason, detail)


def _chunk_reason(
    backfill: Backfill, chunk: ChunkRow, workers: Sequence[WorkerRow]
) -> tuple[str, str, float | None]:
    error = f"{chunk.error_class}: {chunk.error_message}" if chunk.error_class else ""
    match chunk.status:
        case Status.COMPLETE:
            return "complete", "done", None
        case Status.CANCELLED:
            return "cancelled", "cancelled before it was done", None
        case Status.ABANDONED:
            return "abandoned", error, None
        case Status.RUNNING:
            until = chunk.lease_until or 0.0
            if backfill.now < until <= backfill.now + backfill.lease_seconds + 1:
                return "leased", f"leased by {chunk.owner}, {chunk.progress_pct:g}% done,", until
            return "lease_over", f"lease of {chunk.owner} expired; the next claim takes it", until
        case Status.FAILED if (chunk.retry_at or 0.0) > backfill.now:
            return "backoff", f"after failure {chunk.failures.attempts}: {error}", chunk.retry_at
        case Status.FAILED | Status.PENDING:
            held = _held_back(backfill, workers)
            if held is None and backfill.chunks.running >= backfill.max_concurrent_runs:
                limit = backfill.max_concurrent_runs
                held = "no_room", f"{backfill.chunks.running} of {limit} runs are active"
            return *(held or ("claimable", "waiting for an idle slot")), None


def _held_back(backfill: Backfill, workers: Sequence[WorkerRow]) -> tuple[str, str] | None:
    """What keeps all chunks of the backfill from being claimed."""
    if backfill.lifecycle.stopping is Stop.CANCEL:
        return "cancelling", "the backfill is being cancelled"
    if backfill.lifecycle.stopping is Stop.HALT:
        return "halting", "the backfill is stopping after its first failure"
    if backfill.state is State.PAUSED:
        return "paused", "the backfill is paused"
    if backfill.queue_paused:
        return "queue_paused", f"queue `{backfill.queue}` is paused"
    serving = [
        worker
        for worker in workers
        if any(serves(slot, backfill.queue, backfill.id, backfill.follow) for slot in worker.slots)
    ]
    if not serving:
        served = {slot for worker in workers for slot in worker.slots if "@" not in slot}
        similar = did_you_mean(backfill.queue, sorted(served))
        detail = f"no live worker serves queue `{backfill.queue}`"
        return "no_worker", f"{detail}; {similar}" if similar else detail
    obstacles = [_obstacle(backfill, worker) for worker in serving]
    if all(obstacles):
        return "job_unresolved", f"worker {serving[0].id}: {obstacles[0]}"
    return None


def _obstacle(backfill: Backfill, worker: WorkerRow) -> str | None:
    """Why a worker cannot run the backfill's job, as it reported."""
    version = versioned(backfill.job, backfill.job_version)
    return worker.unresolved.get(backfill.job) or worker.unresolved.get(version)
