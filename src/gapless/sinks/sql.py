"""The contract of a sink, implemented once for all databases on top of a transaction.

Each function runs in a transaction that excludes all others that write or retract blocks of the
range or next to it. PostgreSQL really awaits; SQLite and DuckDB never suspend, so a whole
transaction runs in one step on their thread.

The records say what is stored. Where no blocks are recorded, a write reads and deletes nothing, so
loading new blocks needs only inserts. A retraction deletes all rows, whether recorded or not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Protocol

import pyarrow as pa

from gapless.core.errors import Damaged
from gapless.core.heights import HIGHEST
from gapless.core.ranges import RangeSet, Span
from gapless.core.remedies import RepairBlocks
from gapless.schema import Schema, Table
from gapless.schema.digest import MODULUS, digest
from gapless.sinks import companion, feed, records, requests
from gapless.sinks.changes import Change
from gapless.sinks.companion import Companion, CompanionTransaction, Observers
from gapless.sinks.feed import FeedTransaction
from gapless.sinks.records import RangeRecords, Retracted
from gapless.sinks.revision import compared_columns, revised
from gapless.sinks.sink import Batch, Request, Stored

DigestOf = Callable[[Table, pa.Table], int]

_BLOCKS_AT_ONCE = 500  # when the rows of a range are counted and digested again


@contextmanager
def report_damage(table: Table, span: Span) -> Iterator[None]:
    """Raise `Damaged` for values that do not fit their column, such as a hash of 31 bytes."""
    try:
        yield
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise Damaged(
            f"`{table.name}` of blocks {span} cannot be read: {error}",
            dataset=table.name,
            span=span,
            remedy=RepairBlocks(),
        ) from error


class SinkTransaction(FeedTransaction, Protocol):
    """The operations that a sink needs from its current transaction."""

    schema: Schema

    async def known(self, chain_id: int, span: Span, limit: int | None = None) -> RangeRecords:
        """Return the records that overlap a range; with a limit, the highest of each dataset."""

    async def remember(
        self,
        chain_id: int,
        known: RangeRecords,
        stored: Iterable[Stored],
        retracted: Iterable[Retracted],
    ) -> Observers:
        """Replace the known records with these. Return who has to learn of the change.

        PostgreSQL finds out in the same round trip.
        """

    async def create(self, names: Collection[str]) -> None:
        """Create those of the named tables that do not exist."""

    async def insert(self, table: Table, rows: pa.Table) -> None:
        """Insert rows of blocks that have no rows in the table."""

    async def delete(self, table: Table, chain_id: int, span: Span) -> None:
        """Delete the rows of a span if the table exists. Defer foreign keys to the commit."""

    async def read(
        self, table: Table, chain_id: int, span: Span, columns: Collection[str] | None = None
    ) -> pa.Table:
        """Return the rows of a span in key order; none if the table does not exist."""

    async def requests(self, chain_id: int) -> list[Request]:
        """Return the requests in order."""

    async def replace_requests(self, chain_id: int, wanted: Iterable[Request]) -> None:
        """Replace all requests of the chain."""


async def write(
    tx: SinkTransaction,
    batch: Batch,
    fence: int,
    digest_of: DigestOf = digest,
) -> list[Stored]:
    """Replace the range of an admitted batch; see `Sink.write`. Return the new records.

    `digest_of` returns the digest of rows that were just inserted.
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
    overlapping = known.heights(anchor.name) & RangeSet.of(span)
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
    after = records.merged([*surviving, *written], tx.schema)
    observers = await tx.remember(chain_id, known, after, retracted)
    for each in companion.named(observers.companions):
        replaced = RangeSet.from_members(revision.replaced)
        await _tell_of_retraction(tx, each, chain_id, replaced, fence)
        await each.written(_accompanied(tx), batch, fence)
    if observers.is_read and (revision.replaced or not known.hold(batch)):
        await feed.append(tx, revision.change(batch, fence))
    return written


async def retract(tx: SinkTransaction, chain_id: int, span: Span, fence: int) -> None:
    """Remove a range from all tables; see `Sink.retract`."""
    known = await tx.known(chain_id, _with_neighbours(span))
    records.refuse_older(known, span, fence, known.anchors(tx.schema), tx.schema)
    dropped = dict.fromkeys(tx.schema, RangeSet.of(span))
    surviving = await _surviving(tx, chain_id, known.stored, dropped)
    retracted = records.retractions(known, span, fence)
    after = records.merged(surviving, tx.schema)
    observers = await tx.remember(chain_id, known, after, retracted)
    old = await _unfinal_hashes(tx, chain_id, known, span) if observers.is_read else {}
    for table in reversed(tx.schema.tables):
        # Unrecorded rows too: they would collide with later writes.
        await tx.delete(table, chain_id, span)
    for each in companion.named(observers.companions):
        await _tell_of_retraction(tx, each, chain_id, RangeSet.of(span), fence)
    if observers.is_read and known.hold_blocks(span, tx.schema):
        await feed.append(tx, Change(0, chain_id, span, fence, retracted=True, old=old))


async def stored(tx: SinkTransaction, chain_id: int, span: Span | None) -> list[Stored]:
    """Return the stored ranges, cut to a span; see `Sink.stored`."""
    known = await tx.known(chain_id, span or Span(0, HIGHEST))
    outside = RangeSet() if span is None else RangeSet.of((0, HIGHEST)) - RangeSet.of(span)
    dropped = dict.fromkeys(tx.schema, outside)
    return records.merged(await _surviving(tx, chain_id, known.stored, dropped), tx.schema)


async def whole_records(tx: SinkTransaction, chain_id: int, span: Span) -> list[Stored]:
    """Return the records that overlap a span; see `Sink.records`."""
    return records.merged((await tx.known(chain_id, span)).stored, tx.schema)


async def endorse(
    tx: SinkTransaction,
    chain_id: int,
    seen: Sequence[Stored],
    proven: frozenset[str],
    unproven: frozenset[str],
    fence: int,
) -> None:
    """Add proofs to records that have not changed since they were seen; see `Sink.endorse`."""
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


async def fold(tx: SinkTransaction, chain_id: int, span: Span, keep: RangeSet, limit: int) -> int:
    """Merge records that overlap a span and end within it; see `Sink.fold`."""
    known = await tx.known(chain_id, span, limit)
    folded = records.folded(known.stored, span.last, keep, tx.schema)
    merged_away = len(known.stored) - len(folded)
    if merged_away:
        await tx.remember(chain_id, known, folded, known.retracted)
    return merged_away


async def expire(tx: SinkTransaction, chain_id: int, below: int, limit: int) -> int:
    """Delete the rows of final blocks; see `Sink.expire`. Return the number of blocks."""
    last = min(below, await feed.final(tx, chain_id)) - 1
    if last < 0:
        return 0
    known = await tx.known(chain_id, Span(0, last))
    gone = records.expirable(known.stored, last, await feed.unread(tx, chain_id), limit)
    if gone:
        for table in reversed(tx.schema.tables):
            for span in gone.spans:
                await tx.delete(table, chain_id, span)
        after = records.expired(known.stored, gone, tx.schema)
        await tx.remember(chain_id, known, after, known.retracted)
    return len(gone)


async def foldable(
    tx: SinkTransaction, chain_id: int, span: Span, keep: RangeSet, limit: int
) -> Span | None:
    """Return the heights of the records that `fold` would merge into those before them."""
    known = await tx.known(chain_id, span, limit)
    folded = records.folded(known.stored, span.last, keep, tx.schema)
    remaining = {(it.dataset, it.span.first) for it in folded}
    gone = [it for it in known.stored if (it.dataset, it.span.first) not in remaining]
    return records.hull(gone) if gone else None


async def request(tx: SinkTransaction, chain_id: int, wanted: Request) -> None:
    """Store a request; see `Sink.request`. Requires exclusive access to the requests."""
    requests.admit(wanted, tx.schema)
    before = await tx.requests(chain_id)
    await _replace_requests(tx, chain_id, before, requests.merged([*before, wanted]))


async def withdraw(tx: SinkTransaction, chain_id: int, span: Span) -> None:
    """Remove a span from the requests; see `Sink.withdraw`."""
    before = await tx.requests(chain_id)
    await _replace_requests(tx, chain_id, before, requests.without(before, span))


async def _replace_requests(
    tx: SinkTransaction, chain_id: int, before: list[Request], after: list[Request]
) -> None:
    if after != before:
        await tx.replace_requests(chain_id, after)


def _with_neighbours(span: Span) -> Span:
    return Span(max(span.first - 1, 0), min(span.last + 1, HIGHEST))


async def _tell_of_retraction(
    tx: SinkTransaction, each: Companion, chain_id: int, heights: RangeSet, fence: int
) -> None:
    for span in heights.spans:
        await each.retracted(_accompanied(tx), chain_id, span, fence)


def _accompanied(tx: SinkTransaction) -> CompanionTransaction:
    assert isinstance(tx, CompanionTransaction), "this database has no companions"
    return tx


async def _unfinal_hashes(
    tx: SinkTransaction, chain_id: int, known: RangeRecords, span: Span
) -> dict[int, bytes]:
    """Return the hashes of stored blocks that are not final, as far as they can be read."""
    part = Span(max(span.first, await feed.final(tx, chain_id) + 1), span.last)
    found: dict[int, bytes] = {}
    for anchor in (tx.schema[name] for name in known.anchors(tx.schema)):
        with suppress(Damaged), report_damage(anchor, part):
            columns = ("block_number", anchor.links.hash)
            rows = await tx.read(anchor, chain_id, part, columns)
            found |= zip(*(rows[name].to_pylist() for name in columns), strict=True)
    return found


async def _drop(
    tx: SinkTransaction, chain_id: int, known: RangeRecords, dropped: records.Dropped
) -> list[Stored]:
    """Delete the dropped rows, and return the records of the remaining ones."""
    surviving = await _surviving(tx, chain_id, known.stored, dropped)
    for each in reversed(tx.schema.tables):
        for span in (dropped.get(each.name, RangeSet()) & known.heights(each.name)).spans:
            await tx.delete(each, chain_id, span)
    return surviving


async def _surviving(
    tx: SinkTransaction, chain_id: int, stored: Iterable[Stored], dropped: records.Dropped
) -> list[Stored]:
    whole, parts = records.surviving(stored, dropped)
    return [*whole, *[await _cut(tx, chain_id, record, span) for record, span in parts]]


async def _cut(tx: SinkTransaction, chain_id: int, record: Stored, span: Span) -> Stored:
    """Return the record of a part of a range, computed from the stored rows."""
    if record.expired:
        return records.cut_expired(record, span)
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
    tx: SinkTransaction, anchor: Table, chain_id: int, known: RangeRecords, height: int, column: str
) -> bytes | None:
    """Return a hash of the stored block next to a range, from its record if possible."""
    for each in known.stored:
        if each.dataset == anchor.name and each.span.first <= height <= each.span.last:
            if column == anchor.links.hash and height == each.span.last:
                return each.last_hash if each.last_hash or not each.expired else None
            if column == anchor.links.parent and height == each.span.first:
                return each.parent_hash if each.parent_hash or not each.expired else None
            return await _hash(tx, anchor, chain_id, height, column)
    return None


async def _hash(
    tx: SinkTransaction, anchor: Table, chain_id: int, height: int, column: str
) -> bytes | None:
    found = await tx.read(anchor, chain_id, Span(height, height), [column])
    return found[column][0].as_py() if found.num_rows else None
