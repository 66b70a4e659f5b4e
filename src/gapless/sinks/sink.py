"""The contract of a sink.

A sink holds, for each chain, rows of whole blocks and a record of which ranges it holds. The two
change in one transaction, and four things are true after every one:

- **once**: a block's rows are there exactly once, or not at all; writing a range replaces it;
- **newest fence**: nothing is overwritten by a writer whose fence is lower than the last one's;
- **linked**: of two neighbouring blocks that are stored, one is the parent of the other, and every
  row of another table belongs to the block that is stored at its height;
- **told**: `stored` lists exactly the ranges whose rows are there, with what was proven of them.

A sink has an id of its own, kept inside it: a deleted file that is made anew is another sink.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol, Self, runtime_checkable

import pyarrow as pa

from gapless.core.anchors import Anchor
from gapless.core.errors import SinkUnusable
from gapless.core.ranges import Span
from gapless.schema import Table
from gapless.schema.arrow import Tables

COUNTS = pa.schema([("block_number", pa.uint64()), ("rows", pa.uint64())])
"""What `Sink.counts` returns."""


class Access(Enum):
    """What a sink is opened for."""

    CREATE = "create"
    """To read and write; if there is no sink, one is made."""
    WRITE = "write"
    """To read and write; it must be there."""
    READ = "read"
    """To read; it must be there, and nothing about it is changed."""

    @property
    def writes(self) -> bool:
        return self is not Access.READ

    def admit(self, shown: str) -> None:
        """Raises `SinkUnusable` unless the sink may be changed."""
        if not self.writes:
            raise SinkUnusable(
                f"{shown} was opened to be read", hint="open it with `Access.WRITE` to change it"
            )


@dataclass(frozen=True)
class Batch:
    """Consecutive blocks of one chain, with all rows that are stored of them.

    The anchor table is always among them: by its rows the others are linked, counted and proven.
    """

    chain_id: int
    span: Span
    tables: Tables
    proven: frozenset[str] = frozenset()  # the checks that held for each of the blocks
    unproven: frozenset[str] = frozenset()  # those asked for that could not be made for one of them


@dataclass(frozen=True)
class Stored:
    """A range of one dataset that a sink holds, and what can be said of it."""

    dataset: str
    span: Span
    fence: int
    rows: int
    digest: int  # of the rows as they were written: see `schema.digest`
    proven: frozenset[str]
    unproven: frozenset[str]
    parent_hash: bytes  # of the first block
    last_hash: bytes


@dataclass(frozen=True)
class Request:
    """Blocks that somebody asked this sink to hold: which tables, and which checks each block must
    pass."""

    span: Span
    datasets: frozenset[str]
    checks: frozenset[str] = frozenset()
    anchors: frozenset[Anchor] = frozenset()


@dataclass(frozen=True)
class Damage:
    """A file that cannot be what its record says."""

    dataset: str
    span: Span
    words: str


class Sink(Protocol):
    """Where batches are stored."""

    id: str
    batch_blocks: int | None
    """How many blocks a write should have; None: whatever the pipeline is configured for."""
    grid: int | None
    """No write should cross a multiple of this height; None: any may."""

    async def write(self, batch: Batch, fence: int) -> None:
        """Replaces the range of the batch, durably.

        Raises `FencedOff` if a higher fence has touched any of it, and `BrokenSeam` if the stored
        block before or behind it is of another branch; then nothing is written. A batch that is
        not what it says (see `admission`) is a `ValueError`.

        Tables that the batch does not bring stay where the block's hash stays, and with them the
        counts of their rows, if the batch does not know these; where the hash changes, they go.
        """

    async def retract(self, chain_id: int, span: Span, fence: int) -> None:
        """Removes the range from all datasets; `FencedOff` if a higher fence has touched it.

        Rows go even if no record knows of them.
        """

    async def stored(self, chain_id: int, span: Span | None = None) -> list[Stored]:
        """What is stored (of a span, cut to it), by dataset in the order of the tables, ascending.

        Cutting a range computes the digest of what is left from the rows that are there.
        """

    async def records(self, chain_id: int, span: Span) -> list[Stored]:
        """The records that overlap a span, in the order of `stored`, whole: no rows are read."""

    async def endorse(
        self,
        chain_id: int,
        seen: Sequence[Stored],
        proven: frozenset[str],
        unproven: frozenset[str],
        fence: int,
    ) -> None:
        """Adds to the proofs of ranges that were checked again; their rows and fences stay.

        `seen` is what `stored` returned for one span, of all datasets that were looked at. Raises
        `FencedOff` if a higher fence has touched the blocks from the first to the last that were
        seen, or if these datasets hold anything else there by now; then nothing changes. A check
        that held once stays proven.
        """

    async def chains(self) -> list[int]:
        """The ids of the chains of which anything is stored or requested."""

    async def request(self, chain_id: int, wanted: Request) -> None:
        """Remembers, durably, that these blocks are wanted; repeating it changes nothing.

        A request that could never be met (an impossible span, an unknown table) is a `ValueError`.
        """

    async def requests(self, chain_id: int) -> list[Request]:
        """What was requested, ascending.

        Overlapping or touching requests of the same datasets, checks and anchors are one.
        """

    async def withdraw(self, chain_id: int, span: Span) -> None:
        """Forgets what was requested of a span: no block and no anchor in it is wanted any more.

        Requests that reach beyond the span are cut.
        """

    async def read(
        self, table: Table, chain_id: int, span: Span, columns: Collection[str] | None = None
    ) -> pa.Table:
        """The rows of a span as they are there, in the order of the table's key.

        Raises `Damaged` if some of them cannot be read; so do `counts`, and `stored` where it cuts.
        """

    async def counts(self, table: Table, chain_id: int, span: Span) -> pa.Table:
        """How many `rows` each `block_number` of a span has, ascending; those that have any."""

    async def damage(self, chain_id: int, span: Span | None = None) -> list[Damage]:
        """Files of a span that are missing, cut off or of another kind, found without reading rows.

        Only a folder can have any. To replace such a file, write or retract all of its span.
        """

    async def strays(self) -> list[str]:
        """Data files that are not part of the sink although they lie in it, by relative name.

        Only a folder can have any: files that a crash left behind, or that an older manifest does
        not know because it was restored.
        """

    async def highest_fence(self) -> int:
        """The highest fence that has touched anything here; 0 if none has."""

    async def finish(self) -> None:
        """Makes what was loaded ready to be queried (indexes, say); harmless to repeat."""

    async def close(self) -> None: ...

    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *error: object) -> None: ...


@runtime_checkable
class JoiningSink(Sink, Protocol):
    """A sink that can also write in a transaction which somebody has open on its database."""

    async def is_reached_by(self, connection: Any) -> bool:
        """Whether a connection that is in a transaction leads to this very sink."""

    async def write_within(self, connection: Any, batch: Batch, fence: int) -> list[Stored]:
        """As `write`, on that connection: durable when its transaction is. The batch's records.

        After an error, the transaction is of no more use. A lost connection is theirs to tell of.
        """
