"""Claiming chunks, which also recovers lost ones and plans new ones.

One transaction serves up to `count` idle slots from one backfill:

1. pick a backfill of the first queue that has work, at random, and lock its row; pause, cancel
   and settle take the same lock, so no limit and no stop is ever crossed by a race. A row that
   someone else keeps locked, of a backfill or of a chunk, holds up nothing else;
2. leases that have ended become FAILED (or, too often in a row, ABANDONED; or COMPLETE, if all
   was done but the last word) right here: there is no reaper that could itself stall;
3. take what is due: failed chunks first, then pending ones in the backfill's order;
4. plan the next few hundred chunks when the pending ones run out.

The fence of each claim comes from one sequence of the whole ledger and never repeats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any, TypeAlias

from gapless.core.backfill import Command, State, Stop, decide
from gapless.core.chunk import Status, after_loss, missing, next_indices
from gapless.core.retry import RetryKind
from gapless.ledger import control, leases
from gapless.ledger.database import Transaction
from gapless.ledger.records import Claim, ClaimedBackfill, ClaimRequest, Progress
from gapless.ledger.rows.backfill import (
    Candidate,
    InspectedBackfill,
    JobVersion,
    LockedBackfill,
    NextDue,
)
from gapless.ledger.rows.chunk import ExpiredChunk, LeasedChunk, ReclaimedChunk

PLAN_AHEAD = 256
CANDIDATES = 8  # backfills of a queue that one claim looks into
Chance: TypeAlias = "Callable[[], float]"


async def claim(tx: Transaction, request: ClaimRequest, chance: Chance) -> list[Claim]:
    """Up to `count` chunks of one backfill, now leased to the owner."""
    if tx.again and (taken := await _claimed_before(tx, request.claim_id)):
        return _claims((await _inspect(tx, taken[0].backfill_id)).claimed(), request, taken)
    for queue in request.queues:
        tried: list[str] = []
        while len(tried) < CANDIDATES:
            candidate = await _lock_candidate(tx, request, queue, tried)
            if candidate is None:
                break
            if claims := await _take(tx, request, candidate, chance):
                return claims
            tried.append(candidate.backfill_id)
    return []


async def plan(tx: Transaction, backfill_id: str, count: int) -> int:
    """Plans up to `count` more chunks of a backfill, and says how many; none once it stands."""
    lifecycle = await control.lock(tx, backfill_id)
    if lifecycle.stopping or lifecycle.state not in (State.PENDING, State.RUNNING):
        return 0
    return await _plan(tx, await _inspect(tx, backfill_id), count)


async def seconds_until_due(tx: Transaction, queues: tuple[str, ...], since: float) -> float | None:
    """How long until a waiting chunk or the end of a lease may give these queues work.

    What came due in the last `since` seconds counts too, as less than zero: whoever claimed that
    long ago may have missed it. What was due even then waits for room, not for time.
    """
    (due,) = await tx.fetch_as(NextDue, "next_due", queues=queues, since=since)
    return min((each for each in (due.retry, due.lease) if each is not None), default=None)


async def active_jobs(tx: Transaction, queues: tuple[str, ...]) -> list[tuple[str, int]]:
    """Name and version of every job that unfinished backfills of these queues want."""
    found = await tx.fetch_as(JobVersion, "active_jobs", queues=queues)
    return [(each.job, each.job_version) for each in found]


async def raise_fence(tx: Transaction, above: int) -> None:
    """Makes every fence drawn from now on higher than this number."""
    if (await tx.fetch("latest_fence"))[0][0] < above:
        await tx.fetch("stop_claims")
        await tx.fetch("raise_fence", above=above)


async def _lock_candidate(
    tx: Transaction, request: ClaimRequest, queue: str, tried: Sequence[str]
) -> ClaimedBackfill | None:
    """Locks a backfill with work: one that is free at once if possible, else the next to be."""
    jobs = [JobVersion(*job) for job in request.jobs]
    wanted = {"queue": queue, "jobs": jobs, "only": request.only, "tried": list(tried)}
    found = await tx.fetch_as(Candidate, "lock_candidate", **wanted)
    if not found and await tx.fetch("held_candidate", **wanted):
        found = await tx.fetch_if_free(Candidate, "await_candidate", **wanted)
    return found[0].claimed() if found else None


async def _claimed_before(tx: Transaction, claim_id: str) -> list[ReclaimedChunk]:
    """The chunks that an earlier try of this claim took, if its reply was lost."""
    return await tx.fetch_as(ReclaimedChunk, "claimed_before", claim_id=claim_id)


async def _inspect(tx: Transaction, backfill_id: str) -> InspectedBackfill:
    (found,) = await tx.fetch_as(InspectedBackfill, "inspect", id=backfill_id)
    return found


async def _take(
    tx: Transaction, request: ClaimRequest, shared: ClaimedBackfill, chance: Chance
) -> list[Claim]:
    """Mostly, pending chunks are all there is to take, and one statement does it."""
    lease = {
        "id": shared.backfill_id,
        "owner": request.owner,
        "claim_id": request.claim_id,
        "lease": shared.lease_seconds,
    }
    taken = await _take_pending(tx, request.count, lease, guarded=True)
    if len(taken) < request.count:
        left = request.count - len(taken)
        taken += await _recover_and_plan(tx, left, shared, lease, chance)
    return _claims(shared, request, sorted(taken, key=attrgetter("rank")))


async def _take_pending(
    tx: Transaction, count: int, lease: dict[str, Any], *, guarded: bool
) -> list[LeasedChunk]:
    return await tx.fetch_as(LeasedChunk, "take_pending", k=count, guarded=guarded, **lease)


async def _recover_and_plan(
    tx: Transaction, count: int, shared: ClaimedBackfill, lease: dict[str, Any], chance: Chance
) -> list[LeasedChunk]:
    """Recovers leases that have ended, takes failed chunks that are due, and plans new ones."""
    locked = await _inspect(tx, shared.backfill_id)
    room = locked.room
    if locked.has_expired:
        recovered, halted = await _recover(tx, shared, chance)
        room += recovered
        if halted:
            return []
    count = min(count, room)
    if count <= 0:
        return []
    taken: list[LeasedChunk] = []
    if locked.has_due or locked.has_expired:
        longest = shared.retry.longest
        taken += await tx.fetch_as(LeasedChunk, "take_failed", k=count, longest=longest, **lease)
        if len(taken) < count:
            taken += await _take_pending(tx, count - len(taken), lease, guarded=False)
    if len(taken) < count and await _plan(tx, locked, max(PLAN_AHEAD, count)):
        taken += await _take_pending(tx, count - len(taken), lease, guarded=False)
    return taken


async def _recover(tx: Transaction, shared: ClaimedBackfill, chance: Chance) -> tuple[int, bool]:
    """Ends the runs whose leases are over; says how many, and whether that halts the backfill."""
    rows = await tx.fetch_as(ExpiredChunk, "expired", id=shared.backfill_id)
    ended = [chunk.claim(shared, chunk.claim_id, chunk.owner) for chunk in rows]
    done = [each for each in ended if not missing(each.span, each.last_processed, each.holes)]
    await leases.complete(tx, done)  # their workers died before they could say so
    halted = False
    for lost in ended:
        if lost in done:
            continue
        verdict = after_loss(
            shared.retry,
            lost.failures,
            progressed=lost.last_processed != lost.last_failure_position,
            chance=chance(),
        )
        await leases.end_run(
            tx,
            lost,
            verdict,
            Progress(lost.last_processed, lost.holes),
            ("worker_lost", "the worker's lease ended without a word from it"),
        )
        halted |= verdict.status is Status.ABANDONED and shared.retry.kind is RetryKind.HALT
    if halted:
        await control.request_stop(tx, shared.backfill_id, Stop.HALT)
    return len(rows), halted


async def _plan(tx: Transaction, locked: LockedBackfill, count: int) -> int:
    order = locked.order
    indices = next_indices(order, locked.chunk_total, locked.planned, count)
    if not indices:
        return 0
    low, high = indices[0], indices[-1]
    await tx.fetch("plan", id=locked.id, low=low, high=high, direction=order.direction)
    lifecycle = locked.lifecycle()
    await control.record(tx, lifecycle, decide(lifecycle, Command.START))
    return len(indices)


def _claims(
    shared: ClaimedBackfill, request: ClaimRequest, taken: Iterable[LeasedChunk]
) -> list[Claim]:
    return [chunk.claim(shared, request.claim_id, request.owner) for chunk in taken]
