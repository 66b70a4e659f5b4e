"""The followers of a process: one for each follow of the ledger that it can serve.

A worker runs them beside its chunks. Which follows there are is looked up again and again, so a
follow that is created, changed, paused or removed elsewhere is noticed within seconds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from gapless.core.backfill import State
from gapless.core.errors import LedgerError, Unreadable
from gapless.following.follower import Follower
from gapless.following.spec import FollowSpec, follow_spec
from gapless.runtime.engine import Engine
from gapless.telemetry import log

_LOOK_EVERY = 2.0  # seconds


class Followers:
    """The followers of a process, by the names of their follows."""

    def __init__(self, engine: Engine, only: Iterable[str] | None = None) -> None:
        """`only` are the follows that this process was started for; else all that are shared."""
        assert engine.worker is not None
        self._engine, self._owner = engine, engine.worker.id
        self._only = None if only is None else frozenset(only)
        self.running: dict[str, Follower] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._task: asyncio.Task[None] | None = None
        self._unreadable: dict[str, str] = {}  # what is wrong, by the name of the follow

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="gapless-followers")

    def stop(self) -> None:
        """Lets all followers end, without waiting for them."""
        if self._task is not None:
            self._task.cancel()

    async def ended(self) -> None:
        """Waits until all followers have ended."""
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        """Starts and ends followers until it is cancelled."""
        try:
            while True:
                try:
                    await self._look()
                except LedgerError as error:
                    log(logging.DEBUG, "follows_unknown", error=error)
                await asyncio.sleep(_LOOK_EVERY)
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _look(self) -> None:
        wanted = await self._wanted()
        for name in [*self._tasks]:
            if self._tasks[name].done():
                await self._end(name)
            elif name not in wanted or wanted[name] != self.running[name].spec:
                self._tasks[name].cancel()
                await self._end(name)
        for name, spec in wanted.items():
            if name not in self._tasks:
                follower = Follower(self._engine, spec, self._owner, self._engine.wake)
                self.running[name] = follower
                self._tasks[name] = asyncio.create_task(follower.run(), name=f"follow-{name}")

    async def _wanted(self) -> dict[str, FollowSpec]:
        found = {}
        for cursor, backfill in await self._engine.ledger.follows():
            if self._only is not None and cursor.follow not in self._only:
                continue
            try:
                spec = follow_spec(backfill)
            except Unreadable as error:
                self._say_once(cursor.follow, error)
                continue
            may = spec.shared or self._only is not None
            if may and backfill.state in (State.PENDING, State.RUNNING):
                found[cursor.follow] = spec
        return found

    def _say_once(self, name: str, error: Exception) -> None:
        """Says that a follow cannot be served, which must not keep the others from being."""
        if self._unreadable.get(name) != str(error):
            self._unreadable[name] = str(error)
            log(logging.ERROR, "follower_failed", follow=name, error=error)

    async def _end(self, name: str) -> None:
        """Forgets a follower that has ended; one that failed is started again at the next look."""
        task = self._tasks.pop(name)
        del self.running[name]
        try:
            await task
        except asyncio.CancelledError:
            pass
        except Exception as error:  # noqa: BLE001 - one follow must not end the others
            log(logging.ERROR, "follower_failed", follow=name, error=error)


@asynccontextmanager
async def following(engine: Engine, only: Iterable[str] | None = None) -> AsyncIterator[Followers]:
    """Runs followers beside the engine's worker."""
    followers = Followers(engine, only)
    followers.start()
    try:
        yield followers
    finally:
        followers.stop()
        await followers.ended()
