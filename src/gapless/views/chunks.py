"""Chunks and dead letters: `backfill chunks` and `dead`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from gapless.core.chunk import Status, chunk_id
from gapless.core.ranges import RangeSet
from gapless.core.selector import Selection
from gapless.ledger.records import Attempt, ChunkRow, DeadLetter
from gapless.views.backfills import AttemptView, attempt_view
from gapless.views.moments import utc, utc_or_none


class ChunkView(Struct, frozen=True, kw_only=True):
    """A chunk: its partitions, its last run, and when something happens next."""

    chunk_id: str
    chunk_index: int
    partitions: tuple[str, ...]
    count: int
    done: int
    progress_pct: float
    status: Status
    attempts: int
    lost: int
    fence: int | None
    owner: str | None
    due: datetime | None
    error_class: str | None
    error_message: str | None


class DeadLetterView(Struct, frozen=True, kw_only=True):
    """An abandoned chunk; `missing` counts the partitions that nobody has done."""

    chunk_id: str
    backfill_id: str
    job: str
    partitions: tuple[str, ...]
    missing: int
    attempts: int
    lost: int
    error_class: str
    error_message: str
    ended_at: datetime


class DeadLetterDetails(Struct, frozen=True, kw_only=True):
    """A dead letter with its failed runs, which take the place of their number."""

    chunk_id: str
    backfill_id: str
    job: str
    partitions: tuple[str, ...]
    missing: int
    attempts: tuple[AttemptView, ...]
    lost: int
    error_class: str
    error_message: str
    ended_at: datetime


class PurgeView(Struct, frozen=True):
    """How many dead letters were taken off the list."""

    purged: int


def chunk_view(chunk: ChunkRow, selection: Selection, backfill_id: str) -> ChunkView:
    return ChunkView(
        chunk_id=chunk_id(backfill_id, chunk.chunk_index),
        chunk_index=chunk.chunk_index,
        partitions=tuple(selection.describe(RangeSet.of(chunk.span))),
        count=chunk.span.size,
        done=chunk.done,
        progress_pct=chunk.progress_pct,
        status=chunk.status,
        attempts=chunk.failures.attempts,
        lost=chunk.failures.lost,
        fence=chunk.fence,
        owner=chunk.owner,
        due=utc_or_none(chunk.due),
        error_class=chunk.error_class,
        error_message=chunk.error_message,
    )


def dead_letter_view(letter: DeadLetter) -> DeadLetterView:
    return DeadLetterView(**_fields(letter), attempts=letter.attempts)


def dead_letter_details(letter: DeadLetter, attempts: Sequence[Attempt]) -> DeadLetterDetails:
    return DeadLetterDetails(**_fields(letter), attempts=tuple(map(attempt_view, attempts)))


def _fields(letter: DeadLetter) -> dict[str, Any]:
    return {
        "chunk_id": letter.chunk_id,
        "backfill_id": letter.backfill_id,
        "job": letter.job,
        "partitions": letter.partitions,
        "missing": len(letter.missing),
        "lost": letter.lost,
        "error_class": letter.error_class,
        "error_message": letter.error_message,
        "ended_at": utc(letter.ended_at),
    }
