"""Coroutines run as functions: one that waits is refused, and exceptions pass through."""

from __future__ import annotations

import asyncio

import pytest

from gapless.core.coroutines import run_sync


async def test_it_returns_what_the_coroutine_returns() -> None:
    async def two() -> int:
        return await one() + await one()

    async def one() -> int:
        return 1

    assert run_sync(two()) == 2


async def test_it_raises_what_the_coroutine_raises() -> None:
    async def broken() -> None:
        raise KeyError("rows")

    with pytest.raises(KeyError, match="rows"):
        run_sync(broken())


async def test_it_refuses_to_wait() -> None:
    async def waiting() -> None:
        await asyncio.sleep(0)

    with pytest.raises(RuntimeError, match="must not wait"):
        run_sync(waiting())
