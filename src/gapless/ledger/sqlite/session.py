"""A job's own transaction on SQLite.

Nobody else can write while it is open, so its time is limited. When the time is up it is rolled
back, whatever the job is doing, and the job's next statement raises.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

import apsw

from gapless.core.coroutines import run_sync
from gapless.core.errors import BadJob, GaplessError, TransientError
from gapless.ledger import sql
from gapless.ledger.database import OVER, OVER_HINT, LedgerTransaction, Row

T = TypeVar("T")


class Session:
    """An open transaction, used from the event loop: each statement runs on the thread."""

    again = False

    def __init__(
        self,
        inner: LedgerTransaction,
        connection: apsw.Connection,
        hop: Callable[..., Awaitable[Any]],
        leave: Callable[[], None],
    ) -> None:
        self._inner = inner
        self._connection = connection
        self._hop = hop
        self._leave = leave
        self._refusal: GaplessError | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._expiring: asyncio.Task[None] | None = None

    async def fetch(self, statement: str, **parameters: Any) -> list[Row]:
        return await self._rows(self._inner.fetch, statement, parameters)

    async def fetch_as(self, kind: type[T], statement: str, **parameters: Any) -> list[T]:
        return await self._rows(partial(self._inner.fetch_as, kind), statement, parameters)

    async def count(self, statement: str, **parameters: Any) -> int:
        return len(await self.fetch(statement, **parameters))

    async def execute(self, text: str, **parameters: Any) -> list[Row]:
        sql.refuse_ending(text)
        return await self._rows(self._inner.execute, text, parameters)

    def release_early(self) -> None:
        self._inner.release_early()

    async def begin(self, limit: float | None) -> None:
        # Even if the caller is cancelled while this waits for the lock, the transaction begins.
        await self._hop(self._connection.execute, "BEGIN IMMEDIATE")
        if limit is not None:
            self._timer = asyncio.get_running_loop().call_later(limit, self._expire, limit)

    async def commit(self) -> None:
        self._require_open()
        await self._end("COMMIT")

    async def roll_back(self) -> None:
        """Rolls back, unless the transaction has ended already."""
        if self._refusal is None:
            await self._end("ROLLBACK")

    async def _rows(
        self, run: Callable[..., Awaitable[list[T]]], text: str, parameters: dict[str, Any]
    ) -> list[T]:
        self._require_open()

        def run_within() -> list[T]:
            # Neither this statement nor those of the ledger would be part of a transaction.
            if not self._connection.in_transaction:
                raise TransientError(
                    "the transaction is gone: SQLite has rolled it back after an error",
                    hint="do not catch errors of statements; `OR ROLLBACK` ends a transaction",
                )
            return run_sync(run(text, **parameters))

        try:
            rows: list[T] = await self._hop(run_within)
        except apsw.InterruptError:
            self._require_open()
            raise
        return rows

    def _require_open(self) -> None:
        if self._refusal is not None:
            raise self._refusal

    def _expire(self, limit: float) -> None:
        self._expiring = asyncio.create_task(self._end("ROLLBACK"))
        self._refusal = TransientError(
            f"the transaction was rolled back: it was still open after {limit:g} s",
            hint="on SQLite it blocks all other writers: do slow work outside of it",
        )
        self._connection.interrupt()

    async def _end(self, how: str) -> None:
        self._refusal = self._refusal or BadJob(OVER, hint=OVER_HINT)
        if self._timer is not None:
            self._timer.cancel()
        try:
            await self._hop(self._finish, how)
        finally:
            self._leave()

    def _finish(self, how: str) -> None:
        try:
            if how == "COMMIT":
                self._connection.execute(how)
        finally:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
