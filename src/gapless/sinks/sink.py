"""The contract of a sink.

A sink holds, for each chain, the rows of complete blocks and records of the ranges that it holds.
Rows and records change in one transaction. After every transaction:

- **once**: a block's rows are stored exactly once or not at all; writing a range replaces it;
- **newest fence**: no writer has overwritten rows of a higher fence than its own;
- **linked**: of two neighbouring stored blocks, one is the parent of the other, and every row of
  another table belongs to the block that is stored at its height;
- **reported**: `stored` lists exactly the ranges that have rows, with what was proven of them.

Every sink stores its own id: a file that is deleted and created again is a different sink.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol, Self, runtime_checkable

import pyarrow as pa

from gapless.core.anchors import Anchor
from gapless.core.errors import SinkUnusable
from gapless.core.ranges import RangeSet, Span
from gapless.schema import Table
from gapless.schema.arrow import Tables

COUNTS = pa.schema([("block_number", pa.uint64()), ("rows", pa.uint64())])
"""The columns that `Sink.counts` returns."""

FOLD_LIMIT = 1000
"""How many records of each dataset one call of `Sink.fold` considers."""


class Access(Enum):
    """What a sink is opened to do."""

    CREATE = "create"
    """Read and write; create the sink if it does not exist."""
    WRITE = "write"
    """Read and write; the sink must exist."""
    READ = "read"
    """Read only; the sink must exist, and nothing in it is changed."""

    @property
    def writes(self) -> bool:
        return self is not Access.READ

    def admit(self, shown: str) -> None:
        """Raises `SinkUnusable` unless the sink may be changed."""
        if not self.writes:
            raise SinkUnusable(
                f"{shown} is open for reading only", hint="open it with `Access.WRITE` to change it"
            )


@dataclass(frozen=True)
class Batch:
    """Consecutive blocks of one chain, with all of their rows to store.

    The anchor table is always included: its rows link, count and prove those of the others.
    """

    chain_id: int
    span: Span
    tables: Tables
    proven: frozenset[str] = frozenset()  # checks that every block passed
    unproven: frozenset[str] = frozenset()  # requested checks that were not possible for some block


@dataclass(frozen=True)
class Stored:
    """The record of a range of one dataset that a sink holds."""

    dataset: str
    span: Span
    fence: int
    rows: int
    digest: int  # of the rows when they were written: see `schema.digest`
    proven: frozenset[str]
    unproven: frozenset[str]
    parent_hash: bytes  # of the first block
    last_hash: bytes


@dataclass(frozen=True)
class Request:
    """Blocks that this sink should hold: of which tables, and which checks each block must pass."""

    span: Span
    datasets: frozenset[str]
    checks: frozenset[str] = frozenset()
    anchors: frozenset[Anchor] = frozenset()


@dataclass(frozen=True)
class Damage:
    """A file that does not match its record."""

    dataset: str
    span: Span
    words: str


class Sink(Protocol):
    """A store for batches."""

    id: str
    batch_blocks: int | None
    """Number of blocks that a write should have; None: as configured for the pipeline."""
    grid: int | None
    """No write should cross a multiple of this height; None: no restriction."""

    async def write(self, batch: Batch, fence: int) -> None:
        """Replaces the range of the batch, durably.

        Raises `FencedOff` if a higher fence has changed any block of the range, `BrokenSeam` if
        the stored block before or after it is on a different branch, and `ValueError` for an
        invalid batch (see `admission`). Nothing is written then.

        Where a block's hash stays the same, rows of tables that the batch does not contain stay,
        and so do their counts unless the batch has them. Where the hash changes, they are deleted.
        """

    async def retract(self, chain_id: int, span: Span, fence: int) -> None:
        """Removes the range from all datasets; `FencedOff` if a higher fence has changed it.

        Rows without a record are removed too.
        """

    async def stored(self, chain_id: int, span: Span | None = None) -> list[Stored]:
        """Returns the stored ranges, ascending, by dataset in the order of the tables.

        With a span, ranges are cut to it. The digest of a cut range is computed from its rows.
        """

    async def records(self, chain_id: int, span: Span) -> list[Stored]:
        """Returns the whole records that overlap a span, without reading rows."""

    async def endorse(
        self,
        chain_id: int,
        seen: Sequence[Stored],
        proven: frozenset[str],
        unproven: frozenset[str],
        fence: int,
    ) -> None:
        """Adds proofs to ranges that were checked again; their rows and fences stay the same.

        `seen` is what `stored` returned for one span, for all datasets that were examined. Raises
        `FencedOff` and changes nothing if a higher fence has changed any block between the first
        and the last one seen, or if these datasets hold something else there now. A check that was
        proven once stays proven.
        """

    async def fold(
        self,
        chain_id: int,
        below: int,
        keep: RangeSet = RangeSet(),  # noqa: B008 - immutable
        limit: int = FOLD_LIMIT,
    ) -> int:
        """Merges records of neighbouring ranges that end below a height.

        Returns by how many records there are fewer. Coverage, proofs and digests stay the same.
        Records are merged if they are linked, have the same proofs, and are in the same cell of a
        thousand blocks (see `records.FOLDED_BLOCKS`).

        The merged record has the highest of their fences, so writes and endorsements under a lower
        one are refused in all of its range. Therefore pass the heights that unfinished work may
        still change as `keep`: records that overlap them stay as they are.

        One call considers the highest `limit` records of each dataset below the height. Call it
        again to continue further down. Retractions are not merged: a write removes those of its
        range, so each that is left guards blocks that are not stored. A folder of Parquet files
        merges nothing, because each record describes a file.
        """

    async def chains(self) -> list[int]:
        """Returns the ids of the chains that have stored or requested blocks."""

    async def request(self, chain_id: int, wanted: Request) -> None:
        """Records durably that these blocks are wanted; repeating a request changes nothing.

        Raises `ValueError` for a request that cannot be fulfilled (invalid span, unknown table).
        """

    async def requests(self, chain_id: int) -> list[Request]:
        """Returns the requests, ascending.

        Overlapping or touching requests with the same datasets, checks and anchors are merged.
        """

    async def withdraw(self, chain_id: int, span: Span) -> None:
        """Removes the blocks and anchors of a span from the requests.

        The parts of requests outside the span stay.
        """

    async def read(
        self, table: Table, chain_id: int, span: Span, columns: Collection[str] | None = None
    ) -> pa.Table:
        """Returns the stored rows of a span, ordered by the table's key.

        Raises `Damaged` if some of them cannot be read. So do `counts`, and `stored` when it cuts a
        range.
        """

    async def counts(self, table: Table, chain_id: int, span: Span) -> pa.Table:
        """Returns the number of `rows` of each `block_number` in a span that has any, ascending."""

    async def damage(self, chain_id: int, span: Span | None = None) -> list[Damage]:
        """Returns files of a span that are missing, truncated or invalid, without reading rows.

        Only sinks in a folder have any. To replace such a file, write or retract its whole span.
        """

    async def strays(self) -> list[str]:
        """Returns the relative names of data files in the sink's folder that are not part of it.

        Only sinks in a folder have any: files left over from a crash, or files that are newer than
        a manifest that was restored.
        """

    async def highest_fence(self) -> int:
        """Returns the highest fence of any write or retraction; 0 if there was none."""

    async def finish(self) -> None:
        """Prepares the rows for queries, for example by building indexes. Idempotent."""

    async def close(self) -> None: ...

    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *error: object) -> None: ...


@runtime_checkable
class JoiningSink(Sink, Protocol):
    """A sink that can also write within a transaction that the caller has open on its database."""

    async def is_reached_by(self, connection: Any) -> bool:
        """Whether a connection, which is in a transaction, leads to the database of this sink."""

    async def write_within(self, connection: Any, batch: Batch, fence: int) -> list[Stored]:
        """Like `write`, but durable when the connection's transaction is. Returns the new records.

        After an error, the transaction can only be rolled back. Errors of a lost connection are not
        translated: the caller owns the connection.
        """
