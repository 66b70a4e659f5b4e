"""The database of a PostgreSQL sink: retries transactions and translates errors.

A write replaces its range under its fence, so it can be retried after a lost connection, even if it
is unknown whether it was committed. Every transaction sets its own timeouts: a process that is
suspended in the middle of one loses its locks instead of blocking all others.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

import asyncpg

from gapless.core.errors import SinkError, SinkUnusable
from gapless.core.redaction import redact
from gapless.postgres.connections import Connection, Connections
from gapless.postgres.failures import LOST, POOLED
from gapless.postgres.url import HINT
from gapless.sinks.postgres.tables import Interleaved

T = TypeVar("T")
Body = Callable[[Connection], Awaitable[T]]

CONNECTIONS = 4
PATIENCE = 30.0  # seconds
COPYING = "SET LOCAL statement_timeout = '60s'"  # a waiting COPY does not count as idle
TIMEOUTS = (
    f"SET LOCAL lock_timeout = '60s'; SET LOCAL idle_in_transaction_session_timeout = '30s';"
    f" {COPYING}"
)
# Reads after a lock must see the latest state, whatever the default isolation level is.
WRITING = f"BEGIN ISOLATION LEVEL READ COMMITTED; {TIMEOUTS}"
READING = f"BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY; {TIMEOUTS}"
INDEXING = "BEGIN ISOLATION LEVEL READ COMMITTED"  # without timeouts
NO_LIMIT = 10.0**7  # seconds


class SinkDatabase:
    """The connections of a sink."""

    def __init__(self, url: str, shown: str, *, prepared: bool = True) -> None:
        self.shown = shown
        self.prepared = prepared
        self._connections = Connections(url, CONNECTIONS)

    async def open(self) -> None:
        """Connect, or raise `SinkUnusable` with the reason."""
        try:
            async with self._connections.lend():
                pass
        except (
            asyncpg.UndefinedObjectError
        ) as error:  # an option of neither the sink nor the driver
            raise SinkUnusable(
                f"the URL {self.shown} has an unknown option: {_reason(error)}",
                hint="a sink accepts `schema`, `fk`, `partition` and `prepared_statements`",
            ) from None
        except (*LOST, asyncpg.PostgresError) as error:
            raise SinkUnusable(
                f"cannot reach {self.shown}: {_reason(error)}",
                hint="check that PostgreSQL is running there and that the user may connect",
            ) from None
        except (ValueError, OverflowError):  # its text may contain part of the password
            raise SinkUnusable(f"the URL {self.shown} cannot be read", hint=HINT) from None

    async def transact(self, body: Body[T], begin: str = WRITING) -> T:
        """Run the body in one transaction. Retry if the connection is lost."""
        started, pause = time.monotonic(), 0.05
        while True:
            try:
                with translate_errors(self.shown):
                    async with (
                        self._connections.lend() as connection,
                        connection.transaction(begin),
                    ):
                        return await body(connection)
            except Interleaved:
                continue
            except POOLED:  # through a proxy: the prepared statement is missing or already exists
                self.prepared = False
                continue
            except LOST as error:
                if time.monotonic() - started + pause > PATIENCE:
                    raise SinkError(
                        f"{self.shown} does not answer: {_reason(error)}",
                        hint="check that PostgreSQL is running there",
                    ) from error
            await asyncio.sleep(pause)
            pause = min(pause * 2, 1.0)

    async def close(self) -> None:
        with suppress(*LOST):
            await self._connections.close()


@contextmanager
def translate_errors(shown: str) -> Iterator[None]:
    """Raise PostgreSQL's errors as `SinkError` or `SinkUnusable`, except a lost connection."""
    try:
        yield
    except (*LOST, *POOLED):
        raise
    except asyncpg.ForeignKeyViolationError as error:
        raise SinkUnusable(
            f"{shown} rejects the rows: {_reason(error)}",
            hint="also fetch the tables that they refer to, or use a new schema with `?fk=off`",
        ) from error
    except asyncpg.InsufficientPrivilegeError as error:
        raise SinkUnusable(
            f"the user lacks a privilege on {shown}: {_reason(error)}",
            hint="grant the privilege, or name another schema with `?schema=…`",
        ) from error
    except asyncpg.PostgresError as error:
        raise SinkError(
            f"{shown} failed: {_reason(error)}", hint="check the server's log and its disk"
        ) from error


def _reason(error: Exception) -> str:
    return redact(f"{type(error).__name__}: {error}")
