"""What a sink should hold: determined by its requests, not by what is stored.

Judged by its own rows, a table that ends early looks complete. So each fetch records its request in
the sink before it writes, and every table is compared with the requests that name it. Blocks may
extend further than other tables, because every request includes them. For a sink without recorded
requests, the expected range of a table is the one that its rows span.
"""

from __future__ import annotations

from collections.abc import Sequence

from gapless.core.heights import HIGHEST
from gapless.core.ranges import RangeSet, Span
from gapless.schema import Table
from gapless.sinks import Request, Stored
from gapless.sinks.requests import final_height


def extent(records: Sequence[Stored], requests: Sequence[Request]) -> Span | None:
    """Return the span of all stored or requested blocks; None if there are none."""
    spans = [*(it.span for it in records), *(it.span for it in requests)]
    if not spans:
        return None
    return Span(min(it.first for it in spans), max(it.last for it in spans))


def expected(
    tables: Sequence[Table],
    records: Sequence[Stored],
    requests: Sequence[Request],
    span: Span | None,
) -> dict[str, RangeSet]:
    """Return the heights that each table should hold, within a span if one is given."""
    found: dict[str, RangeSet] = {}
    for table in tables:
        asked = RangeSet(it.span for it in requests if table.name in it.datasets)
        stored = [it.span for it in records if it.dataset == table.name]
        if not asked and not stored and table is not table.anchor:
            continue
        if span is not None:
            whole = RangeSet.of(span)
            found[table.name] = whole & asked if asked and table is not table.anchor else whole
        elif asked:
            found[table.name] = asked
        else:
            found[table.name] = RangeSet(
                [(min(it.first for it in stored), max(it.last for it in stored))] if stored else []
            )
    return found


def above(requests: Sequence[Request], stored: RangeSet) -> RangeSet:
    """Return the stored blocks above every request.

    A fetch requests what it stores, and so does a follow once a block is final. So these are blocks
    that were not final when a follow stored them.
    """
    if not requests:
        return RangeSet()
    return stored & RangeSet.of((final_height(requests) + 1, HIGHEST))
