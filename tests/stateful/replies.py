"""A database whose replies get lost, as they do when a connection breaks.

A transaction that breaks may have committed or not; its sender cannot know, and the database layer
runs its body again. Here both happen on demand, and every commit is observed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from enum import StrEnum
from typing import TypeVar

from gapless.ledger.database import WORKER_SECONDS, Body, Database, LedgerTransaction

T = TypeVar("T")


class Reply(StrEnum):
    """What happens to the reply to a transaction."""

    ARRIVES = "arrives"
    LOST = "lost"  # committed, and run again
    LATE = "late"  # committed, and run again after others had their turn
    BROKEN = "broken"  # rolled back, and run again


class _Broken(Exception):
    """The connection breaks before the commit."""


class UnreliableDatabase:
    """A database in front of the real one."""

    def __init__(
        self,
        inner: Database,
        prepare: Callable[[LedgerTransaction], Awaitable[None]],
        witness: Callable[[], Awaitable[None]],
        others: Callable[[], Awaitable[None]],
    ) -> None:
        self.reply = Reply.ARRIVES
        self._inner = inner
        self._prepare = prepare
        self._witness = witness
        self._others = others

    @property
    def library(self) -> str:
        return self._inner.library

    @property
    def newest_schema(self) -> int:
        return self._inner.newest_schema

    async def transact(
        self,
        body: Body[T],
        *,
        write: bool = True,
        within: float = WORKER_SECONDS,
        for_rows: float | None = None,
        atomic: bool = True,
    ) -> T:
        if not write:
            return await self._inner.transact(body, write=False, within=within)
        reply = self.reply
        if reply is Reply.BROKEN:
            await self._break_off(body)
        else:
            result = await self._commit(body, again=False)
            if reply is Reply.ARRIVES:
                return result
        if reply is Reply.LATE:
            self.reply = Reply.ARRIVES
            await self._others()
            self.reply = reply
        return await self._commit(body, again=True)

    async def _commit(self, body: Body[T], *, again: bool) -> T:
        async def marked(tx: LedgerTransaction) -> T:
            tx.again = again
            await self._prepare(tx)
            return await body(tx)

        result = await self._inner.transact(marked)
        await self._witness()
        return result

    async def _break_off(self, body: Body[T]) -> None:
        async def broken(tx: LedgerTransaction) -> None:
            await self._prepare(tx)
            await body(tx)
            raise _Broken

        try:
            await self._inner.transact(broken)
        except _Broken:
            await self._witness()

    def session(self, limit: float | None = None) -> AbstractAsyncContextManager[LedgerTransaction]:
        return self._session(limit)

    @asynccontextmanager
    async def _session(self, limit: float | None) -> AsyncIterator[LedgerTransaction]:
        async with self._inner.session(limit) as tx:
            yield tx
        await self._witness()

    async def schema_version(self) -> int | None:
        return await self._inner.schema_version()

    async def migrate(self) -> None:
        await self._inner.migrate()

    async def integrity_problems(self) -> list[str]:
        return await self._inner.integrity_problems()

    async def notify(self) -> None:
        await self._inner.notify()

    def on_notify(self, wake: Callable[[], None]) -> None:
        self._inner.on_notify(wake)

    async def close(self) -> None:
        await self._inner.close()
