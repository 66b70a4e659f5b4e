"""Bugs that are planted in following on purpose: the simulation must find each of them.

The seeds that find a bug pass without it.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gapless.ledger import Ledger, follows
from gapless.ledger.cursor import Cursor
from gapless.ledger.records import Append
from gapless.runtime.context import Context
from gapless.sinks import Stored, records
from tests.simulation.planting import Plant, assert_found
from tests.simulation.run import run_follow

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
    assert_found(plant, law, run_follow, MOST_SEEDS)
