"""The workers of a ledger.

A starting worker frees the leases of workers on its own host whose processes are gone, so
restarting after a crash does not wait for leases. Leases of workers on other hosts run out.
"""

from __future__ import annotations

from collections.abc import Callable

from gapless.core.errors import LibraryMismatch
from gapless.ledger.database import LedgerTransaction
from gapless.ledger.records import WorkerRow
from gapless.ledger.rows.texts import json_text
from gapless.ledger.rows.worker import HostedProcess, StoredWorker
from gapless.system import Process

LIVE_WITHIN = 60.0


async def register(
    tx: LedgerTransaction, worker_id: str, process: Process, library: str, slots: dict[str, int]
) -> None:
    """Registers a worker; refuses one whose library differs from that of live workers."""
    for other in await live(tx):
        if other.id == worker_id:
            return  # registered by an earlier attempt, whose reply was lost
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


async def touch(tx: LedgerTransaction, worker_id: str, unresolved: dict[str, str]) -> None:
    """Records that the worker is alive, and which jobs it cannot run and why."""
    await tx.fetch("touch_worker", id=worker_id, unresolved=json_text(unresolved))


async def end(tx: LedgerTransaction, worker_id: str) -> None:
    await tx.fetch("end_worker", id=worker_id)


async def live(tx: LedgerTransaction) -> list[WorkerRow]:
    found = await tx.fetch_as(StoredWorker, "live_workers", within=LIVE_WITHIN)
    return [row.worker() for row in found]


async def free_dead(
    tx: LedgerTransaction, process: Process, alive: Callable[[Process], bool]
) -> int:
    """Ends workers of this host whose processes are gone; returns how many leases were freed."""
    freed = 0
    for other in await tx.fetch_as(HostedProcess, "workers_of_host", host=process.host):
        if not alive(Process(process.host, other.pid, other.process_started)):
            freed += len(await tx.fetch("end_leases", owner=other.id))
            await end(tx, other.id)
    return freed
