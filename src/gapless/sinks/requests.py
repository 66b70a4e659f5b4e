"""The requests of a sink: how they are combined, and how databases store them. Pure.

Requests that differ only in their span are merged into as few spans as possible, so that requesting
the same blocks again, or the blocks after them, does not lengthen the list.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from gapless.core.anchors import Anchor
from gapless.core.errors import SinkUnusable
from gapless.core.heights import HIGHEST
from gapless.core.ranges import RangeSet, Span
from gapless.schema import Schema
from gapless.sinks.sink import Request

TABLE = "_gapless_requests"
COLUMNS = "first, last, datasets, checks, anchors"

_CREATE = """
CREATE TABLE IF NOT EXISTS {place} (
  chain_id {number} NOT NULL,
  first {number} NOT NULL,
  last {number} NOT NULL,
  datasets TEXT NOT NULL,  -- names of tables, separated by spaces
  checks TEXT NOT NULL,    -- names of checks, separated by spaces
  anchors TEXT NOT NULL    -- as height:hash, separated by spaces
)
"""

Row = tuple[int, int, str, str, str]


def create(place: str, number: str) -> str:
    """Return `CREATE TABLE` with the database's type for numbers."""
    return _CREATE.format(place=place, number=number)


def admit(wanted: Request, schema: Schema) -> None:
    """Raise `ValueError` for a request that no sink can fulfil."""
    first, last = wanted.span
    if not 0 <= first <= last <= HIGHEST:
        raise ValueError(f"`{wanted.span}` is not a range of blocks")
    unknown = wanted.datasets - schema.keys()
    if unknown or not wanted.datasets:
        raise ValueError(f"a request must name known tables, not {sorted(unknown) or 'nothing'}")
    if any(len(check.split()) != 1 for check in wanted.checks):
        raise ValueError(f"the name of a check must be one word: {sorted(wanted.checks)}")


def merged(requests: Iterable[Request]) -> list[Request]:
    """Return the requests in order, merged where they touch and differ only in their span."""
    spans: defaultdict[tuple[frozenset[Any], ...], list[Span]] = defaultdict(list)
    for each in requests:
        spans[each.datasets, each.checks, each.anchors].append(each.span)
    joined = [
        Request(span, *rest) for rest, found in spans.items() for span in RangeSet(found).spans
    ]
    return sorted(joined, key=to_row)


def final_height(requests: Iterable[Request]) -> int:
    """Return the highest final block, as far as a sink can know; -1 if it knows of none.

    Only final blocks are requested: a fetch requests what it is about to store, and a follow what
    has become final.
    """
    return max((each.span.last for each in requests), default=-1)


def without(requests: Iterable[Request], span: Span) -> list[Request]:
    """Return the requests without the blocks and the anchors of a span."""
    return merged(
        Request(
            left,
            each.datasets,
            each.checks,
            frozenset(it for it in each.anchors if not span.first <= it.height <= span.last),
        )
        for each in requests
        for left in (RangeSet.of(each.span) - RangeSet.of(span)).spans
    )


def to_row(request: Request) -> Row:
    """Return the request as a row of the table, without `chain_id`."""
    return (
        *request.span,
        " ".join(sorted(request.datasets)),
        " ".join(sorted(request.checks)),
        " ".join(f"{height}:{hash_.hex()}" for height, hash_ in sorted(request.anchors)),
    )


def from_row(row: Sequence[Any]) -> Request:
    """Return the request of a row that `to_row` made."""
    first, last, datasets, checks, anchors = row
    try:
        pairs = [each.split(":") for each in anchors.split()]
        known = frozenset(Anchor(int(height), bytes.fromhex(hash_)) for height, hash_ in pairs)
    except ValueError as error:
        raise SinkUnusable(
            f"the sink's request for blocks {first}-{last} cannot be read: {error}",
            hint=f"restore the sink, or delete that row of `{TABLE}` and fetch the blocks again",
        ) from error
    return Request(
        span=Span(first, last),
        datasets=frozenset(datasets.split()),
        checks=frozenset(checks.split()),
        anchors=known,
    )
