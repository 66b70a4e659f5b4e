"""The requests that wait for one endpoint, in the order in which they are sent.

The priority lane goes first; within a lane, first come, first served. The first request is sent
when both of these hold at the same time:

    a slot is free       fewer requests are in flight than the endpoint allows
    the pace allows it   enough time has passed since the last calls were sent

No request holds a slot while it waits for the pace. So a request of the priority lane overtakes all
ordinary ones that wait, and if a slot is free, it waits for the pace of one batch at most. If the
endpoint rests by then, or accepts only smaller batches, a request is not sent at all.

While the priority lane is in use, and for a minute after that, one slot is reserved for it, if
there are at least two. A process that never uses the priority lane loses nothing.

A request that is cancelled, even at the moment it may be sent, does not use up a slot.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf
from typing import NamedTuple, Protocol

from gapless.lanes import Lane, LaneQueue, current_lane

RESERVED_SECONDS = 60.0
"""How long a slot stays reserved after a request of the priority lane."""


class RequestSize(NamedTuple):
    """How many calls a request holds, and as how many a provider counts it."""

    calls: int
    counted: int


class Recipient(Protocol):
    """What an endpoint allows now."""

    def slots(self) -> int:
        """How many requests may be in flight."""

    def wait(self, now: float) -> float:
        """How many seconds the pace requires until the next request."""

    def accepts(self, size: RequestSize, now: float) -> bool:
        """Whether a request of this size may be sent, if there is a slot."""

    def take(self, counted: int, now: float) -> None:
        """Count calls, as the provider counts them, that are sent now."""


class RequestQueue:
    """The requests of one endpoint, waiting or in flight."""

    def __init__(self, recipient: Recipient, clock: Callable[[], float]) -> None:
        self._recipient, self._clock = recipient, clock
        self._waiting: LaneQueue[RequestTurn] = LaneQueue()
        self.in_flight = 0
        self._ordinary_in_flight = 0
        self._reserved_until = -inf
        self._timer: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> int:
        return sum(not turn.granted.done() for turn in self._waiting)

    def turn(self, size: RequestSize) -> RequestTurn:
        """The turn of a request of this size, in the lane of the current task."""
        return RequestTurn(self, size, current_lane())

    def join(self, turn: RequestTurn) -> None:
        if turn.lane is Lane.PRIORITY:
            self._reserved_until = self._clock() + RESERVED_SECONDS
        self._waiting.append(turn, turn.lane)
        self.grant()

    def leave(self, turn: RequestTurn) -> None:
        self.in_flight -= 1
        self._ordinary_in_flight -= turn.lane is Lane.ORDINARY
        self.grant()

    def grant(self) -> None:
        """Let all requests go that may be sent now."""
        while (turn := self._first()) is not None:
            now = self._clock()
            if not self._has_slot(turn.lane, now):
                return  # until a request leaves, or the endpoint allows more
            if (wait := self._recipient.wait(now)) > 0:
                self._wake_after(wait)
                return
            self._waiting.popleft()
            if self._recipient.accepts(turn.size, now):
                self._recipient.take(turn.size.counted, now)
                self.in_flight += 1
                self._ordinary_in_flight += turn.lane is Lane.ORDINARY
                turn.granted.set_result(now)
            else:
                turn.granted.set_result(None)

    def _first(self) -> RequestTurn | None:
        """Return the request to send next; forget those that were cancelled before it."""
        while self._waiting:
            turn = self._waiting.first()
            if not turn.granted.done():
                return turn
            self._waiting.popleft()
        return None

    def _has_slot(self, lane: Lane, now: float) -> bool:
        slots = self._recipient.slots()
        if self.in_flight >= slots:
            return False
        if lane is Lane.PRIORITY or slots == 1 or now >= self._reserved_until:
            return True
        return self._ordinary_in_flight < slots - 1

    def _wake_after(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._wake)

    def _wake(self) -> None:
        self._timer = None
        self.grant()


class RequestTurn:
    """`async with turn as sent_at:` waits until the request may be sent, and is its time in flight.

    `sent_at` is None if the request must not be sent any more; it has no slot then.
    """

    __slots__ = ("_queue", "granted", "lane", "size")

    def __init__(self, queue: RequestQueue, size: RequestSize, lane: Lane) -> None:
        self._queue = queue
        self.size = size
        self.lane = lane
        self.granted: asyncio.Future[float | None] = asyncio.get_running_loop().create_future()

    async def __aenter__(self) -> float | None:
        self._queue.join(self)
        try:
            return await self.granted
        except asyncio.CancelledError:
            if not self.granted.cancelled():  # granted at the same moment
                await self.__aexit__()
            raise

    async def __aexit__(self, *error: object) -> None:
        if self.granted.result() is not None:
            self._queue.leave(self)
