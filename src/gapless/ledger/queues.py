"""Queues: names that backfills and slots of workers share. They can be paused, and are counted.

A paused queue has a row in `paused_queues`, which every claim looks up in the statement that picks
a backfill. So no claim that begins after the pause takes a chunk of it; running chunks finish.

The counters are those of the backfills, summed. They change in the transaction that changes the
chunk, in a row that this transaction writes anyway. The same row counts the completions of the
current and the previous minute: `completed_per_minute` adds the current minute to the share of the
previous one that lies within the last 60 seconds. That share is exact if completions were spread
evenly over the previous minute.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from gapless.core.errors import NotFound
from gapless.core.remedies import ChooseQueue
from gapless.ledger import workers
from gapless.ledger.database import LedgerTransaction
from gapless.ledger.records import Queue
from gapless.ledger.rows.queue import PausedQueue, QueueBacklog, QueueTotals


async def queues(tx: LedgerTransaction) -> list[Queue]:
    """Every queue that a backfill or a live worker uses, and every paused one, by name."""
    rows: list[PausedQueue | QueueTotals | QueueBacklog] = [
        *await tx.fetch_as(PausedQueue, "paused_queues"),
        *await tx.fetch_as(QueueTotals, "queue_totals"),
        *await tx.fetch_as(QueueBacklog, "queue_backlog"),
    ]
    slots: Counter[str] = Counter()
    for worker in await workers.live(tx):
        slots.update(worker.slots_by_queue)
    found: dict[str, dict[str, Any]] = {name: {"slots": slots[name]} for name in slots}
    for row in rows:
        found.setdefault(row.name, {}).update(msgspec.structs.asdict(row))
    return [_queue({"name": name} | found[name]) for name in sorted(found)]


async def pause(tx: LedgerTransaction, name: str) -> bool:
    """Lets nothing more of a queue be claimed; False if it was paused already."""
    await _require_known(tx, name)
    return bool(await tx.fetch("pause_queue", name=name)) or tx.again


async def resume(tx: LedgerTransaction, name: str) -> bool:
    """Lets chunks of a queue be claimed again; False if it was not paused."""
    if await tx.fetch("resume_queue", name=name) or tx.again:
        return True
    await _require_known(tx, name)
    return False


async def _require_known(tx: LedgerTransaction, name: str) -> None:
    names = tuple(queue.name for queue in await queues(tx))
    if name not in names:
        raise NotFound(f"there is no queue `{name}`", remedy=ChooseQueue(names))


def _queue(facts: dict[str, Any]) -> Queue:
    waits = [facts.pop(name, None) for name in ("pending_wait", "retry_wait")]
    known = [max(wait, 0.0) for wait in waits if wait is not None]
    claimable = "paused_at" not in facts
    return Queue(**facts, oldest_wait=max(known, default=None) if claimable else None)
