"""Every test of a sink runs once on each kind."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from gapless.chains.opening import open_sink
from gapless.sinks import Sink
from tests.conformance.sink.stage import examine

KINDS = {"sqlite": "blocks.db", "duckdb": "blocks.duckdb", "parquet": "blocks/"}
SERVED = ("postgres",)
ALL = [*KINDS, *SERVED]
SHARED = [kind for kind in ALL if kind != "duckdb"]  # by several processes


def target_of(request: pytest.FixtureRequest, kind: str) -> str:
    """Where a sink of the kind may be created."""
    if kind in SERVED:
        return str(request.getfixturevalue(f"{kind}_target"))
    return f"{request.getfixturevalue('tmp_path')}/{KINDS[kind]}"


@pytest.fixture(params=ALL)
def target(request: pytest.FixtureRequest) -> str:
    """Where a sink may be created."""
    return target_of(request, request.param)


@pytest.fixture(params=SHARED)
def shared_target(request: pytest.FixtureRequest) -> str:
    """Where a sink may be created that several processes write to."""
    return target_of(request, request.param)


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
