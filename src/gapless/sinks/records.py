"""The records of a sink: what is known of ranges, and what becomes of it. Pure.

For each height, the record of the anchor table has the highest fence, because every batch brings
its blocks and a retraction takes all tables: so that record alone decides who may write. What else
is stored of a height was written under the same fence or under a lower one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import pyarrow as pa

from gapless.core.errors import BrokenSeam, FencedOff
from gapless.core.ranges import RangeSet, Span
from gapless.schema import Schema, Table
from gapless.schema.digest import MODULUS, digest
from gapless.sinks.sink import Batch, Stored

Dropped = Mapping[str, RangeSet]


@dataclass(frozen=True)
class Retracted:
    """A range that was removed; only a fence as high may write it again."""

    span: Span
    fence: int


@dataclass(frozen=True)
class RangeRecords:
    """The records of a chain that overlap or touch a range."""

    stored: tuple[Stored, ...]
    retracted: tuple[Retracted, ...]

    def anchors(self, schema: Schema) -> set[str]:
        """The anchor tables among the stored ones."""
        return {it.dataset for it in self.stored if schema.is_anchor(it.dataset)}

    def of(self, datasets: Collection[str]) -> list[Stored]:
        """The records of some datasets."""
        return [it for it in self.stored if it.dataset in datasets]


def refuse_older(
    known: RangeRecords, span: Span, fence: int, wanted: Collection[str], schema: Schema
) -> None:
    """Raises `FencedOff` if a higher fence has touched any of the range."""
    latest: list[Stored | Retracted] = [it for it in known.stored if schema.is_anchor(it.dataset)]
    latest += known.retracted
    touched = [it for it in latest if it.fence > fence and it.span.overlap(span)]
    if touched:
        newest = max(each.fence for each in touched)
        newer = RangeSet(each.span for each in touched) & RangeSet.of(span)
        raise FencedOff(
            f"blocks {_listed(newer)} were touched under fence {newest}, after fence {fence}",
            stored=reduce(RangeSet.__and__, (_written(known, it, fence) for it in wanted), newer)
            if wanted
            else RangeSet(),
        )


def _written(known: RangeRecords, dataset: str, above: int) -> RangeSet:
    return RangeSet(it.span for it in known.stored if it.dataset == dataset and it.fence > above)


def refuse_broken(batch: Batch, anchor: Table, before: bytes | None, after: bytes | None) -> None:
    """Raises `BrokenSeam` unless the hash of the block before, and the parent hash of the one
    after, fit; None where no block is stored."""
    parent, last = _ends(batch, anchor)
    if before not in (None, parent):
        raise _broken(batch, batch.span.first - 1)
    if after not in (None, last):
        raise _broken(batch, batch.span.last + 1)


def _broken(batch: Batch, height: int) -> BrokenSeam:
    return BrokenSeam(
        f"the stored block {height:,} of chain {batch.chain_id} is of another branch than "
        f"{batch.span}",
        height=height,
    )


def _ends(batch: Batch, anchor: Table) -> tuple[bytes, bytes]:
    """The parent hash of the first block, and the hash of the last."""
    blocks = batch.tables[anchor.name]
    return blocks[anchor.links.parent][0].as_py(), blocks[anchor.links.hash][-1].as_py()


def written(
    batch: Batch,
    table: Table,
    rows: pa.Table,
    fence: int,
    digest_of: Callable[[Table, pa.Table], int] = digest,
) -> Stored:
    """The record of what a batch brings to a table."""
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
    """The records that nothing is dropped of, and what is left of others: to be measured anew."""
    whole: list[Stored] = []
    parts: list[tuple[Stored, Span]] = []
    for record in stored:
        left = RangeSet.of(record.span) - dropped.get(record.dataset, RangeSet())
        if left.spans == (record.span,):
            whole.append(record)
        else:
            parts += ((record, span) for span in left.spans)
    return whole, parts


def retractions(known: RangeRecords, span: Span, fence: int | None) -> list[Retracted]:
    """What is retracted once a range is written (None) or retracted under a fence."""
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
    """From the first block of the records to the last, with the gaps between them."""
    return Span(min(it.span.first for it in seen), max(it.span.last for it in seen))


def refuse_changed(stored: Iterable[Stored], seen: Iterable[Stored], schema: Schema) -> None:
    """Raises `FencedOff` unless the stored records are those that were seen, whatever is proven."""

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
    """The records with these proofs in addition."""
    return [
        replace(
            it,
            proven=it.proven | proven,
            unproven=(it.unproven | unproven) - (it.proven | proven),
        )
        for it in stored
    ]


def merged(stored: Iterable[Stored], schema: Schema) -> list[Stored]:
    """The records in order, neighbours of one fence and the same proofs as one."""
    found: list[Stored] = []
    for record in sorted(stored, key=lambda it: (schema.order(it.dataset), it.span)):
        if found and _continues(found[-1], record):
            found[-1] = replace(
                found[-1],
                span=Span(found[-1].span.first, record.span.last),
                rows=found[-1].rows + record.rows,
                digest=(found[-1].digest + record.digest) % MODULUS,
                last_hash=record.last_hash,
            )
        else:
            found.append(record)
    return found


def _continues(record: Stored, after: Stored) -> bool:
    def nature(it: Stored) -> tuple[object, ...]:
        return it.dataset, it.fence, it.proven, it.unproven

    return record.span.last + 1 == after.span.first and nature(record) == nature(after)


def _listed(heights: RangeSet) -> str:
    return ", ".join(map(str, heights.spans))
