"""Waiting for a backfill to end, while somebody watches it and may interrupt it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Protocol

from gapless.core.errors import LedgerUnreachable
from gapless.ledger.records import Backfill
from gapless.runtime.engine import BackfillHandle, Engine

LOOK_EVERY = 0.2  # seconds


class Watcher(Protocol):
    """Who is shown how a backfill goes."""

    async def show(self, engine: Engine, backfill: Backfill) -> None:
        """How far it is now."""

    def show_finishing(self, *, first: bool) -> None:
        """It was interrupted, and what runs is about to finish."""

    def warn(self, message: str) -> None: ...


class NobodyWatches:
    """A watcher for programs, which look at the result."""

    async def show(self, engine: Engine, backfill: Backfill) -> None: ...

    def show_finishing(self, *, first: bool) -> None: ...

    def warn(self, message: str) -> None: ...


async def watch(
    engine: Engine, handle: BackfillHandle, watcher: Watcher, interrupted: asyncio.Event
) -> None:
    """Shows how a backfill goes until it has ended, or an interruption has drained the engine."""
    stopped = asyncio.create_task(interrupted.wait())
    trouble = ""
    while not interrupted.is_set():
        try:
            now = await handle.progress()
            if now.state.ended:
                break
            await watcher.show(engine, now)
            trouble = ""
        except LedgerUnreachable as error:  # the worker keeps trying, and so do we
            if trouble != str(error):
                trouble = str(error)
                watcher.warn(trouble)
        settled = asyncio.create_task(engine.something_settled())
        await asyncio.wait(
            [stopped, settled], timeout=LOOK_EVERY, return_when=asyncio.FIRST_COMPLETED
        )
        if settled.done():
            settled.result()
        settled.cancel()
    else:
        await _drain(engine, watcher)
    stopped.cancel()


async def _drain(engine: Engine, watcher: Watcher) -> None:
    """Ends what runs, and shows what that waits for."""
    draining = asyncio.create_task(engine.drain())
    watcher.show_finishing(first=True)
    while not draining.done():
        await asyncio.wait([draining], timeout=LOOK_EVERY)
        watcher.show_finishing(first=False)
    draining.result()


async def work(engine: Engine, stopped: asyncio.Event, *, until_idle: bool) -> None:
    """Waits until it is stopped, or until there is nothing left to do."""
    stop = asyncio.create_task(stopped.wait())
    while not stopped.is_set():
        settled = asyncio.create_task(engine.something_settled())
        await asyncio.wait([stop, settled], return_when=asyncio.FIRST_COMPLETED)
        if settled.done():
            settled.result()  # a worker that died says why
        settled.cancel()
        with suppress(LedgerUnreachable):  # the worker keeps trying, and so do we
            if until_idle and await engine.is_idle():
                break
    stop.cancel()
