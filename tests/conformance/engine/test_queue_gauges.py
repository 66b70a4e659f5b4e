"""The metrics of queues are read from the ledger, whoever works on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gapless.runtime.engine import Engine
from gapless.runtime.gauges import forget_gauges, read_gauges
from gapless.telemetry import metrics
from tests.support import Clock, Home, claim, complete, create, fail, open_at


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    forget_gauges()


async def test_every_queue_has_its_numbers(home: Home) -> None:
    clock = Clock()
    ledger = await open_at(home, clock)
    await create(ledger, partitions=10)
    done, dead, failed, _ = await claim(ledger, 4)
    await complete(ledger, done)
    await fail(ledger, dead, permanent=True)
    await fail(ledger, failed)
    await create(ledger, "history", queue="backlog", partitions=3)
    await ledger.pause_queue("backlog")
    clock.now += 7
    async with Engine(ledger, slots=None) as engine:
        await read_gauges(engine)
        assert metrics.QUEUE_CHUNKS.values == {
            ("default", "active"): 1,
            ("default", "pending"): 6,
            ("default", "retry"): 1,
            ("default", "dead"): 1,
            ("backlog", "active"): 0,
            ("backlog", "pending"): 3,
            ("backlog", "retry"): 0,
            ("backlog", "dead"): 0,
        }
        assert metrics.QUEUE_RUNS.values == {
            ("default", "completed"): 1,
            ("default", "failed"): 2,
            ("backlog", "completed"): 0,
            ("backlog", "failed"): 0,
        }
        assert metrics.QUEUE_WAIT.values == {("default",): 7, ("backlog",): 0}
        assert metrics.QUEUE_PAUSED.values == {("default",): 0, ("backlog",): 1}
        assert metrics.QUEUE_SLOTS.values == {("default",): 0, ("backlog",): 0}
    await ledger.close()
