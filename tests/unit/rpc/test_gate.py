"""First come, first served; the limit holds; a cancelled caller leaves no trace."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from gapless.providers.gate import Gate


async def test_callers_are_served_in_order_and_within_the_limit() -> None:
    gate, entered, most = Gate(lambda: 3), [], 0

    async def visit(number: int) -> None:
        nonlocal most
        async with gate:
            entered.append(number)
            most = max(most, gate.inside)
            for _ in range(number % 4):
                await asyncio.sleep(0)

    await asyncio.gather(*(visit(number) for number in range(40)))
    assert entered == [*range(40)]
    assert most == 3
    assert (gate.inside, gate.waiting) == (0, 0)


async def test_a_changing_limit() -> None:
    limit = 1
    gate, leave = Gate(lambda: limit), asyncio.Event()

    async def visit() -> None:
        async with gate:
            await leave.wait()

    visits = [asyncio.create_task(visit()) for _ in range(5)]
    await asyncio.sleep(0)
    assert (gate.inside, gate.waiting) == (1, 4)
    limit = 3
    gate.admit()
    assert (gate.inside, gate.waiting) == (3, 2)
    limit = 1
    leave.set()
    await asyncio.gather(*visits)
    assert (gate.inside, gate.waiting) == (0, 0)


@pytest.mark.parametrize("seed", range(20))
async def test_cancellation_at_any_moment(seed: int) -> None:
    chance, gate = Random(seed), Gate(lambda: 2)

    async def visit() -> None:
        async with gate:
            assert gate.inside <= 2
            await asyncio.sleep(0)

    visits = [asyncio.create_task(visit()) for _ in range(20)]
    for _ in range(12):
        await asyncio.sleep(0)
        chance.choice(visits).cancel()
    await asyncio.gather(*visits, return_exceptions=True)
    assert (gate.inside, gate.waiting) == (0, 0)
    async with gate, gate:
        assert gate.inside == 2
