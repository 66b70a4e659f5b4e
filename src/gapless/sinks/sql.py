"""The contract of a sink, kept by a database: written once, over a transaction.

Each function runs in a transaction that nobody interleaves with who writes or retracts blocks of
the range, or next to it. PostgreSQL awaits the answers; SQLite and DuckDB answer at once, so that a
whole transaction runs in one step on their thread.

The records say what is there. Where they know of no blocks, a write looks nothing up and deletes
nothing: a load of new blocks is inserts alone. A retraction deletes whatever is there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

import pyarrow as pa

from gapless.core.errors import Damaged
from gapless.core.heights import HIGHEST
from gapless.core.ranges import RangeSet, Span
from gapless.core.remedies import RepairBlocks
from gapless.schema import Schema, Table
from gapless.schema.digest import MODULUS, digest
from gapless.sinks import records, requests
from gapless.sinks.records import RangeRecords, Retracted
from gapless.sinks.revision import compared_columns, revised
from gapless.sinks.sink import Batch, Request, Stored

DigestOf = Callable[[Table, pa.Table], int]

_BLOCKS_AT_ONCE = 500  # when a range is measured anew


@contextmanager
def report_damage(table: Table, span: Span) -> Iterator[None]:
    """Tells of values that are not what their column holds, such as a hash of 31 bytes."""
    try:
        yield
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise Damaged(
            f"`{table.name}` of blocks {span} cannot be read: {error}",
            dataset=table.name,
            span=span,
            remedy=RepairBlocks(),
        ) from error


class Transaction(Protocol):
    """What a sink asks of the transaction that it is in."""

    schema: Schema

    async def known(self, chain_id: int, span: Span) -> RangeRecords:
        """The records that overlap a range."""

    async def remember(
        self,
        chain_id: int,
        known: RangeRecords,
        stored: Iterable[Stored],
        retracted: Iterable[Retracted],
    ) -> None:
        """Puts these records in the place of the known ones."""

    async def create(self, names: Collection[str]) -> None:
        """Creates the tables of these names that are not there."""

    async def insert(self, table: Table, rows: pa.Table) -> None:
        """Inserts rows of blocks that the table has none of."""

    async def delete(self, table: Table, chain_id: int, span: Span) -> None:
        """Deletes the rows of a span, if there is such a table; keys may hang until the end."""

    async def read(
        self, table: Table, chain_id: int, span: Span, columns: Collection[str] | None = None
    ) -> pa.Table:
        """The rows of a span in the order of the key; none if there is no such table."""

    async def requests(self, chain_id: int) -> list[Request]:
        """What was requested, in order."""

    async def replace_requests(self, chain_id: int, wanted: Iterable[Request]) -> None:
        """Puts these requests in the place of all that the chain has."""


async def write(
    tx: Transaction,
    batch: Batch,
    fence: int,
    digest_of: DigestOf = digest,
) -> list[Stored]:
    """Replaces the range of a batch that was admitted; see `Sink.write`. Returns its records.

    `digest_of` may know the digest of rows that were just inserted.
    """
    chain_id, span = batch.chain_id, batch.span
    known = await tx.known(chain_id, _with_neighbours(span))
    anchor = tx.schema.anchor_of(batch.tables)
    records.refuse_older(known, span, fence, batch.tables, tx.schema)
    records.refuse_broken(
        batch,
        anchor,
        await _neighbour_hash(tx, anchor, chain_id, known, span.first - 1, anchor.links.hash),
        await _neighbour_hash(tx, anchor, chain_id, known, span.last + 1, anchor.links.parent),
    )
    overlapping = _stored(known, anchor.name) & RangeSet.of(span)
    found = await tx.read(anchor, chain_id, span, compared_columns(anchor)) if overlapping else None
    revision = revised(batch, found, tx.schema)
    await tx.create(batch.tables)
    surviving = await _drop(tx, chain_id, known, revision.dropped)
    written = []
    for name in sorted(batch.tables, key=tx.schema.order):  # parents first
        rows = revision.rows(batch, name)
        await tx.insert(tx.schema[name], rows)
        written.append(records.written(batch, tx.schema[name], rows, fence, digest_of))
    retracted = records.retractions(known, span, None)
    await tx.remember(chain_id, known, records.merged([*surviving, *written], tx.schema), retracted)
    return written


async def retract(tx: Transaction, chain_id: int, span: Span, fence: int) -> None:
    """Removes a range from all tables; see `Sink.retract`."""
    known = await tx.known(chain_id, _with_neighbours(span))
    records.refuse_older(known, span, fence, known.anchors(tx.schema), tx.schema)
    dropped = dict.fromkeys(tx.schema, RangeSet.of(span))
    surviving = await _surviving(tx, chain_id, known.stored, dropped)
    for each in reversed(tx.schema.tables):  # also rows that no record knows: they are in the way
        await tx.delete(each, chain_id, span)
    retracted = records.retractions(known, span, fence)
    await tx.remember(chain_id, known, records.merged(surviving, tx.schema), retracted)


async def stored(tx: Transaction, chain_id: int, span: Span | None) -> list[Stored]:
    """What is stored of a span, cut to it; see `Sink.stored`."""
    known = await tx.known(chain_id, span or Span(0, HIGHEST))
    outside = RangeSet() if span is None else RangeSet.of((0, HIGHEST)) - RangeSet.of(span)
    dropped = dict.fromkeys(tx.schema, outside)
    return records.merged(await _surviving(tx, chain_id, known.stored, dropped), tx.schema)


async def whole_records(tx: Transaction, chain_id: int, span: Span) -> list[Stored]:
    """The records that overlap a span; see `Sink.records`."""
    return records.merged((await tx.known(chain_id, span)).stored, tx.schema)


async def endorse(
    tx: Transaction,
    chain_id: int,
    seen: Sequence[Stored],
    proven: frozenset[str],
    unproven: frozenset[str],
    fence: int,
) -> None:
    """Adds to the proofs of records that are still as they were seen; see `Sink.endorse`."""
    span, names = records.hull(seen), {it.dataset for it in seen}
    known = await tx.known(chain_id, _with_neighbours(span))
    records.refuse_older(known, span, fence, names, tx.schema)
    inside, outside = RangeSet.of(span), RangeSet.of((0, HIGHEST)) - RangeSet.of(span)
    found = await _surviving(tx, chain_id, known.of(names), dict.fromkeys(names, outside))
    records.refuse_changed(found, seen, tx.schema)
    others = await _surviving(tx, chain_id, known.stored, dict.fromkeys(names, inside))
    better = records.endorsed(found, proven, unproven)
    merged = records.merged([*others, *better], tx.schema)
    await tx.remember(chain_id, known, merged, known.retracted)


async def request(tx: Transaction, chain_id: int, wanted: Request) -> None:
    """Remembers a request; see `Sink.request`. Nobody else may change requests meanwhile."""
    requests.admit(wanted, tx.schema)
    before = await tx.requests(chain_id)
    await _replace_requests(tx, chain_id, before, requests.merged([*before, wanted]))


async def withdraw(tx: Transaction, chain_id: int, span: Span) -> None:
    """Forgets what was requested of a span; see `Sink.withdraw`."""
    before = await tx.requests(chain_id)
    await _replace_requests(tx, chain_id, before, requests.without(before, span))


async def _replace_requests(
    tx: Transaction, chain_id: int, before: list[Request], after: list[Request]
) -> None:
    if after != before:
        await tx.replace_requests(chain_id, after)


def _with_neighbours(span: Span) -> Span:
    return Span(max(span.first - 1, 0), min(span.last + 1, HIGHEST))


def _stored(known: RangeRecords, dataset: str) -> RangeSet:
    return RangeSet(each.span for each in known.stored if each.dataset == dataset)


async def _drop(
    tx: Transaction, chain_id: int, known: RangeRecords, dropped: records.Dropped
) -> list[Stored]:
    """Deletes what is dropped; the records of what is left."""
    surviving = await _surviving(tx, chain_id, known.stored, dropped)
    for each in reversed(tx.schema.tables):
        for span in (dropped.get(each.name, RangeSet()) & _stored(known, each.name)).spans:
            await tx.delete(each, chain_id, span)
    return surviving


async def _surviving(
    tx: Transaction, chain_id: int, stored: Iterable[Stored], dropped: records.Dropped
) -> list[Stored]:
    whole, parts = records.surviving(stored, dropped)
    return [*whole, *[await _cut(tx, chain_id, record, span) for record, span in parts]]


async def _cut(tx: Transaction, chain_id: int, record: Stored, span: Span) -> Stored:
    """The record of a part of what it was for, measured by the rows that are there."""
    count = total = 0
    table = tx.schema[record.dataset]
    links = table.anchor.links
    for first in range(span.first, span.last + 1, _BLOCKS_AT_ONCE):
        window = Span(first, min(first + _BLOCKS_AT_ONCE - 1, span.last))
        rows = await tx.read(table, chain_id, window)
        count, total = count + rows.num_rows, total + digest(table, rows)
    return replace(
        record,
        span=span,
        rows=count,
        digest=total % MODULUS,
        parent_hash=await _hash(tx, table.anchor, chain_id, span.first, links.parent) or b"",
        last_hash=await _hash(tx, table.anchor, chain_id, span.last, links.hash) or b"",
    )


async def _neighbour_hash(
    tx: Transaction, anchor: Table, chain_id: int, known: RangeRecords, height: int, column: str
) -> bytes | None:
    """A hash of the stored block beside a range: mostly its record has it."""
    for each in known.stored:
        if each.dataset == anchor.name and each.span.first <= height <= each.span.last:
            if column == anchor.links.hash and height == each.span.last:
                return each.last_hash
            if column == anchor.links.parent and height == each.span.first:
                return each.parent_hash
            return await _hash(tx, anchor, chain_id, height, column)
    return None


async def _hash(
    tx: Transaction, anchor: Table, chain_id: int, height: int, column: str
) -> bytes | None:
    found = await tx.read(anchor, chain_id, Span(height, height), [column])
    return found[column][0].as_py() if found.num_rows else None
