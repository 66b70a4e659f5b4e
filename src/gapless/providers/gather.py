"""Run several requests at once, as a single operation."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

T = TypeVar("T")


async def gather_all(waiting: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Await all and return their results in order; after an error or cancel, none keeps running."""
    if len(waiting) == 1:
        return [await waiting[0]]
    tasks = [asyncio.ensure_future(each) for each in waiting]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
