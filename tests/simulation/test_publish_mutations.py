"""Bugs that are planted in publishing on purpose: the simulation must find each of them.

The seeds that find a bug pass without it.
"""

from __future__ import annotations

import pytest

from gapless.core.ranges import Span
from gapless.publishers import feeder
from gapless.publishers.publisher import OutgoingBlock
from gapless.publishers.rows import StoredBlocks
from tests.simulation.planting import Plant, assert_found
from tests.simulation.run import run_published

MOST_SEEDS = 40


def replaced_blocks_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeder, "diverged", lambda *_: {})


def rows_of_different_moments(monkeypatch: pytest.MonkeyPatch) -> None:
    async def read(self: StoredBlocks, span: Span) -> list[OutgoingBlock]:
        rows = {
            table.name: await self.sink.read(table, self.chain_id, span, self.tables.columns(table))
            for table in self.tables.all
        }
        return self.tables.outgoing(rows, span)

    monkeypatch.setattr(StoredBlocks, "read", read)


@pytest.mark.parametrize("plant", [replaced_blocks_stay, rows_of_different_moments])
def test_a_planted_bug_is_found(plant: Plant) -> None:
    assert_found(plant, "Error", run_published, MOST_SEEDS)
