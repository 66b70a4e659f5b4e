"""The two lanes of work: new blocks at the head of a chain go before history wherever work waits.

The lane is a context variable. The runtime sets it around a run, and the tasks of the run inherit
it. Whatever makes callers wait (the requests to an endpoint, a thread, the connections to a
database) reads it when a caller begins to wait. Work that has started is never interrupted.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum
from typing import Generic, TypeVar

T = TypeVar("T")


class Lane(Enum):
    """Which of two waiting callers goes first."""

    PRIORITY = "priority"
    ORDINARY = "ordinary"


_LANE = ContextVar("lane", default=Lane.ORDINARY)


def current_lane() -> Lane:
    """The lane of the current task."""
    return _LANE.get()


@contextmanager
def in_lane(lane: Lane) -> Iterator[None]:
    """Sets the lane of everything inside, including tasks that are started there."""
    before = _LANE.set(lane)
    try:
        yield
    finally:
        _LANE.reset(before)


class LaneQueue(Generic[T]):
    """A queue: the priority lane first, and within a lane first come, first served."""

    def __init__(self) -> None:
        self._priority: deque[T] = deque()
        self._ordinary: deque[T] = deque()

    def __len__(self) -> int:
        return len(self._priority) + len(self._ordinary)

    def __iter__(self) -> Iterator[T]:
        yield from tuple(self._priority)
        yield from tuple(self._ordinary)

    def append(self, item: T, lane: Lane) -> None:
        (self._priority if lane is Lane.PRIORITY else self._ordinary).append(item)

    def first(self) -> T:
        return (self._priority or self._ordinary)[0]

    def popleft(self) -> T:
        return (self._priority or self._ordinary).popleft()


class LaneSemaphore:
    """A semaphore for tasks; the priority lane acquires it first.

    A task that is cancelled while it waits, even at the moment it acquires the semaphore, does not
    keep it.
    """

    def __init__(self, value: int) -> None:
        self._value = value
        self._waiting: LaneQueue[asyncio.Future[None]] = LaneQueue()

    async def acquire(self) -> None:
        if self._value > 0:  # then nobody waits
            self._value -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn, current_lane())
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # acquired at the same moment
                self.release()
            raise

    def release(self) -> None:
        """Hands the semaphore to the first task that waits, or makes it free."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._value += 1

    async def __aenter__(self) -> None:
        await self.acquire()

    async def __aexit__(self, *error: object) -> None:
        self.release()
