"""Claiming chunks, which also recovers lost ones and plans new ones.

One transaction serves up to `count` idle slots from one backfill:

1. Pick a random backfill of the first queue that has work, and lock its row. The backfills of a
   follow count as one, the one with the highest precedence. Pause, cancel and settle take the same
   lock, so no race can exceed a limit or ignore a stop. A row that another transaction keeps
   locked, of a backfill or of a chunk, delays nothing else.
2. Recover leases that have ended: their chunks become FAILED, or ABANDONED after too many losses in
   a row, or COMPLETE if only the completion was missing. There is no separate reaper that could
   stall.
3. Take chunks: failed ones whose wait is over first, then pending ones in the backfill's order. In
   a standing backfill the newest come first, failed or pending, so that old failures cannot delay
   the head.
4. Plan the next few hundred chunks when the pending ones run out. A standing backfill is never
   planned ahead.

The fence of each claim comes from one sequence of the whole ledger and never repeats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, TypeAlias

from gapless.core.backfill import Command, State, Stop, decide
from gapless.core.chunk import Status, after_loss, missing, next_indices
from gapless.core.retry import RetryKind
from gapless.ledger import control, leases
from gapless.ledger.database import LedgerTransaction, one_as
from gapless.ledger.records import Claim, ClaimedBackfill, ClaimRequest, Progress
from gapless.ledger.rows.backfill import (
    InspectedBackfill,
    JobVersion,
    LockedBackfill,
    LockedCandidate,
)
from gapless.ledger.rows.chunk import ExpiredChunk, LeasedChunk, ReclaimedChunk
from gapless.ledger.rows.texts import json_text

PLAN_AHEAD = 256
CANDIDATES = 8  # backfills of a queue that one claim tries
Chance: TypeAlias = "Callable[[], float]"


async def claim(
    tx: LedgerTransaction, request: ClaimRequest, chance: Chance, *, only_free: bool = False
) -> list[Claim]:
    """Leases up to `count` chunks of one backfill to the owner.

    If all backfills of a queue with work are locked, it waits for one, unless with `only_free`.
    """
    if tx.again and (taken := await _claimed_before(tx, request.claim_id)):
        return _claims((await inspect(tx, taken[0].backfill_id)).claimed(), request, taken)
    waits = not only_free
    for queue in request.queues:
        tried: list[str] = []
        while len(tried) < CANDIDATES:
            candidate = await _lock_candidate(tx, request, queue, tried, waits=waits)
            if candidate is None:
                break
            waits = False  # which would risk what this one recovers
            if claims := await _take(tx, request, candidate, chance):
                return claims
            tried.append(candidate.backfill_id)
    return []


async def inspect(tx: LedgerTransaction, backfill_id: str) -> InspectedBackfill:
    """Reads a backfill whose row is locked, and whether it has chunks to take."""
    (found,) = await tx.fetch_as(InspectedBackfill, "inspect", id=backfill_id)
    return found


async def plan(tx: LedgerTransaction, locked: LockedBackfill, count: int) -> int:
    """Plans up to `count` more chunks and returns how many; none while paused or stopping.

    The first chunks that are planned start the backfill.
    """
    lifecycle, order = locked.lifecycle(), locked.order
    if lifecycle.stopping or lifecycle.state not in (State.PENDING, State.RUNNING):
        return 0
    indices = next_indices(order, locked.chunk_total, locked.planned, count)
    if not indices:
        return 0
    low, high = indices[0], indices[-1]
    await tx.fetch("plan", id=locked.id, low=low, high=high, direction=order.direction)
    await control.record(tx, lifecycle, decide(lifecycle, Command.START))
    return len(indices)


async def raise_fence(tx: LedgerTransaction, above: int) -> None:
    """Makes every later fence higher than this number."""
    if (await tx.fetch("latest_fence"))[0][0] < above:
        await tx.fetch("stop_claims")
        await tx.fetch("raise_fence", above=above)


async def _lock_candidate(
    tx: LedgerTransaction, request: ClaimRequest, queue: str, tried: Sequence[str], *, waits: bool
) -> ClaimedBackfill | None:
    """Locks a backfill with work: one that is free, else with `waits` the next to become free."""
    found = await one_as(
        tx,
        LockedCandidate,
        "lock_candidate",
        queue=queue,
        jobs=_as_json(request.jobs),
        only=request.only,
        tried=list(tried),
        waits=waits,
    )
    if found is None:
        return None
    if found.awaited:
        tx.release_early()  # where one had to wait, others do
    return found.claimed()


@lru_cache(maxsize=64)
def _as_json(jobs: tuple[tuple[str, int], ...]) -> str:
    """The jobs of a worker, which are the same in all of its claims."""
    return json_text([JobVersion(*job) for job in jobs])


async def _claimed_before(tx: LedgerTransaction, claim_id: str) -> list[ReclaimedChunk]:
    """The chunks that an earlier try of this claim took, if its reply was lost."""
    return await tx.fetch_as(ReclaimedChunk, "claimed_before", claim_id=claim_id)


async def _take(
    tx: LedgerTransaction, request: ClaimRequest, shared: ClaimedBackfill, chance: Chance
) -> list[Claim]:
    """Takes chunks of a locked backfill. Usually pending ones suffice, which is one statement."""
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
    tx: LedgerTransaction, count: int, lease: dict[str, Any], *, guarded: bool
) -> list[LeasedChunk]:
    return await tx.fetch_as(LeasedChunk, "take_pending", k=count, guarded=guarded, **lease)


async def _recover_and_plan(
    tx: LedgerTransaction,
    count: int,
    shared: ClaimedBackfill,
    lease: dict[str, Any],
    chance: Chance,
) -> list[LeasedChunk]:
    """Recovers ended leases, takes failed chunks whose wait is over, and plans new ones."""
    locked = await inspect(tx, shared.backfill_id)
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
        take = "take_ranked" if locked.standing else "take_failed"
        longest = shared.retry.longest
        taken += await tx.fetch_as(LeasedChunk, take, k=count, longest=longest, **lease)
        if len(taken) < count:
            taken += await _take_pending(tx, count - len(taken), lease, guarded=False)
    if len(taken) < count and await plan(tx, locked, max(PLAN_AHEAD, count)):
        taken += await _take_pending(tx, count - len(taken), lease, guarded=False)
    return taken


async def _recover(
    tx: LedgerTransaction, shared: ClaimedBackfill, chance: Chance
) -> tuple[int, bool]:
    """Ends the runs whose leases are over; returns how many, and whether the backfill halts."""
    rows = await tx.fetch_as(ExpiredChunk, "expired", id=shared.backfill_id)
    ended = [chunk.claim(shared, chunk.claim_id, chunk.owner) for chunk in rows]
    done = [each for each in ended if not missing(each.span, each.last_processed, each.holes)]
    await leases.complete(tx, done)  # their workers died before they could report it
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
            ("worker_lost", "the lease ended and the worker had not reported a result"),
        )
        halted |= verdict.status is Status.ABANDONED and shared.retry.kind is RetryKind.HALT
    if halted:
        await control.request_stop(tx, shared.backfill_id, Stop.HALT)
    return len(rows), halted


def _claims(
    shared: ClaimedBackfill, request: ClaimRequest, taken: Iterable[LeasedChunk]
) -> list[Claim]:
    return [chunk.claim(shared, request.claim_id, request.owner) for chunk in taken]
