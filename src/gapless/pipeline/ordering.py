"""Many at once, one after the other: fetching in parallel, consuming in order.

Work is handed out in ascending order to whoever is free, and results wait for those before them.
No more are under way or waiting than `ahead` says, whatever the length of the range: that is what
bounds memory. However it ends, no task is left behind.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from typing import Any, TypeVar

from gapless.core.ranges import Span
from gapless.pipeline.stop import Stop

T = TypeVar("T")


async def in_order(
    fetch: Callable[[Span], Coroutine[Any, Any, T]],
    spans: Iterable[Span],
    ahead: Callable[[], int],
    stop: Stop,
) -> AsyncGenerator[T, None]:
    """What `fetch` returns for each span, in their order; close it with `aclosing`.

    An error comes when its turn comes, after everything before it. `spans` is asked for the next
    one only when there is room, so that it can follow what was learned meanwhile. Once a stop is
    requested nothing new begins, and the results end with those that arrive within its grace.
    """
    under_way: deque[asyncio.Task[T]] = deque()
    left = iter(spans)
    more = True
    try:
        while more or under_way:
            while more and len(under_way) < ahead():
                span = None if stop.requested else next(left, None)
                if span is None:
                    more = False
                else:
                    task = asyncio.create_task(fetch(span), name=f"gapless-fetch-{span}")
                    under_way.append(task)
            if under_way:
                if not await stop.arrival(under_way[0]):
                    return
                yield under_way.popleft().result()
    finally:
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)


def cells(span: Span, batch: int, grid: int | None, unit: Callable[[], int]) -> Iterable[Span]:
    """Cuts a span into units that neither cross the end of a batch nor leave a crumb before it."""
    first = span.first
    while first <= span.last:
        behind = (first - first % grid + grid) if grid else first + batch
        end = min(span.last, first + batch - 1, behind - 1)
        while first <= end:
            left = end - first + 1
            parts = -(-left // max(1, unit()))
            last = first + -(-left // parts) - 1
            yield Span(first, last)
            first = last + 1
