"""Fences only rise, and rise above those that a sink has seen from an earlier ledger."""

from __future__ import annotations

import asyncio

from gapless.ledger import Ledger
from tests.support import claim, claim_one, create


async def test_the_next_fence_is_above_the_requested_one(ledger: Ledger) -> None:
    await create(ledger, partitions=3, max_concurrent_runs=9)
    before = await claim_one(ledger)
    await ledger.raise_fence(1_000_000)
    assert (await claim_one(ledger)).fence > 1_000_000 > before.fence
    await ledger.raise_fence(2**53)
    assert (await claim_one(ledger)).fence == 2**53 + 1


async def test_a_fresh_ledger_can_start_high(ledger: Ledger) -> None:
    await ledger.raise_fence(41)
    await create(ledger)
    assert (await claim_one(ledger)).fence == 42


async def test_a_fence_never_falls(ledger: Ledger) -> None:
    await create(ledger, partitions=3, max_concurrent_runs=9)
    await ledger.raise_fence(100)
    first = await claim_one(ledger)
    for lower in (0, 50, 100, first.fence):
        await ledger.raise_fence(lower)
    second = await claim_one(ledger)
    assert second.fence == first.fence + 1


async def test_no_fence_is_drawn_twice_while_it_rises(ledger: Ledger, other: Ledger) -> None:
    """Each step is barely above those drawn meanwhile: a careless rise would set it back."""
    await create(ledger, partitions=2000, max_concurrent_runs=2000)
    fences: list[int] = []
    done = asyncio.Event()

    async def draw() -> None:
        for _ in range(40):
            fences.extend(each.fence for each in await claim(ledger, 5))
        done.set()

    async def rise() -> None:
        while not done.is_set():
            above = max(fences, default=0) + 3
            await other.raise_fence(above)
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        group.create_task(draw())
        group.create_task(draw())
        group.create_task(rise())
    assert len(fences) == len(set(fences)) == 400
