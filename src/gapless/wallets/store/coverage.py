"""The ranges that were scanned for an address set: fences, cuts and folding. Pure.

Scans of a set are disjoint. Neighbours become one when the second continues the first on the same
branch, with the same source and proofs. The result has the higher fence, so an older run is refused
in all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

from msgspec.structs import replace

from gapless.core.errors import FencedOff
from gapless.core.ranges import RangeSet, Span
from gapless.sinks.records import Retracted
from gapless.wallets.records import Scan


def refuse_older(
    scans: Iterable[Scan], retracted: Iterable[Retracted], span: Span, fence: int
) -> None:
    """Raise `FencedOff` if a higher fence has scanned or retracted any block of the range."""
    scanned = [(it.fence, it.span) for it in scans if it.fence > fence and it.span.overlap(span)]
    removed = [(it.fence, it.span) for it in retracted if it.fence > fence]
    if newer := [*scanned, *((each, it) for each, it in removed if it.overlap(span))]:
        inside = RangeSet.of(span)
        heights = RangeSet(it for _, it in newer) & inside
        raise FencedOff(
            f"movements of blocks {', '.join(map(str, heights.spans))} were changed under fence"
            f" {max(each for each, _ in newer)}, newer than {fence}",
            stored=RangeSet(it for _, it in scanned) & inside,
        )


def cut(scans: Iterable[Scan], gone: RangeSet) -> list[Scan]:
    """Return what is left of scans without some heights. Hashes at the cuts are not known."""
    return [
        replace(
            scan,
            span=span,
            parent_hash=scan.parent_hash if span.first == scan.span.first else b"",
            last_hash=scan.last_hash if span.last == scan.span.last else b"",
        )
        for scan in scans
        for span in (RangeSet.of(scan.span) - gone).spans
    ]


def folded(scans: Iterable[Scan]) -> list[Scan]:
    """Return the scans of one set in order, joined where one continues the other."""
    found: list[Scan] = []
    for scan in sorted(scans, key=lambda it: it.span):
        if found and _continues(found[-1], scan):
            before = found.pop()
            scan = replace(  # noqa: PLW2901
                scan,
                span=Span(before.span.first, scan.span.last),
                parent_hash=before.parent_hash,
                fence=max(before.fence, scan.fence),
            )
        found.append(scan)
    return found


def _continues(scan: Scan, after: Scan) -> bool:
    def attributes(it: Scan) -> tuple[object, ...]:
        return it.source, it.proven, it.unproven

    is_linked = scan.last_hash == after.parent_hash != b""
    is_next = scan.span.last + 1 == after.span.first
    return is_next and is_linked and attributes(scan) == attributes(after)


def retracted_too(known: Sequence[Retracted], span: Span, fence: int) -> list[Retracted]:
    """Return the retractions after one more, which does not lower the fence of any height."""
    lower = RangeSet.of(span) - RangeSet(it.span for it in known if it.fence > fence)
    left = without(known, lower)
    return [*left, *(Retracted(each, fence) for each in lower.spans)]


def without(known: Iterable[Retracted], heights: RangeSet) -> list[Retracted]:
    """Return the retractions of all other heights."""
    return [*chain.from_iterable(_pieces(it, heights) for it in known)]


def _pieces(it: Retracted, heights: RangeSet) -> Iterable[Retracted]:
    return (Retracted(span, it.fence) for span in (RangeSet.of(it.span) - heights).spans)
