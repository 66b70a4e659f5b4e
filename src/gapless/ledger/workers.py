"""Who works on a ledger.

A worker that starts frees the leases of workers of its own host whose processes are gone, so a
crash costs no lease time where it can be seen; elsewhere the lease simply runs out.
"""

from __future__ import annotations

from collections.abc import Callable

from gapless.core.errors import LibraryMismatch
from gapless.ledger.database import Transaction
from gapless.ledger.records import WorkerRow
from gapless.ledger.rows.texts import json_text
from gapless.ledger.rows.worker import HostedProcess, StoredWorker
from gapless.system import Process

LIVE_WITHIN = 60.0


async def register(
    tx: Transaction, worker_id: str, process: Process, library: str, slots: dict[str, int]
) -> None:
    """Announces a worker; refuses one whose library does not fit those at work."""
    for other in await live(tx):
        if other.id == worker_id:
            return  # by an earlier try, whose reply was lost
        if other.library != library:
            raise LibraryMismatch(
                f"this process uses {library}, but worker `{other.id}` (pid {other.pid} on"
                f" {other.host}) uses {other.library} on the same ledger",
                hint="run both from one environment, or stop the other first",
            )
    await tx.fetch(
        "add_worker",
        id=worker_id,
        host=process.host,
        pid=process.pid,
        process_started=process.started,
        library=library,
        slots=json_text(slots),
    )


async def touch(tx: Transaction, worker_id: str, unresolved: dict[str, str]) -> None:
    """Records that the worker lives, and which jobs it cannot run and why."""
    await tx.fetch("touch_worker", id=worker_id, unresolved=json_text(unresolved))


async def end(tx: Transaction, worker_id: str) -> None:
    await tx.fetch("end_worker", id=worker_id)


async def live(tx: Transaction) -> list[WorkerRow]:
    found = await tx.fetch_as(StoredWorker, "live_workers", within=LIVE_WITHIN)
    return [row.worker() for row in found]


async def free_dead(tx: Transaction, process: Process, alive: Callable[[Process], bool]) -> int:
    """Ends workers of this host whose processes are gone; returns how many leases that frees."""
    freed = 0
    for other in await tx.fetch_as(HostedProcess, "workers_of_host", host=process.host):
        if not alive(Process(process.host, other.pid, other.process_started)):
            freed += len(await tx.fetch("end_leases", owner=other.id))
            await end(tx, other.id)
    return freed
