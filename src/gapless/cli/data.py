"""The JSON of every `--json`. Pure; its fields are a contract, `docs` describe them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from gapless.core.chunk import chunk_id
from gapless.core.ranges import RangeSet
from gapless.views.figures import moment

if TYPE_CHECKING:
    from gapless.core.selector import Selection
    from gapless.ledger.records import Attempt, Backfill, ChunkRow, DeadLetter
    from gapless.runtime.explain import Explanation


def to_json(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def backfill_json(backfill: Backfill) -> dict[str, Any]:
    return {
        "id": backfill.id,
        "state": backfill.state,
        "state_version": backfill.lifecycle.state_version,
        "stopping": backfill.lifecycle.stopping,
        "job": backfill.job,
        "job_version": backfill.job_version,
        "spec": backfill.spec,
        "parent_backfill_id": backfill.parent_backfill_id,
        "retry_request_id": backfill.retry_request_id,
        "group": backfill.group,
        "selector": backfill.selector,
        "partitions": backfill.partitions,
        "chunk_size": backfill.chunk_size,
        "max_concurrent_runs": backfill.max_concurrent_runs,
        "queue": backfill.queue,
        "order": backfill.order,
        "retry": msgspec.structs.asdict(backfill.retry),
        "timeout": backfill.timeout,
        "chunks": backfill.chunks,
        "progress_pct": backfill.progress_pct,
        "error": backfill.error,
        "drift": backfill.drift,
        "created_at": _moment(backfill.created_at),
        "started_at": _moment(backfill.started_at),
        "ended_at": _moment(backfill.ended_at),
    }


def explanation_json(explanation: Explanation) -> dict[str, Any]:
    return {**msgspec.to_builtins(explanation), "until": _moment(explanation.until)}


def chunk_json(chunk: ChunkRow, selection: Selection, backfill_id: str) -> dict[str, Any]:
    return {
        "chunk_id": chunk_id(backfill_id, chunk.chunk_index),
        "chunk_index": chunk.chunk_index,
        "partitions": selection.describe(RangeSet.of(chunk.span)),
        "count": chunk.span.size,
        "done": chunk.done,
        "progress_pct": chunk.progress_pct,
        "status": chunk.status,
        "attempts": chunk.tries.attempts,
        "lost": chunk.tries.lost,
        "fence": chunk.fence,
        "owner": chunk.owner,
        "due": _moment(chunk.due),
        "error_class": chunk.error_class,
        "error_message": chunk.error_message,
    }


def dead_json(letter: DeadLetter) -> dict[str, Any]:
    return {
        "chunk_id": letter.chunk_id,
        "backfill_id": letter.backfill_id,
        "job": letter.job,
        "partitions": letter.partitions,
        "missing": len(letter.missing),
        "attempts": letter.attempts,
        "lost": letter.lost,
        "error_class": letter.error_class,
        "error_message": letter.error_message,
        "ended_at": _moment(letter.ended_at),
    }


def attempt_json(attempt: Attempt) -> dict[str, Any]:
    return {**msgspec.to_builtins(attempt), "at": _moment(attempt.at)}


def _moment(seconds: float | None) -> str | None:
    return None if seconds is None else moment(seconds)
