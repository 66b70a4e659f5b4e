"""Every test of a sink runs once on each kind."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gapless.sinks import Sink, open_sink
from tests.conformance.sink.stage import examine

KINDS = {"sqlite": "blocks.db", "parquet": "blocks/"}


@pytest.fixture(params=KINDS)
def target(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a sink may be made."""
    return f"{tmp_path}/{KINDS[request.param]}"


@pytest.fixture
async def sink(target: str) -> AsyncIterator[Sink]:
    """An open sink. Whatever a test does with it, rows and records must agree."""
    async with await open_sink(target) as opened:
        yield opened
        await examine(opened)


@pytest.fixture
async def other(sink: Sink, target: str) -> AsyncIterator[Sink]:
    """The same sink, opened a second time."""
    async with await open_sink(target) as opened:
        yield opened
