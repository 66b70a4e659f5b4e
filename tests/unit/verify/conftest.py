"""Sinks to verify: one of each kind, and one that is easy to damage."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest

from gapless.chains.opening import open_sink
from gapless.sinks import Sink


@pytest.fixture(params=["blocks.db", "blocks/"])
async def sink(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Sink]:
    async with await open_sink(f"{tmp_path}/{request.param}") as opened:
        yield opened


@pytest.fixture
async def fragile(tmp_path: Path) -> AsyncIterator[Sink]:
    """A SQLite sink, which `sql` can damage from outside."""
    async with await open_sink(f"{tmp_path}/fragile.db") as opened:
        yield opened


@pytest.fixture
def sql(fragile: Sink, tmp_path: Path) -> apsw.Connection:
    return apsw.Connection(f"{tmp_path}/fragile.db")
