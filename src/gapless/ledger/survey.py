"""What a worker can do now, read in one transaction that locks nothing.

Most turns of a worker find nothing to claim. A survey tells so at the price of one read, where
claims would lock the ledger or its rows for each kind of slot. What it finds is a hint: claiming,
settling and closing an epoch all check again, under their own locks.
"""

from __future__ import annotations

from gapless.ledger import control, groups
from gapless.ledger.database import LedgerTransaction
from gapless.ledger.records import Survey, SurveyRequest
from gapless.ledger.rows.backfill import JobVersion, NextDue


async def survey(tx: LedgerTransaction, request: SurveyRequest) -> Survey:
    """Looks for work, for jobs, and for what has ended."""
    # In this order: what becomes due between two statements is due in the first one.
    due = await _seconds_until_due(tx, request)
    return Survey(
        with_work=frozenset(
            [each for each in request.queues if await _has_work(tx, request, each)]
        ),
        due=due,
        jobs=await _active_jobs(tx, request),
        finished=await control.unsettled(tx, request.backfills),
        drained=await groups.drained(tx, request.groups),
    )


async def _has_work(tx: LedgerTransaction, request: SurveyRequest, queue: str) -> bool:
    jobs = [JobVersion(*job) for job in request.jobs]
    ((found,),) = await tx.fetch("has_work", queue=queue, jobs=jobs, only=request.only, tried=[])
    return bool(found)


async def _seconds_until_due(tx: LedgerTransaction, request: SurveyRequest) -> float | None:
    (due,) = await tx.fetch_as(NextDue, "next_due", queues=request.queues)
    return min((each for each in (due.retry, due.lease) if each is not None), default=None)


async def _active_jobs(tx: LedgerTransaction, request: SurveyRequest) -> list[tuple[str, int]]:
    found = await tx.fetch_as(JobVersion, "active_jobs", queues=request.queues)
    return [(each.job, each.job_version) for each in found]
