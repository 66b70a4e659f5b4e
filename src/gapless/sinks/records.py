"""The range records of a sink, and how writes and retractions change them. Pure.

At each height, the record of the anchor table has the highest fence: every batch contains the
anchor rows of its blocks, and a retraction removes all tables. So that record alone decides who may
write. All other rows of a height were written under the same fence or a lower one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import pyarrow as pa

from gapless.core.errors import BrokenSeam, FencedOff
from gapless.core.heights import HIGHEST
from gapless.core.ranges import RangeSet, Span
from gapless.schema import Schema, Table
from gapless.schema.digest import MODULUS, digest
from gapless.sinks.sink import Batch, Stored

Dropped = Mapping[str, RangeSet]

FOLDED_BLOCKS = 1000
"""Folding never joins the records before and after a multiple of this height.

To change a part of a range, the sink reads all rows of its record, and if a row is damaged, the
whole record is in doubt. So a folded record is no longer than that of a chunk of the default size.
"""


@dataclass(frozen=True)
class Retracted:
    """A removed range. Only the same or a higher fence may write it again."""

    span: Span
    fence: int


@dataclass(frozen=True)
class RangeRecords:
    """The records of a chain that overlap or touch a range."""

    stored: tuple[Stored, ...]
    retracted: tuple[Retracted, ...]

    def anchors(self, schema: Schema) -> set[str]:
        """Return the names of the stored anchor tables."""
        return {it.dataset for it in self.stored if schema.is_anchor(it.dataset)}

    def heights(self, dataset: str) -> RangeSet:
        """Return the heights at which a dataset has rows."""
        return RangeSet(it.span for it in self.stored if it.dataset == dataset and not it.expired)

    def hold(self, batch: Batch) -> bool:
        """Whether all tables of a batch have rows of its whole range."""
        return not any(RangeSet.of(batch.span) - self.heights(name) for name in batch.tables)

    def hold_blocks(self, span: Span, schema: Schema) -> bool:
        """Whether any block of a range has rows."""
        return any(self.heights(name) & RangeSet.of(span) for name in self.anchors(schema))

    def of(self, datasets: Collection[str]) -> list[Stored]:
        """Return the records of some datasets."""
        return [it for it in self.stored if it.dataset in datasets]


def refuse_older(
    known: RangeRecords, span: Span, fence: int, wanted: Collection[str], schema: Schema
) -> None:
    """Raise `FencedOff` if a higher fence has written or retracted any block of the range."""
    latest: list[Stored | Retracted] = [it for it in known.stored if schema.is_anchor(it.dataset)]
    latest += known.retracted
    touched = [it for it in latest if it.fence > fence and it.span.overlap(span)]
    if touched:
        newest = max(each.fence for each in touched)
        newer = RangeSet(each.span for each in touched) & RangeSet.of(span)
        raise FencedOff(
            f"blocks {_listed(newer)} were changed under fence {newest}, newer than {fence}",
            stored=reduce(RangeSet.__and__, (_written(known, it, fence) for it in wanted), newer)
            if wanted
            else RangeSet(),
        )


def _written(known: RangeRecords, dataset: str, above: int) -> RangeSet:
    return RangeSet(it.span for it in known.stored if it.dataset == dataset and it.fence > above)


def refuse_broken(batch: Batch, anchor: Table, before: bytes | None, after: bytes | None) -> None:
    """Raise `BrokenSeam` unless the batch links to its stored neighbours.

    `before` is the hash of the block before the batch, `after` the parent hash of the block after
    it; None if that block is not stored.
    """
    parent, last = _ends(batch, anchor)
    if before not in (None, parent):
        raise _broken(batch, batch.span.first - 1)
    if after not in (None, last):
        raise _broken(batch, batch.span.last + 1)


def _broken(batch: Batch, height: int) -> BrokenSeam:
    return BrokenSeam(
        f"the stored block {height:,} of chain {batch.chain_id} is on a different branch than "
        f"blocks {batch.span}",
        height=height,
    )


def _ends(batch: Batch, anchor: Table) -> tuple[bytes, bytes]:
    """Return the parent hash of the first block and the hash of the last one."""
    blocks = batch.tables[anchor.name]
    return blocks[anchor.links.parent][0].as_py(), blocks[anchor.links.hash][-1].as_py()


def written(
    batch: Batch,
    table: Table,
    rows: pa.Table,
    fence: int,
    digest_of: Callable[[Table, pa.Table], int] = digest,
) -> Stored:
    """Return the record of the rows that a batch writes to a table."""
    parent, last = _ends(batch, table.anchor)
    return Stored(
        dataset=table.name,
        span=batch.span,
        fence=fence,
        rows=rows.num_rows,
        digest=digest_of(table, rows),
        proven=batch.proven,
        unproven=batch.unproven,
        parent_hash=parent,
        last_hash=last,
    )


def surviving(
    stored: Iterable[Stored], dropped: Dropped
) -> tuple[list[Stored], list[tuple[Stored, Span]]]:
    """Split records into those that stay whole and the remaining spans of the others.

    The row count and digest of a remaining span must be computed again.
    """
    whole: list[Stored] = []
    parts: list[tuple[Stored, Span]] = []
    for record in stored:
        left = RangeSet.of(record.span) - dropped.get(record.dataset, RangeSet())
        if left.spans == (record.span,):
            whole.append(record)
        else:
            parts += ((record, span) for span in left.spans)
    return whole, parts


def cut_expired(record: Stored, span: Span) -> Stored:
    """Return the record of a part of an expired range; hashes within it are not known."""
    return replace(
        record,
        span=span,
        parent_hash=record.parent_hash if span.first == record.span.first else b"",
        last_hash=record.last_hash if span.last == record.span.last else b"",
    )


def retractions(known: RangeRecords, span: Span, fence: int | None) -> list[Retracted]:
    """Return the retracted ranges after a range was written (`fence` is None) or retracted."""
    found = [
        Retracted(left, each.fence)
        for each in known.retracted
        for left in (RangeSet.of(each.span) - RangeSet.of(span)).spans
    ]
    if fence is not None:
        found.append(Retracted(span, fence))
    fences = sorted({each.fence for each in found})
    return [
        Retracted(joined, each)
        for each in fences
        for joined in RangeSet(it.span for it in found if it.fence == each).spans
    ]


def hull(seen: Sequence[Stored]) -> Span:
    """Return the span from the first to the last block of the records, including gaps."""
    return Span(min(it.span.first for it in seen), max(it.span.last for it in seen))


def refuse_changed(stored: Iterable[Stored], seen: Iterable[Stored], schema: Schema) -> None:
    """Raise `FencedOff` if the stored records differ from those seen, apart from their proofs."""

    def unproven(found: Iterable[Stored]) -> list[Stored]:
        bare = (replace(it, proven=frozenset(), unproven=frozenset()) for it in found)
        return merged(bare, schema)

    now, then = unproven(stored), unproven(seen)
    if now != then:
        changed = RangeSet(it.span for it in {*now} ^ {*then})
        raise FencedOff(
            f"blocks {_listed(changed)} have changed since they were checked", stored=RangeSet()
        )


def endorsed(
    stored: Iterable[Stored], proven: frozenset[str], unproven: frozenset[str]
) -> list[Stored]:
    """Return the records with these proofs added."""
    return [
        replace(
            it,
            proven=it.proven | proven,
            unproven=(it.unproven | unproven) - (it.proven | proven),
        )
        for it in stored
    ]


def merged(stored: Iterable[Stored], schema: Schema) -> list[Stored]:
    """Return the records in order. Neighbours with equal fence and proofs become one record."""
    found: list[Stored] = []
    for record in sorted(stored, key=lambda it: (schema.order(it.dataset), it.span)):
        if found and _continues(found[-1], record) and found[-1].fence == record.fence:
            found[-1] = _joined(found[-1], record)
        else:
            found.append(record)
    return found


def folded(stored: Iterable[Stored], last: int, keep: RangeSet, schema: Schema) -> list[Stored]:
    """Returns the records after folding those that end at or before `last`; see `Sink.fold`.

    Records of other tables are folded only within one record of the anchor table, whose fence
    therefore stays the highest at each height.
    """

    def is_free(record: Stored) -> bool:
        known = record.dataset in schema
        return known and record.span.last <= last and not keep.overlaps(record.span)

    found: dict[str, list[Stored]] = {}
    for record in sorted(stored, key=lambda it: (schema.order(it.dataset), it.span)):
        here = found.setdefault(record.dataset, [])
        if here and is_free(here[-1]) and is_free(record) and _is_linked(here[-1], record):
            joined, anchor = _joined(here[-1], record), schema[record.dataset].anchor.name
            if anchor == record.dataset or _is_within_one(joined.span, found.get(anchor, [])):
                here[-1] = joined
                continue
        here.append(record)
    return [record for here in found.values() for record in here]


def expirable(stored: Iterable[Stored], last: int, keep: RangeSet, limit: int) -> RangeSet:
    """Return the lowest heights up to `last` that may expire; see `Sink.expire`.

    Where records of several tables overlap, they expire together or not at all, so that none is
    split and no row is left without its block.
    """
    groups: list[Span] = []
    for span in sorted(it.span for it in stored if not it.expired):
        if groups and span.first <= groups[-1].last:
            groups[-1] = Span(groups[-1].first, max(groups[-1].last, span.last))
        else:
            groups.append(span)
    found = RangeSet()
    for group in groups:
        if group.last > last or len(found) >= limit:
            break
        if not keep.overlaps(group):
            found |= RangeSet.of(group)
    return found


def expired(stored: Iterable[Stored], gone: RangeSet, schema: Schema) -> list[Stored]:
    """Return the records after the rows of some heights were deleted.

    Expired neighbours become one record, however long: it has no rows that would have to be read.
    """
    marked = [
        replace(it, rows=0, digest=0, expired=True) if gone.overlaps(it.span) else it
        for it in stored
    ]
    live = RangeSet(it.span for it in marked if not it.expired)
    return folded(marked, HIGHEST, live, schema)


def _is_linked(record: Stored, after: Stored) -> bool:
    """Whether two records may be folded into one, whatever their fences are."""
    cells = record.span.first // FOLDED_BLOCKS, after.span.last // FOLDED_BLOCKS
    linked = record.last_hash == after.parent_hash != b""
    return _continues(record, after) and linked and (record.expired or cells[0] == cells[1])


def _is_within_one(span: Span, records: Sequence[Stored]) -> bool:
    """Whether one of the records, which ascend, covers the span."""
    at = bisect_right(records, span.first, key=lambda it: it.span.first) - 1
    return at >= 0 and span.last <= records[at].span.last


def _continues(record: Stored, after: Stored) -> bool:
    def attributes(it: Stored) -> tuple[object, ...]:
        return it.dataset, it.expired, it.proven, it.unproven

    return record.span.last + 1 == after.span.first and attributes(record) == attributes(after)


def _joined(record: Stored, after: Stored) -> Stored:
    return replace(
        record,
        span=Span(record.span.first, after.span.last),
        fence=max(record.fence, after.fence),
        rows=record.rows + after.rows,
        digest=(record.digest + after.digest) % MODULUS,
        last_hash=after.last_hash,
    )


def _listed(heights: RangeSet) -> str:
    return ", ".join(map(str, heights.spans))
