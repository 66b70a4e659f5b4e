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

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec

from gapless.core.backfill import Command, State, Stop, decide
from gapless.core.chunk import Order, Status, after_loss, missing
from gapless.core.retry import RetryKind, RetryPolicy
from gapless.ledger import control, leases
from gapless.ledger.database import Row, Transaction, one
from gapless.ledger.records import (
    Claim,
    ClaimedBackfill,
    ClaimRequest,
    Progress,
    claim_from_row,
    decoded,
    lifecycle_from_row,
    order_of,
)

PLAN_AHEAD = 256
CANDIDATES = 8  # backfills of a queue that one claim looks into
Chance: TypeAlias = "Callable[[], float]"


class _Locked(msgspec.Struct, frozen=True):
    """The backfill under lock: columns of the statement `inspect`."""

    job: str
    job_version: int
    spec: str
    selection: str
    chunk_total: int
    planned: int
    run_order: str
    retry: str
    lease_seconds: float
    group_name: str | None
    timeout: float | None
    state: str
    state_version: int
    stopping: str | None
    room: int
    has_expired: bool
    has_due: bool

    def shared(self, backfill_id: str) -> ClaimedBackfill:
        return _claimed(
            backfill_id,
            self.job,
            self.job_version,
            self.spec,
            self.selection,
            self.retry,
            self.lease_seconds,
            self.group_name,
            self.timeout,
        )


async def claim(tx: Transaction, request: ClaimRequest, chance: Chance) -> list[Claim]:
    """Up to `count` chunks of one backfill, now leased to the owner."""
    if tx.again and (rows := await tx.fetch("claimed_before", claim_id=request.claim_id)):
        backfill_id = rows[0][0]
        shared = (await _inspect(tx, backfill_id)).shared(backfill_id)
        return _claims(shared, request, [row[1:] for row in rows])
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
    return await _plan(tx, backfill_id, await _inspect(tx, backfill_id), count)


async def seconds_until_due(tx: Transaction, queues: tuple[str, ...], since: float) -> float | None:
    """How long until a waiting chunk or the end of a lease may give these queues work.

    What came due in the last `since` seconds counts too, as less than zero: whoever claimed that
    long ago may have missed it. What was due even then waits for room, not for time.
    """
    row = await one(tx, "next_due", queues=queues, since=since)
    return min((due for due in row or () if due is not None), default=None)


async def active_jobs(tx: Transaction, queues: tuple[str, ...]) -> list[tuple[str, int]]:
    """Name and version of every job that unfinished backfills of these queues want."""
    return [(job, version) for job, version in await tx.fetch("active_jobs", queues=queues)]


async def raise_fence(tx: Transaction, above: int) -> None:
    """Makes every fence drawn from now on higher than this number."""
    if (await tx.fetch("latest_fence"))[0][0] < above:
        await tx.fetch("stop_claims")
        await tx.fetch("raise_fence", above=above)


async def _lock_candidate(
    tx: Transaction, request: ClaimRequest, queue: str, tried: Sequence[str]
) -> ClaimedBackfill | None:
    """Locks a backfill with work: one that is free at once if possible, else the next to be."""
    wanted = {"queue": queue, "jobs": request.jobs, "only": request.only, "tried": list(tried)}
    rows = await tx.fetch("lock_candidate", **wanted)
    if not rows and await tx.fetch("held_candidate", **wanted):
        rows = await tx.fetch_if_free("await_candidate", **wanted)
    return _claimed(*rows[0]) if rows else None


async def _inspect(tx: Transaction, backfill_id: str) -> _Locked:
    return _Locked(*(await tx.fetch("inspect", id=backfill_id))[0])


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
    rows = await tx.fetch("take_pending", k=request.count, guarded=True, **lease)
    if len(rows) < request.count:
        left = request.count - len(rows)
        rows += await _recover_and_plan(tx, left, shared, lease, chance)
    return _claims(shared, request, sorted(rows, key=lambda row: row[1]))


async def _recover_and_plan(
    tx: Transaction, count: int, shared: ClaimedBackfill, lease: dict[str, Any], chance: Chance
) -> list[Row]:
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
    rows: list[Row] = []
    if locked.has_due or locked.has_expired:
        rows += await tx.fetch("take_failed", k=count, longest=shared.retry.longest, **lease)
        if len(rows) < count:
            rows += await tx.fetch("take_pending", k=count - len(rows), guarded=False, **lease)
    if len(rows) < count and await _plan(tx, shared.backfill_id, locked, max(PLAN_AHEAD, count)):
        rows += await tx.fetch("take_pending", k=count - len(rows), guarded=False, **lease)
    return rows


async def _recover(tx: Transaction, shared: ClaimedBackfill, chance: Chance) -> tuple[int, bool]:
    """Ends the runs whose leases are over; says how many, and whether that halts the backfill."""
    rows = await tx.fetch("expired", id=shared.backfill_id)
    ended = [claim_from_row(shared, claim_id, owner, row) for *row, claim_id, owner in rows]
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


async def _plan(tx: Transaction, backfill_id: str, locked: _Locked, count: int) -> int:
    count = min(count, locked.chunk_total - locked.planned)
    if count <= 0:
        return 0
    if order_of(backfill_id, locked.run_order) is Order.OLDEST:
        low, direction = locked.planned, 1
    else:
        low, direction = locked.chunk_total - locked.planned - count, -1
    await tx.fetch("plan", id=backfill_id, low=low, high=low + count - 1, direction=direction)
    lifecycle = lifecycle_from_row(backfill_id, locked.state, locked.state_version, locked.stopping)
    await control.record(tx, lifecycle, decide(lifecycle, Command.START))
    return count


def _claimed(
    backfill_id: str,
    job: str,
    job_version: int,
    spec: str,
    selection: str,
    retry: str,
    lease_seconds: float,
    group: str | None,
    timeout: float | None,
) -> ClaimedBackfill:
    """From the columns of the statement `lock_candidate`."""
    policy = decoded(backfill_id, "retry policy", retry, RetryPolicy)
    told = decoded(backfill_id, "spec", spec, dict[str, Any])
    return ClaimedBackfill(
        backfill_id, job, job_version, told, selection, policy, lease_seconds, group, timeout
    )


def _claims(shared: ClaimedBackfill, request: ClaimRequest, rows: list[Row]) -> list[Claim]:
    return [claim_from_row(shared, request.claim_id, request.owner, row) for row in rows]
