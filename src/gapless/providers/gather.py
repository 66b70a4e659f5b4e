"""Several requests at once, as if they were one."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

T = TypeVar("T")


async def gather_all(waiting: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Awaits all, in their order; if one fails or we are cancelled, none is left behind."""
    if len(waiting) == 1:
        return [await waiting[0]]
    tasks = [asyncio.ensure_future(each) for each in waiting]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
