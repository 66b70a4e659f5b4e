"""An engine on a ledger for each test, with short intervals."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from gapless.ledger.database import Row
from gapless.runtime.engine import Engine
from gapless.runtime.worker import WorkerOptions
from tests.support import Home, database_of

QUICK = WorkerOptions(poll_seconds=0.05, heartbeat_seconds=0.05, drain_seconds=0.2)


@pytest.fixture
async def engine(home: Home) -> AsyncIterator[Engine]:
    """A running engine with four `default` slots."""
    async with Engine(home.url, options=QUICK) as engine:
        yield engine


@pytest.fixture
async def remote(home: Home, engine: Engine) -> AsyncIterator[Engine]:
    """A second engine on the same ledger, without a worker."""
    async with Engine(home.url, slots=None, options=QUICK) as remote:
        yield remote


async def sql(engine: Engine, text: str) -> list[Row]:
    """Runs SQL as a job's transaction would."""
    async with database_of(engine.ledger).session() as tx:
        return await tx.execute(text)
