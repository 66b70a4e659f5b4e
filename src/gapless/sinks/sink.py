"""The contract of a sink.

A sink holds, for each chain, the rows of complete blocks and records of the ranges that it holds.
Rows and records change in one transaction. After every transaction:

- **once**: a block's rows are stored exactly once or not at all; writing a range replaces it;
- **newest fence**: no writer has overwritten rows of a higher fence than its own;
- **linked**: of two neighbouring stored blocks, one is the parent of the other, and every row of
  another table belongs to the block that is stored at its height;
- **reported**: `stored` lists exactly the ranges that have rows, and those whose rows have expired,
  with what was proven about them.

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
from gapless.sinks.changes import CHANGES_LIMIT, Change, ChangeReader

COUNTS = pa.schema([("block_number", pa.uint64()), ("rows", pa.uint64())])
"""The columns that `Sink.counts` returns."""

FOLD_LIMIT = 1000
"""How many records of each dataset one call of `Sink.fold` considers."""

EXPIRE_LIMIT = 1000
"""How many blocks one call of `Sink.expire` removes, or a few more: records are not split."""


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
        """Raise `SinkUnusable` unless the sink may be changed."""
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
    expired: bool = False  # whether the rows were deleted on purpose: see `Sink.expire`


@dataclass(frozen=True)
class Request:
    """Blocks that a sink should hold, in which tables, and the checks that each must pass."""

    span: Span
    datasets: frozenset[str]
    checks: frozenset[str] = frozenset()
    anchors: frozenset[Anchor] = frozenset()


@dataclass(frozen=True)
class Damage:
    """A file that does not match its record."""

    dataset: str
    span: Span
    message: str


class Sink(Protocol):
    """A store for batches."""

    id: str
    batch_blocks: int | None
    """Number of blocks that a write should have; None: as configured for the pipeline."""
    grid: int | None
    """No write should cross a multiple of this height; None: no restriction."""

    async def write(self, batch: Batch, fence: int) -> None:
        """Replace the range of the batch, durably.

        Raise `FencedOff` if a higher fence has changed any block of the range, `BrokenSeam` if
        the stored block before or after it is on a different branch, and `ValueError` for an
        invalid batch (see `admission`). In these cases, write nothing.

        Where a block's hash stays the same, rows of tables that the batch does not contain stay,
        and so do their counts unless the batch has them. Where the hash changes, they are deleted.
        """

    async def retract(self, chain_id: int, span: Span, fence: int) -> None:
        """Remove the range from all datasets, including rows without a record.

        Raise `FencedOff` if a higher fence has changed any block of the range.
        """

    async def stored(self, chain_id: int, span: Span | None = None) -> list[Stored]:
        """Return the stored ranges, ascending, by dataset in the order of the tables.

        With a span, cut ranges to it, and compute the digest of a cut range from its rows.
        """

    async def records(self, chain_id: int, span: Span) -> list[Stored]:
        """Return the whole records that overlap a span, without reading rows."""

    async def endorse(
        self,
        chain_id: int,
        seen: Sequence[Stored],
        proven: frozenset[str],
        unproven: frozenset[str],
        fence: int,
    ) -> None:
        """Add proofs to ranges that were checked again; their rows and fences stay the same.

        `seen` is what `stored` returned for one span, for all datasets that were examined. Raise
        `FencedOff` and change nothing if a higher fence has changed any block between the first
        and the last one seen, or if these datasets now hold something else there. A check that was
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

    async def expire(self, chain_id: int, below: int, limit: int = EXPIRE_LIMIT) -> int:
        """Delete the rows of final blocks below a height, and keep records that they were stored.

        Return the number of blocks; call it again to continue, until it returns 0. The records
        have `expired` set and count as stored, so these blocks are not fetched again.

        Records are not split: one that reaches the height stays. So do the highest final block
        and those above it (see `requests.final_height`), which the next block has to link to, and
        blocks of changes that a reader has not acknowledged. What a reader has yet to read from
        the rows, the caller must know. Raise `SinkUnusable` if the sink cannot do this.
        """

    async def changes(self, chain_id: int, after: int, limit: int = CHANGES_LIMIT) -> list[Change]:
        """Return the changes after a position, in the order of their commits.

        Raise `ChangesPruned` if some of them have been deleted.
        """

    async def add_change_reader(self, chain_id: int, name: str) -> int:
        """Register a reader of the chain's changes, and return the position to read after.

        For a new reader that is the latest position: what was stored until now is in the rows.
        Repeating the call returns what the reader has acknowledged.
        """

    async def remove_change_reader(self, chain_id: int, name: str) -> None:
        """Remove a reader; without any, the sink records no changes of this chain."""

    async def change_readers(self, chain_id: int) -> dict[str, ChangeReader]:
        """Return how far each reader is, by name."""

    async def acknowledge_changes(self, chain_id: int, name: str, through: int) -> None:
        """Record that a reader needs no change up to a position, and delete what none needs.

        Raise `SinkUnusable` if the reader is not registered.
        """

    async def chains(self) -> list[int]:
        """Return the ids of the chains that have stored or requested blocks."""

    async def request(self, chain_id: int, wanted: Request) -> None:
        """Record durably that these blocks are wanted; repeating a request changes nothing.

        Raise `ValueError` for a request that cannot be fulfilled (invalid span, unknown table).
        """

    async def requests(self, chain_id: int) -> list[Request]:
        """Return the requests, ascending.

        Overlapping or touching requests with the same datasets, checks and anchors are merged.
        """

    async def withdraw(self, chain_id: int, span: Span) -> None:
        """Remove the blocks and anchors of a span from the requests.

        The parts of requests outside the span stay.
        """

    async def read(
        self, table: Table, chain_id: int, span: Span, columns: Collection[str] | None = None
    ) -> pa.Table:
        """Return the stored rows of a span, ordered by the table's key.

        Raise `Damaged` if any of them cannot be read, as do `counts`, and `stored` when it cuts a
        range.
        """

    async def counts(self, table: Table, chain_id: int, span: Span) -> pa.Table:
        """Return `block_number` and `rows` for each block of a span that has rows, ascending."""

    async def damage(self, chain_id: int, span: Span | None = None) -> list[Damage]:
        """Return files of a span that are missing, truncated or invalid, without reading rows.

        Only sinks in a folder have any. To replace such a file, write or retract its whole span.
        """

    async def strays(self) -> list[str]:
        """Return the relative names of data files in the sink's folder that are not part of it.

        Only sinks in a folder have any: files left over from a crash, or files that are newer than
        a manifest that was restored.
        """

    async def highest_fence(self) -> int:
        """Return the highest fence of any write or retraction; 0 if there was none."""

    async def finish(self) -> None:
        """Prepare the rows for queries, for example by building indexes. Idempotent."""

    async def close(self) -> None: ...

    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *error: object) -> None: ...


@runtime_checkable
class JoiningSink(Sink, Protocol):
    """A sink that can also write within a transaction that the caller has open on its database."""

    async def is_reached_by(self, connection: Any) -> bool:
        """Whether a connection, which is in a transaction, leads to the database of this sink."""

    async def write_within(self, connection: Any, batch: Batch, fence: int) -> list[Stored]:
        """Write a batch as part of the connection's transaction, and return the new records.

        The write is durable once the transaction is. After an error, the transaction can only be
        rolled back. Errors from a lost connection are not translated, because the caller owns the
        connection.
        """
