"""Gauges that are read on each scrape: the worker's slots and the ledger's backlog."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

from gapless.core.backfill import State
from gapless.core.errors import LedgerError
from gapless.ledger import Ledger
from gapless.ledger.views import EVERYTHING
from gapless.runtime.engine import Engine
from gapless.telemetry import metrics

_OF_LEDGER = (
    *(metrics.BACKFILLS, metrics.CHUNKS, metrics.QUEUE_CHUNKS, metrics.QUEUE_RUNS),
    *(metrics.QUEUE_WAIT, metrics.QUEUE_SLOTS, metrics.QUEUE_PAUSED),
)
_OPEN = [state for state in State if not state.ended]


async def read_gauges(engine: Engine) -> None:
    """Updates the gauges. If the ledger does not answer, its gauges are absent."""
    if engine.worker is not None:
        slots, running = engine.worker.slots, engine.worker.running
        metrics.SLOTS.replace({(queue,): count for queue, count in slots.items()})
        metrics.RUNNING.replace({(queue,): running[queue] for queue in slots})
    for series in _OF_LEDGER:
        series.replace({})
    with suppress(LedgerError):
        await _read_backlog(engine.ledger)
        await _read_queues(engine.ledger)
    metrics.LAG_BLOCKS.replace(_lags())


def _lags() -> dict[tuple[str, ...], float]:
    """By chain and sink; a chain whose head is not known here has none."""
    heads = metrics.HEAD_HEIGHT.values
    return {
        (chain, sink): max(0.0, heads[chain,] - stored)
        for (chain, sink), stored in metrics.STORED_HEIGHT.values.items()
        if (chain,) in heads
    }


async def _read_backlog(ledger: Ledger) -> None:
    chunks: Counter[str] = Counter()
    backfills: Counter[State] = Counter()
    for state in _OPEN:
        for each in await ledger.backfills(state=state, limit=EVERYTHING):
            backfills[state] += 1
            counts = each.chunks
            chunks["waiting"] += counts.total - counts.planned + counts.pending
            chunks["running"] += counts.running
            chunks["failed"] += counts.failed
            chunks["complete"] += counts.complete
            chunks["abandoned"] += counts.abandoned
    metrics.BACKFILLS.replace({(state.lower(),): backfills[state] for state in _OPEN})
    statuses = ("waiting", "running", "failed", "complete", "abandoned")
    metrics.CHUNKS.replace({(status,): chunks[status] for status in statuses})


async def _read_queues(ledger: Ledger) -> None:
    for queue in await ledger.queues():
        for status in ("active", "pending", "retry", "dead"):
            metrics.QUEUE_CHUNKS.set(getattr(queue, status), queue.name, status)
        metrics.QUEUE_RUNS.set(queue.processed, queue.name, "completed")
        metrics.QUEUE_RUNS.set(queue.failed, queue.name, "failed")
        metrics.QUEUE_WAIT.set(queue.oldest_wait or 0.0, queue.name)
        metrics.QUEUE_SLOTS.set(queue.slots, queue.name)
        metrics.QUEUE_PAUSED.set(queue.paused_at is not None, queue.name)


def forget_gauges() -> None:
    """Removes the gauges when the worker has stopped."""
    for series in (metrics.SLOTS, metrics.RUNNING, metrics.LAG_BLOCKS, *_OF_LEDGER):
        series.replace({})
