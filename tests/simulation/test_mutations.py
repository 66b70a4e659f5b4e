"""Bugs that are planted on purpose: the simulation must find each of them.

Each is what a careless change could cause: the sink no longer compares fences, a batch counts as
stored before it is, a lease is trusted beyond its end. The seeds that find a bug pass without it.
"""

from __future__ import annotations

import pytest

from gapless.pipeline.flow import Flow
from gapless.runtime import heartbeats, worker
from gapless.sinks import Batch, records
from tests.simulation.planting import Plant, assert_found
from tests.simulation.run import run

MOST_SEEDS = 60


def fence_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "refuse_older", lambda *_: None)


def reported_before_it_is_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    async def store(self: Flow, batch: Batch) -> None:
        self._next = batch.span.last + 1
        await self._written(batch.span)
        await self._write(batch)

    monkeypatch.setattr(Flow, "_store", store)


def lease_trusted_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (heartbeats, worker):
        monkeypatch.setattr(module, "trusted", lambda lease_seconds: 2 * lease_seconds)


@pytest.mark.parametrize(
    ("plant", "law"),
    [
        (fence_not_checked, "the fence of"),
        (reported_before_it_is_durable, "counts as done, but is not stored"),
        (lease_trusted_too_long, "after its lease ended"),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_a_planted_bug_is_found(plant: Plant, law: str) -> None:
    assert_found(plant, law, run, MOST_SEEDS)
