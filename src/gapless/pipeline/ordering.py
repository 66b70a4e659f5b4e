"""Fetch in parallel, consume in order.

Fetches start in ascending order, and each result waits for those before it. At most `ahead()`
results are being fetched or waiting, however long the range is; this bounds memory. No task is left
running at the end, even after an error.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from typing import Any, TypeVar

from gapless.core.ranges import Span
from gapless.pipeline.stop import StopSignal

T = TypeVar("T")


async def in_order(
    fetch: Callable[[Span], Coroutine[Any, Any, T]],
    spans: Iterable[Span],
    ahead: Callable[[], int],
    stop: StopSignal,
) -> AsyncGenerator[T, None]:
    """Yield what `fetch` returns for each span, in order; close it with `aclosing`.

    An error is raised in its turn, after all results before it. The next span is taken only when
    there is room, so that `spans` can adapt to what was learned in the meantime. Once a stop is
    requested, no new fetch starts, and only the results that arrive within the grace period are
    yielded.
    """
    in_flight: deque[asyncio.Task[T]] = deque()
    remaining = iter(spans)
    more = True
    try:
        while more or in_flight:
            while more and len(in_flight) < ahead():
                span = None if stop.requested else next(remaining, None)
                if span is None:
                    more = False
                else:
                    task = asyncio.create_task(fetch(span), name=f"gapless-fetch-{span}")
                    in_flight.append(task)
            if in_flight:
                if not await stop.arrival(in_flight[0]):
                    return
                yield in_flight.popleft().result()
    finally:
        for task in in_flight:
            task.cancel()
        await asyncio.gather(*in_flight, return_exceptions=True)


def cells(span: Span, batch: int, grid: int | None, unit: Callable[[], int]) -> Iterable[Span]:
    """Cut a span into units of similar size that do not cross the end of a batch."""
    first = span.first
    while first <= span.last:
        next_cell = (first - first % grid + grid) if grid else first + batch
        end = min(span.last, first + batch - 1, next_cell - 1)
        while first <= end:
            left = end - first + 1
            parts = -(-left // max(1, unit()))
            last = first + -(-left // parts) - 1
            yield Span(first, last)
            first = last + 1
