"""What the holder of a lease may do: extend it, and end its run.

Every statement names the chunk's fence and claim id. If it changes no row, another worker holds the
lease, unless an earlier attempt of the same statement took effect: then the row still has this
claim id and the requested outcome, which counts as success.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

from gapless.core.backfill import State, Stop
from gapless.core.chunk import Status, Verdict, after_failure, after_loss
from gapless.core.events import ChunkEnded, ChunkFailed
from gapless.core.retry import RetryKind
from gapless.core.text import head, storable, tail
from gapless.ledger import control, views
from gapless.ledger.database import LedgerTransaction, one, one_as
from gapless.ledger.records import (
    CLASS_LIMIT,
    KEPT_ATTEMPTS,
    MESSAGE_LIMIT,
    TRACEBACK_LIMIT,
    Claim,
    Failure,
    Progress,
    Signal,
)
from gapless.ledger.rows.backfill import Signals
from gapless.ledger.rows.chunk import Beat
from gapless.ledger.rows.texts import encode_holes


async def heartbeat(
    tx: LedgerTransaction, beats: Sequence[tuple[Claim, Progress]]
) -> dict[int, Signal]:
    """Extends leases and records progress; returns what to do next for each claim, by its fence.

    A worker that lost a chunk and claimed it again may still have the former run of it. That run
    must hear that it is lost, whatever the answer to the newer claim is.
    """
    signals: dict[int, Signal] = {}
    progress = {claim.fence: progress for claim, progress in beats}
    for backfill_id, claims in _by_backfill(claim for claim, _ in beats):
        items = [_beat(claim, progress[claim.fence]) for claim in claims]
        held = {row[0] for row in await tx.fetch("heartbeat", id=backfill_id, items=items)}
        now = await one_as(tx, Signals, "signals", id=backfill_id)
        for claim in claims:
            extended = claim.fence in held
            if now is None or not (extended or await _took_effect(tx, claim, Status.RUNNING)):
                signals[claim.fence] = Signal.LOST
            elif now.stopping == Stop.CANCEL:
                signals[claim.fence] = Signal.STOP
            elif not extended:
                signals[claim.fence] = Signal.HELD
            else:
                paused = now.state == State.PAUSED
                signals[claim.fence] = Signal.PAUSE if paused else Signal.GO_ON
    return signals


async def complete(tx: LedgerTransaction, claims: Sequence[Claim]) -> set[str]:
    """Completes chunks; returns the ids of those whose lease is lost."""
    lost: set[str] = set()
    for backfill_id, ours in _by_backfill(claims):
        held: dict[str, dict[int, int]] = {}  # fences by chunk, by claim: the shortest JSON of them
        for claim in ours:
            held.setdefault(claim.claim_id, {})[claim.chunk_index] = claim.fence
        if await tx.count("complete", id=backfill_id, held=held) == len(ours):
            continue
        for claim in ours:
            if not await _took_effect(tx, claim, Status.COMPLETE):
                lost.add(claim.chunk_id)
    return lost


async def fail(tx: LedgerTransaction, failure: Failure, chance: float) -> Verdict | None:
    """Ends a run with an error, by the backfill's retry policy; None if its lease is lost."""
    claim, policy = failure.claim, failure.claim.backfill.retry
    if policy.kind is RetryKind.HALT:  # everywhere, a backfill is locked before its chunks
        await tx.fetch("lock_backfill", id=claim.backfill_id)
    progress = await _known_progress(tx, claim, failure.progress)
    progressed = progress.last_processed != claim.last_failure_position
    if failure.ledger_lost:
        verdict = after_loss(policy, claim.failures, progressed=progressed, chance=chance)
    else:
        verdict = after_failure(
            policy,
            claim.failures,
            progressed=progressed,
            permanent=failure.permanent,
            chance=chance,
        )
    halts = verdict.status is Status.ABANDONED and policy.kind is RetryKind.HALT
    error = failure.error_class, failure.error_message
    if not await end_run(tx, claim, verdict, progress, error, failure.traceback):
        return verdict if await _took_effect(tx, claim, verdict.status) else None
    if halts:
        await control.request_stop(tx, claim.backfill_id, Stop.HALT)
    return verdict


async def release(tx: LedgerTransaction, claim: Claim, progress: Progress) -> bool:
    """Gives a chunk back with its progress; False if its lease is lost."""
    progress = await _known_progress(tx, claim, progress)
    row = await one(
        tx,
        "release",
        last_processed=progress.last_processed,
        holes=encode_holes(progress.holes),
        **claim.name,
    )
    return row is not None or await _took_effect(tx, claim, Status.PENDING)


async def hold(tx: LedgerTransaction, claim: Claim) -> bool:
    """Locks the chunk for a job's own transaction; False if its lease is lost."""
    return await one(tx, "hold", **claim.name) is not None


async def end_run(
    tx: LedgerTransaction,
    claim: Claim,
    verdict: Verdict,
    progress: Progress,
    error: tuple[str, str],
    traceback: str | None = None,
) -> bool:
    """Writes the verdict on a run, with its events and counts; False if its lease is lost."""
    error_class = head(storable(error[0]), CLASS_LIMIT)
    error_message = head(storable(error[1]), MESSAGE_LIMIT)
    row = await one(
        tx,
        "fail",
        status=verdict.status.value,
        attempts=verdict.failures.attempts,
        lost=verdict.failures.lost,
        delay=verdict.delay,
        last_processed=progress.last_processed,
        holes=encode_holes(progress.holes),
        error_class=error_class,
        error_message=error_message,
        **claim.name,
    )
    if row is None:
        return False
    await tx.fetch(
        "add_attempt",
        id=claim.backfill_id,
        chunk_index=claim.chunk_index,
        fence=claim.fence,
        attempt=claim.attempt,
        worker=claim.owner,
        error_class=error_class,
        error_message=error_message,
        traceback=None if traceback is None else tail(storable(traceback), TRACEBACK_LIMIT),
        kept=KEPT_ATTEMPTS,
        abandoned=int(verdict.status is Status.ABANDONED),
    )
    events: list[Any] = [
        ChunkFailed(
            claim.backfill_id,
            claim.chunk_index,
            claim.fence,
            verdict.failures.attempts,
            verdict.failures.lost,
            error_class,
            error_message,
            claim.owner,
        )
    ]
    if verdict.status is Status.ABANDONED:
        events.append(ChunkEnded(claim.backfill_id, claim.chunk_index, Status.ABANDONED))
    await control.append(tx, events)
    return True


async def _known_progress(tx: LedgerTransaction, claim: Claim, reported: Progress) -> Progress:
    """The progress that a run reports, or that of the ledger if it is further.

    A job's transaction commits its progress with its effects. The run may not know of the commit:
    its reply was lost, or the run was abandoned meanwhile. Forgetting that progress would repeat
    the effects.
    """
    if not await hold(tx, claim):
        return reported
    (row,) = await views.chunks(tx, claim.backfill_id, claim.chunk_index, claim.chunk_index)
    reached = [reported.last_processed, row.progress.last_processed]
    healed = claim.holes - row.progress.holes
    return replace(
        reported,
        last_processed=max((at for at in reached if at is not None), default=None),
        holes=reported.holes - healed,
    )


async def _took_effect(tx: LedgerTransaction, claim: Claim, status: Status) -> bool:
    row = await one(tx, "confirm", **claim.name)
    return row is not None and row[0] == status


def _beat(claim: Claim, progress: Progress) -> Beat:
    return Beat(
        claim.chunk_index,
        claim.fence,
        claim.claim_id,
        progress.last_processed,
        encode_holes(progress.holes),
    )


def _by_backfill(claims: Iterable[Claim]) -> Iterable[tuple[str, list[Claim]]]:
    """Claims by backfill, always in the same order, so that writers cannot deadlock."""
    found: dict[str, list[Claim]] = {}
    for claim in claims:
        found.setdefault(claim.backfill.backfill_id, []).append(claim)
    for backfill_id in sorted(found):
        yield backfill_id, sorted(found[backfill_id], key=attrgetter("chunk_index"))
