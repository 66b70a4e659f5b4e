"""PostgreSQL as the ledger's database.

Lost connections are retried for a while, which is safe because every body is idempotent.

Statements are prepared on direct connections. `?prepared_statements=on` in the URL prepares them
through a proxy, too, and `off` nowhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import asyncpg

from gapless.core.errors import LedgerBusy, LedgerError, LedgerUnreachable, UsageError
from gapless.core.remedies import CheckLedger
from gapless.ledger import sql
from gapless.ledger.database import PERSON_SECONDS, WORKER_SECONDS, Body, LedgerTransaction
from gapless.ledger.postgres.listener import CHANNEL, listen
from gapless.ledger.postgres.transactions import (
    BEGIN_SESSION,
    LATE,
    PostgresStatements,
    PostgresTransaction,
    Scope,
    SessionTransaction,
)
from gapless.postgres import failures
from gapless.postgres.connections import Connection, Connections
from gapless.postgres.failures import LOST, POOLED, UNABLE
from gapless.postgres.url import HINT, split

T = TypeVar("T")

OPTIONS = ("prepared_statements",)
SESSIONS = 64
MIGRATION_LOCK = 0x6761706C


class PostgresDatabase:
    """A ledger in the schema `gapless` of a PostgreSQL database."""

    def __init__(
        self,
        url: str,
        shown_url: str,
        bound: Callable[[], dict[str, Any]],
        *,
        patience: float = 10.0,
        connections: int = 4,
    ) -> None:
        self._url, options = split(url, OPTIONS)
        self._shown_url = shown_url
        self._bound = bound
        self._patience = patience
        self._prepared = _is_on(
            options, "prepared_statements"
        )  # None if it depends on the connection
        self._connections = Connections(self._url, connections, seconds=WORKER_SECONDS + LATE)
        # Jobs may keep theirs for any time, and must not make heartbeats wait for a connection.
        self._sessions = Connections(self._url, SESSIONS, seconds=None)
        self._listening: asyncio.Task[None] | None = None

    @property
    def library(self) -> str:
        return "PostgreSQL"

    @property
    def newest_schema(self) -> int:
        return sql.migrations(__package__)[-1][0]

    async def open(self) -> PostgresDatabase:
        try:
            async with self._connections.lend():
                pass
        except (*LOST, asyncpg.PostgresError) as error:
            raise self._unreachable(error) from None
        except (ValueError, OverflowError):  # its message may contain a part of the password
            raise UsageError(
                f"the ledger's URL `{self._shown_url}` cannot be read",
                hint=HINT,
            ) from None
        return self

    async def transact(
        self,
        body: Body[T],
        *,
        write: bool = True,
        within: float = WORKER_SECONDS,
        for_rows: float | None = None,
        atomic: bool = True,
    ) -> T:
        scope = Scope(write, within, for_rows)
        started = time.monotonic()
        pause = 0.05
        again = False
        while True:
            try:
                async with self._connections.lend() as connection:
                    prepared = await self._prepares(connection)
                    if not atomic:
                        return await body(
                            PostgresStatements(
                                connection, self._bound, scope, prepared=prepared, again=again
                            )
                        )
                    async with scope.enter(connection):
                        return await body(
                            PostgresTransaction(
                                connection, self._bound, prepared=prepared, again=again
                            )
                        )
            except POOLED:
                self._prepared = False
            except asyncpg.LockNotAvailableError as error:
                raise self._busy(error) from error
            except LOST as error:
                if time.monotonic() - started + pause > self._patience:
                    raise self._unreachable(error) from error
            except UNABLE as error:
                raise self._unreachable(error) from error
            except asyncpg.PostgresError as error:
                raise self._refused(error) from error
            await asyncio.sleep(pause)
            pause = min(pause * 2, 1.0)
            again = True

    @asynccontextmanager
    async def session(self, limit: float | None = None) -> AsyncIterator[LedgerTransaction]:
        theirs: BaseException | None = None  # an error that the job raised is passed on unchanged
        try:
            async with self._sessions.lend() as connection:
                try:
                    async with connection.transaction(BEGIN_SESSION):
                        tx = SessionTransaction(connection, self._bound, self._unreachable)
                        try:
                            yield tx
                        except BaseException as error:
                            theirs = error
                            raise
                        finally:
                            tx.end()
                finally:
                    await connection.reset()
        except (*LOST, *UNABLE) as error:
            if error is theirs:
                raise
            raise self._unreachable(error) from error

    async def schema_version(self) -> int | None:
        return await self.transact(_schema_version, write=False)

    async def migrate(self) -> None:
        await self.transact(_migrate, within=PERSON_SECONDS)

    async def integrity_problems(self) -> list[str]:
        return []

    async def notify(self) -> None:
        with contextlib.suppress(*LOST, *UNABLE):
            async with self._connections.lend() as connection:
                await connection.raw.execute(f"NOTIFY {CHANNEL}")

    def on_notify(self, wake: Callable[[], None]) -> None:
        self._listening = asyncio.create_task(listen(self._url, wake), name="gapless-listen")

    async def close(self) -> None:
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait([self._listening])
        for connections in (self._sessions, self._connections):
            with contextlib.suppress(*LOST):
                await connections.close()

    async def _prepares(self, connection: Connection) -> bool:
        return await connection.is_direct() if self._prepared is None else self._prepared

    def _unreachable(self, error: Exception) -> LedgerUnreachable:
        trouble = "cannot serve" if isinstance(error, UNABLE) else "does not answer"
        return LedgerUnreachable(
            f"the ledger `{self._shown_url}` {trouble}: {self._said(error)}",
            hint=failures.hint(error),
        )

    def _busy(self, error: Exception) -> LedgerBusy:
        return LedgerBusy(
            f"rows of the ledger `{self._shown_url}` are locked: {self._said(error)}",
            hint="`SELECT * FROM pg_stat_activity` shows whose transactions are open",
        )

    def _refused(self, error: Exception) -> LedgerError:
        return LedgerError(
            f"the ledger `{self._shown_url}` refused a statement: {self._said(error)}",
            remedy=CheckLedger(),
        )

    def _said(self, error: Exception) -> str:
        return f"{type(error).__name__}: {error}".replace(self._url, self._shown_url)


async def _migrate(transaction: LedgerTransaction) -> None:
    assert isinstance(transaction, PostgresTransaction)
    await transaction.execute("SELECT pg_advisory_xact_lock(:key)", key=MIGRATION_LOCK)
    done = await _schema_version(transaction) or 0
    for number, script in sql.migrations(__package__):
        if number > done:
            await transaction.script(script)
            await transaction.execute(
                "UPDATE gapless.schema_version SET version = :number", number=number
            )


async def _schema_version(transaction: LedgerTransaction) -> int | None:
    # Read the catalog: `to_regclass` alone may answer from a cache that is older than this lock.
    found = await transaction.execute(
        "SELECT 1 FROM pg_catalog.pg_tables"
        " WHERE schemaname = 'gapless' AND tablename = 'schema_version'"
    )
    if not found:
        return None
    (row,) = await transaction.execute("SELECT version FROM gapless.schema_version")
    version: int = row[0]
    return version


def _is_on(options: dict[str, str], name: str) -> bool | None:
    value = options.get(name)
    if value not in ("on", "off", None):
        raise UsageError(f"the ledger's option `{name}` is `on` or `off`, not `{value}`")
    return None if value is None else value == "on"
