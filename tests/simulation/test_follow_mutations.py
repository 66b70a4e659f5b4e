"""Bugs that are planted in following on purpose: the simulation must find each of them.

The seeds that find a bug pass without it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from gapless.ledger import Ledger, follows
from gapless.ledger.records import Append, Cursor
from gapless.runtime.context import Context
from gapless.sinks import Stored, records
from tests.simulation.run import run_follow

Plant = Callable[[pytest.MonkeyPatch], None]
MOST_SEEDS = 30


def retracted_under_the_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Context, "fence", property(lambda self: self._run.fence))


def folded_to_the_lowest_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    joined = records._joined

    def lowest(record: Stored, after: Stored) -> Stored:
        return replace(joined(record, after), fence=min(record.fence, after.fence))

    monkeypatch.setattr(records, "_joined", lowest)


def cursor_written_before_the_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    async def append(self: Ledger, step: Append) -> Cursor | None:
        bare = replace(step, chunks=(), backfills=(), revoke=None, replace=())
        moved = await self._write(follows.append, bare)
        if moved is None:
            return None
        await asyncio.sleep(1.0)  # so that a few runs are enough to be interrupted here
        return await self._write(follows.append, replace(step, version=moved.version))

    monkeypatch.setattr(Ledger, "append", append)


@pytest.mark.parametrize(
    ("plant", "law"),
    [
        (retracted_under_the_claim, "were removed under fence"),
        (folded_to_the_lowest_fence, "the fence of"),
        (cursor_written_before_the_chunks, "rows of the chain"),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_a_planted_bug_is_found(plant: Plant, law: str) -> None:
    found: str | None = None
    seed = -1
    while found is None and seed < MOST_SEEDS:
        seed += 1
        with pytest.MonkeyPatch.context() as monkeypatch:
            plant(monkeypatch)
            found = run_follow(seed).problem
    assert found is not None, f"not found in {MOST_SEEDS} runs"
    assert law in found
    assert run_follow(seed).problem is None
