"""The JSON of every `--json`. Pure; its fields are a contract, `docs` describe them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from gapless.cli.figures import moment

if TYPE_CHECKING:
    from gapless.ledger.records import Attempt, Backfill, DeadLetter
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


def outcomes_json(ended: Mapping[str, int]) -> dict[str, int]:
    """How often the runs of a worker ended how."""
    kinds = {"completed": "completed", "failure": "failed", "givenback": "given_back"}
    kinds["dropped"] = "lease_lost"
    return {name: ended.get(kind, 0) for kind, name in kinds.items()}


def _moment(seconds: float | None) -> str | None:
    return None if seconds is None else moment(seconds)
