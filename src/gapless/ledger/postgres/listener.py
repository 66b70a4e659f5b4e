"""Hints about new work, delivered between processes by PostgreSQL.

They only make things faster: without a connection, polling finds the work. A listener sends nothing
by itself, so it queries the server from time to time to notice a dead connection.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import asyncpg

from gapless.ledger.database import WORKER_SECONDS
from gapless.postgres.connections import connect
from gapless.postgres.failures import LOST, UNABLE

CHANNEL = "gapless"
AGAIN_SECONDS = 5.0
ASK_SECONDS = 30.0


async def listen(url: str, wake: Callable[[], None]) -> None:
    """Calls `wake` on every hint; reconnects when the connection is lost."""
    while True:
        with contextlib.suppress(*LOST, *UNABLE):
            connection = await connect(url, WORKER_SECONDS)
            try:
                await _listen_on(connection, wake)
            finally:
                connection.terminate()
        await asyncio.sleep(AGAIN_SECONDS)


async def _listen_on(connection: asyncpg.Connection, wake: Callable[[], None]) -> None:
    """Returns when the connection has ended."""
    ended = asyncio.Event()
    connection.add_termination_listener(lambda *_: ended.set())
    await connection.add_listener(CHANNEL, lambda *_: wake())
    while not ended.is_set():
        try:
            async with asyncio.timeout(ASK_SECONDS):
                await ended.wait()
        except TimeoutError:
            await connection.execute("SELECT 1")
