"""Shortcuts for what every measurement does with a ledger."""

from __future__ import annotations

import uuid

from gapless.core.selector import Selection
from gapless.ledger import Ledger, claims, control
from gapless.ledger.database import LedgerTransaction
from gapless.ledger.records import Backfill, BackfillRequest, Claim, ClaimRequest

JOB = ("bench:nothing", 1)
CHUNK_SIZE = 100


async def create(
    ledger: Ledger, name: str, chunks: int, *, queue: str = "default", runs: int = 1000
) -> Backfill:
    selection = Selection("blocks", spans=((0, chunks * CHUNK_SIZE - 1),))
    return await ledger.create(
        BackfillRequest(
            id=name,
            job=JOB[0],
            job_version=JOB[1],
            selector={"kind": "range", "start": "0", "end": str(chunks * CHUNK_SIZE - 1)},
            selection=selection,
            chunk_size=CHUNK_SIZE,
            max_concurrent_runs=runs,
            queue=queue,
        )
    )


async def plan(ledger: Ledger, name: str, count: int) -> int:
    """Plans up to `count` chunks before any claim, as a claim does; returns how many."""

    async def body(tx: LedgerTransaction) -> int:
        await control.lock(tx, name)
        return await claims.plan(tx, await claims.inspect(tx, name), count)

    return await ledger._database.transact(body)


async def claim(
    ledger: Ledger, count: int, *, queue: str = "default", only: str | None = None
) -> list[Claim]:
    wish = ClaimRequest("bench", uuid.uuid4().hex, (queue,), (JOB,), count, only)
    return await ledger.claim(wish)


async def claim_and_complete(
    ledger: Ledger, count: int, *, queue: str = "default", only: str | None = None
) -> int:
    claims = await claim(ledger, count, queue=queue, only=only)
    lost = await ledger.complete(claims)
    assert not lost
    return len(claims)
