"""What a stream lacks, and what it must take back. Pure: nothing is read or written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gapless.core.ranges import HIGHEST, RangeSet, Span
from gapless.publishers.publisher import Link, PublishedBlock, Record
from gapless.sinks.changes import Change

NEWEST = 20
"""Blocks this close to the highest one are published before older ones."""


def next_span(missing: RangeSet, top: int) -> Span | None:
    """The blocks to publish next: the newest ones first, otherwise the lowest, both ascending."""
    recent = missing & RangeSet.of((max(0, top - NEWEST + 1), HIGHEST))
    spans = recent.spans or missing.spans
    return spans[0] if spans else None


def diverged(
    published: Mapping[int, Link], stored: Mapping[int, Link], gone: RangeSet
) -> dict[int, bytes]:
    """The hashes of published blocks that are not on the branch that the sink holds, by height.

    A block that the sink does not hold is still good, unless it is in `gone`, is not linked to a
    stored neighbour, or descends from a block that is not good.
    """
    found: dict[int, bytes] = {}
    for height in sorted(published):
        mine, theirs = published[height], stored.get(height)
        below, above = stored.get(height - 1), stored.get(height + 1)
        if theirs is not None:
            is_other = theirs.hash != mine.hash
        else:
            is_other = (
                height in gone
                or (below is not None and below.hash != mine.parent)
                or (above is not None and above.parent != mine.hash)
                or found.get(height - 1) == mine.parent
            )
        if is_other:
            found[height] = mine.hash
    return found


def removed(record: Record, changes: Iterable[Change]) -> dict[int, bytes | None]:
    """Published blocks without a recorded hash that changes have removed, by height."""
    found: dict[int, bytes | None] = {}
    for change in changes:
        gone = RangeSet.of(change.span) if change.retracted else RangeSet.from_members(change.old)
        for height in gone & record.heights:
            if height not in record.links:
                found[height] = change.old.get(height)
    return found


def withdrawals(found: Mapping[int, bytes | None]) -> Sequence[PublishedBlock]:
    """The newest block first, so that a consumer can undo one after the other."""
    return [PublishedBlock(height, found[height]) for height in sorted(found, reverse=True)]
