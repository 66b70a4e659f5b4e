"""The package's function to follow a chain.

async with gapless.Engine(ledger, slots=gapless.FOLLOW_SLOTS) as engine:
    async with gapless.follow(engine, "ethereum", rpc="https://…", to="eth.db") as follow:
        print((await follow.status()).phase)
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Unpack

from gapless.blocks import job as blocks
from gapless.blocks.functions import target_of
from gapless.blocks.request import FetchOptions
from gapless.following import control, job
from gapless.following.creation import create
from gapless.following.request import build_follow
from gapless.following.service import following
from gapless.following.spec import FOREGROUND_SLOTS, SLOTS
from gapless.following.status import FollowStatus, follow_status
from gapless.runtime.engine import Engine

FOLLOW_SLOTS = SLOTS | FOREGROUND_SLOTS
"""Slots of an engine that follows, whether or not other processes know its endpoints."""


class FollowHandle:
    """A handle to a follow, to look at it and to control it."""

    def __init__(self, engine: Engine, name: str) -> None:
        self.name = name
        self._engine = engine

    async def status(self) -> FollowStatus:
        return await follow_status(self._engine.ledger, self.name)

    async def pause(self) -> None:
        """Plans and starts nothing new; running blocks finish."""
        await control.pause(self._engine.ledger, self.name)

    async def resume(self) -> None:
        await control.resume(self._engine.ledger, self.name)
        self._engine.wake()


@asynccontextmanager
async def follow(
    engine: Engine,
    network: str,
    *,
    rpc: str | Sequence[str] = (),
    to: str | Path | None = None,
    start: str | int | None = None,
    name: str | None = None,
    **options: Unpack[FetchOptions],
) -> AsyncIterator[FollowHandle]:
    """Follows a chain into a sink until the block ends; continues where an earlier one stopped."""
    endpoints = [rpc] if isinstance(rpc, str) else rpc
    target = None if to is None else target_of(to)
    request, targets = build_follow(engine.config, network, endpoints, target, start, options, name)
    await create(request, targets.config, engine.ledger.url)
    engine.configure(targets.config)
    for each in (job.job(), blocks.job()):
        engine.learn(each)
    async with following(engine, [request.name]):
        yield FollowHandle(engine, request.name)
