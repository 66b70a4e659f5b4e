"""The lane follows the tasks, and decides who gets a semaphore next."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from random import Random
from typing import Any

import pytest

from gapless.lanes import Lane, LaneSemaphore, current_lane, in_lane


def started(lane: Lane, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    with in_lane(lane):
        return asyncio.create_task(coroutine)


async def test_tasks_inherit_the_lane_in_which_they_were_started() -> None:
    async def look() -> Lane:
        return current_lane()

    assert current_lane() is Lane.ORDINARY
    with in_lane(Lane.PRIORITY):
        inside = asyncio.create_task(look())
        with in_lane(Lane.ORDINARY):
            assert current_lane() is Lane.ORDINARY
        assert {await inside, await look()} == {Lane.PRIORITY}
    assert current_lane() is Lane.ORDINARY


async def test_the_priority_lane_acquires_a_semaphore_first() -> None:
    semaphore, seen = LaneSemaphore(1), list[str]()

    async def use(name: str) -> None:
        async with semaphore:
            seen.append(name)
            await asyncio.sleep(0)

    await semaphore.acquire()
    names = ("a", "b", "HEAD", "c", "NEXT")
    tasks = [
        started(Lane.PRIORITY if name.isupper() else Lane.ORDINARY, use(name)) for name in names
    ]
    await asyncio.sleep(0)
    semaphore.release()
    await asyncio.gather(*tasks)
    assert seen == ["HEAD", "NEXT", "a", "b", "c"]


@pytest.mark.parametrize("seed", range(20))
async def test_a_task_cancelled_at_any_moment_does_not_keep_the_semaphore(seed: int) -> None:
    chance, semaphore, inside = Random(seed), LaneSemaphore(2), 0

    async def use() -> None:
        nonlocal inside
        async with semaphore:
            inside += 1
            assert inside <= 2
            try:
                await asyncio.sleep(0)
            finally:
                inside -= 1

    tasks = [started(chance.choice(list(Lane)), use()) for _ in range(20)]
    for _ in range(12):
        await asyncio.sleep(0)
        chance.choice(tasks).cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    async with asyncio.timeout(1), semaphore, semaphore:
        pass
