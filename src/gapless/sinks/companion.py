"""Companions: tables beside a sink's own that change together with its rows.

A companion is told of every batch that is written and every range that is retracted, inside the
transaction that does it. What it changes there is committed with the rows, or not at all.

    _gapless_companions   which companions the rows of a chain have

A companion is attached to a chain while nothing is written. So each writer either knows the new
companion, or has committed before the companion looks at the rows. Writers learn of companions in
the statement that they need for the records, and load them by their names. A process that does not
know a companion refuses to write.

SQLite and PostgreSQL can have companions. A DuckDB file or a folder of Parquet files cannot.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple, ParamSpec, Protocol, TypeVar, runtime_checkable

import pyarrow as pa

from gapless.core.errors import SinkUnusable
from gapless.core.ranges import Span
from gapless.schema import Index, Schema, Table
from gapless.sinks.dialect import SqlDialect
from gapless.sinks.records import RangeRecords
from gapless.sinks.sink import Batch, Sink

P = ParamSpec("P")
T = TypeVar("T")
Key = tuple[int, ...]
"""The key of a row without its first column, `chain_id`."""

BUILT_IN = {"wallets": "gapless.wallets.live"}
"""Companions that every process knows: name -> the module whose `companion()` creates it."""

TABLE = "_gapless_companions"
NAMES = "SELECT string_agg(name, ' ') FROM {_gapless_companions} WHERE chain_id = $1"
_ATTACH = "INSERT INTO {_gapless_companions} VALUES ($1, $2) ON CONFLICT DO NOTHING"
_IS_ATTACHED = "SELECT 1 FROM {_gapless_companions} WHERE chain_id = $1 AND name = $2"


class Observers(NamedTuple):
    """Who has to learn of a change of rows."""

    is_read: bool  # whether somebody reads the changes of the chain
    companions: tuple[str, ...] = ()

    @classmethod
    def of(cls, readers: int, names: str | None) -> Observers:
        return cls(bool(readers), tuple((names or "").split()))


@runtime_checkable
class CompanionTransaction(Protocol):
    """A transaction on the database of a sink.

    Statements have `$1` in place of their first value, and `{name}` in place of a table.
    """

    schema: Schema
    dialect: SqlDialect

    async def execute(self, statement: str, *values: object) -> Sequence[Sequence[Any]]:
        """Run a statement and return its rows."""

    async def execute_many(self, statement: str, rows: Collection[Sequence[object]]) -> None:
        """Run a statement once for each row of values."""

    async def add_rows(
        self, name: str, columns: Sequence[str], rows: Collection[Sequence[object]]
    ) -> None:
        """Insert rows into a table, any number of them at once."""

    async def has(self, name: str) -> bool:
        """Whether a table exists."""

    async def known(self, chain_id: int, span: Span, limit: int | None = None) -> RangeRecords:
        """Return the records that overlap a range; with a limit, the highest of each dataset."""

    async def read(
        self, table: Table, chain_id: int, span: Span, columns: Collection[str] | None = None
    ) -> pa.Table:
        """Return the rows of a span in key order; none if the table does not exist."""

    async def find(
        self, table: Table, chain_id: int, span: Span, column: str, values: Collection[bytes]
    ) -> list[Key]:
        """Return the keys of the rows with one of these values in a column.

        Build an index that begins with the column and `block_number` first: see `build_indexes`.
        """

    async def read_rows(
        self,
        table: Table,
        chain_id: int,
        keys: Sequence[Key],
        columns: Collection[str] | None = None,
    ) -> pa.Table:
        """Return the rows with these keys, in their order; none if the table does not exist."""

    async def exclude_companions(self, chain_id: int) -> None:
        """Wait until no other transaction changes companions' tables of the chain.

        A companion does so before it reads what it is going to change.
        """

    async def compute(self, function: Callable[P, T], *values: P.args, **named: P.kwargs) -> T:
        """Call a function that computes for long; the event loop goes on meanwhile."""


class Companion(Protocol):
    """Tables that change with the rows of a sink. It keeps no state of a transaction."""

    async def written(self, tx: CompanionTransaction, batch: Batch, fence: int) -> None:
        """Follow a write, after the rows of the batch have replaced others.

        Before that, `retracted` is called for blocks that the batch replaces by other ones. The
        same batch may be written again.
        """

    async def retracted(
        self, tx: CompanionTransaction, chain_id: int, span: Span, fence: int
    ) -> None:
        """Follow a retraction, after the rows of the span were deleted."""


Body = Callable[[CompanionTransaction], Awaitable[T]]


@runtime_checkable
class AccompaniedSink(Sink, Protocol):
    """A sink whose database can have tables of companions."""

    async def consult(self, body: Body[T]) -> T:
        """Run a function that reads one state of the database and changes nothing.

        It awaits nothing but the transaction. It may have to be run again from its start.
        """

    async def transact(self, chain_id: int, body: Body[T], *, alone: bool = False) -> T:
        """Run a function in a transaction that excludes other changes of companions of the chain.

        With `alone`, also no rows of the sink are written meanwhile. What holds for the function of
        `consult` holds here too.
        """

    async def build_indexes(self, indexes: Mapping[str, Collection[Index]]) -> None:
        """Build those indexes of some tables that do not exist yet. Writers of a table wait."""


def create(place: str, number: str) -> str:
    """Return `CREATE TABLE` with the database's type for numbers."""
    return (
        f"CREATE TABLE IF NOT EXISTS {place} (\n"
        f"  chain_id {number} NOT NULL,\n  name TEXT NOT NULL,\n  PRIMARY KEY (chain_id, name)\n)"
    )


def insertion(name: str, columns: Sequence[str]) -> str:
    """Return the statement that inserts one row into a table."""
    marks = ", ".join(f"${at}" for at in range(1, len(columns) + 1))
    return f"INSERT INTO {{{name}}} ({', '.join(columns)}) VALUES ({marks})"  # noqa: S608 - ours


async def attach(tx: CompanionTransaction, chain_id: int, name: str) -> None:
    """Make a companion follow the rows of a chain. Requires that nothing is written."""
    await tx.execute(_ATTACH, chain_id, name)


async def is_attached(tx: CompanionTransaction, chain_id: int, name: str) -> bool:
    """Whether a companion follows the rows of a chain."""
    return bool(await tx.execute(_IS_ATTACHED, chain_id, name))


def named(names: Iterable[str]) -> list[Companion]:
    """Return companions by their names."""
    return [_load(name) for name in names]


def _load(name: str) -> Companion:
    if name not in BUILT_IN:
        raise SinkUnusable(
            f"the rows of this sink change together with `{name}`, which is unknown here",
            hint="upgrade Gapless",
        )
    companion: Companion = import_module(BUILT_IN[name]).companion()
    return companion
