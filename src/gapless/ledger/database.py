"""What the ledger's protocol needs from a database: transactions over named statements.

The protocol itself (`claims`, `leases`, `control`, …) is written once, as coroutines over a
`LedgerTransaction`. PostgreSQL awaits its answers; SQLite answers at once, so a whole transaction
runs in one step on the connection's thread. Either way a body may run again after a lost
connection: each is idempotent, and `again` means that an earlier attempt may have committed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from itertools import starmap
from typing import Any, Protocol, TypeVar, runtime_checkable

from gapless.ledger.fragments import columns

T = TypeVar("T")
Row = Any
"""A row as the driver gives it: a sequence of columns."""

WORKER_SECONDS = 5.0
"""How long a statement of a worker may take, waiting included; much less than a lease."""

PERSON_SECONDS = 60.0
"""The same for a command of a person, which may touch every chunk of a backfill."""

BRIEF_SECONDS = 1.0
"""How long to wait for a locked row if other work may be free: longer than 64 claims in a row."""


OVER = "the transaction has ended"
OVER_HINT = "use a transaction only inside its `with` block"


class LedgerTransaction(Protocol):
    """One transaction: named statements of the ledger, or a job's own SQL."""

    again: bool

    async def fetch(self, statement: str, **parameters: Any) -> list[Row]:
        """The rows that a named statement returns."""

    async def fetch_as(self, kind: type[T], statement: str, **parameters: Any) -> list[T]:
        """The same rows as values of a class, whose fields are filled by the names of columns."""

    async def count(self, statement: str, **parameters: Any) -> int:
        """How many rows a named statement returns, for those who do not need the rows."""

    async def execute(self, text: str, **parameters: Any) -> list[Row]:
        """Runs SQL with `:name` parameters, within the same transaction."""

    def release_early(self) -> None:
        """Lets the commit release its locks before it waits for the disk, because others wait.

        The transaction returns when it is on disk, as always.
        """


@runtime_checkable
class Lending(Protocol):
    """A transaction whose connection others may use until it ends."""

    def lent(self) -> AbstractContextManager[Any]:
        """The driver's own connection; if it is lost, the ledger raises its own error."""


Body = Callable[[LedgerTransaction], Awaitable[T]]


class Database(Protocol):
    """A connection to the ledger's database."""

    @property
    def library(self) -> str:
        """The library that accesses the ledger; all live processes must use the same one."""

    @property
    def newest_schema(self) -> int:
        """The number of the last migration that this library knows."""

    async def transact(
        self,
        body: Body[T],
        *,
        write: bool = True,
        within: float = WORKER_SECONDS,
        for_rows: float | None = None,
        atomic: bool = True,
    ) -> T:
        """Runs the body in one transaction, and again if the connection was lost meanwhile.

        If it need not be `atomic`, its statements may be transactions of their own. No statement
        takes longer than `within` seconds. Where rows can be locked, it waits up to `for_rows`
        seconds for one, half of `within` by default, and then raises `LedgerBusy`.
        """

    def session(self, limit: float | None = None) -> AbstractAsyncContextManager[LedgerTransaction]:
        """A transaction that stays open while its user works; it is never run again.

        The timeouts of the ledger's own statements do not apply to it. Where it blocks all other
        writers, it is rolled back if it is still open after `limit` seconds.
        """

    async def schema_version(self) -> int | None:
        """The number of the last migration, None for an empty database."""

    async def migrate(self) -> None:
        """Applies the migrations that are missing; concurrent callers do it once."""

    async def integrity_problems(self) -> list[str]:
        """The problems that the database itself finds in its storage."""

    async def notify(self) -> None:
        """A hint to other processes that there is new work."""

    def on_notify(self, wake: Callable[[], None]) -> None:
        """Calls `wake` on such a hint, if the database can deliver them."""

    async def close(self) -> None: ...


def named(kind: type[T], names: tuple[str, ...], rows: Sequence[Row]) -> list[T]:
    """Values of a class from rows whose columns have these names."""
    if names == columns(kind):
        return list(starmap(kind, rows))
    return [kind(**dict(zip(names, row, strict=True))) for row in rows]


async def one(tx: LedgerTransaction, statement: str, **parameters: Any) -> Row | None:
    """The only row of a statement, if there is one."""
    rows = await tx.fetch(statement, **parameters)
    return rows[0] if rows else None


async def one_as(
    tx: LedgerTransaction, kind: type[T], statement: str, **parameters: Any
) -> T | None:
    """The only row of a statement as a value of a class, if there is one."""
    rows = await tx.fetch_as(kind, statement, **parameters)
    return rows[0] if rows else None
