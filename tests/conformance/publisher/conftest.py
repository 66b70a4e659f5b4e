"""Streams: one in memory that follows the contract, and one of a real server of Redis."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.conformance.publisher.stage import ModelStage, RedisStage, Stage
from tests.redis_server import RedisServer


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture(params=["model", "redis"])
async def stage(request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    if request.param == "model":
        yield ModelStage()
        return
    found = RedisStage(request.getfixturevalue("redis_server").url)
    await found.flush()
    yield found
    await found.close()


@pytest.fixture
async def redis_stage(redis_server: RedisServer) -> AsyncIterator[RedisStage]:
    found = RedisStage(redis_server.url)
    await found.flush()
    yield found
    await found.close()
