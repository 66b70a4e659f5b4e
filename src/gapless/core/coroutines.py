"""Running coroutines that never suspend as plain functions.

A protocol is written once, as coroutines over a transaction. With a database on the network, they
wait for its answers; with an embedded one, a whole transaction is one call on its thread.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


def run_sync(coroutine: Awaitable[T]) -> T:
    """Runs a coroutine that never suspends."""
    step = coroutine.__await__()
    try:
        next(step)
    except StopIteration as end:
        result: T = end.value
        return result
    raise RuntimeError("a transaction on a thread must not wait for anything")
