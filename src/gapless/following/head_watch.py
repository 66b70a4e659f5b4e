"""Watches the head of one chain, reports what it has seen, and decides when to look again.

Endpoints may be away for hours, lag, or stand still together with the chain. So the metrics and the
ledger tell when the head was last seen, and why it cannot be seen now.
"""

from __future__ import annotations

import logging
from functools import partial
from math import inf

from gapless.core.errors import TransientError
from gapless.core.redaction import redact
from gapless.following.endpoints import StickyEndpoint
from gapless.following.next_block import NextBlock
from gapless.following.sighting import Behind, ChainHead, Headers, Sighting, look
from gapless.following.spec import FollowSpec
from gapless.following.state import FollowState
from gapless.ledger.cursor import HeadSeen
from gapless.system import System
from gapless.telemetry import log, metrics

_OTHERS_EVERY = 5.0  # seconds between two questions to all other endpoints for a late block
_SILENT_AFTER = 10.0  # seconds without an answer
_MOST_TEXT = 300  # characters of a trouble that the ledger stores
_STALLED_AFTER = 5  # block times without a new block, and at least:
_STALLED_AT_LEAST = 30.0  # seconds


class HeadWatch:
    """The head of one chain, as a follower has seen it so far."""

    def __init__(self, spec: FollowSpec, system: System) -> None:
        self._spec, self._system, self._clock = spec, system, system.clock
        self._next_block = NextBlock(spec.poll_seconds)
        self._endpoint: StickyEndpoint | None = None
        self._head: int | None = None
        self._head_time: float | None = None  # of its block
        self._seen_at: float | None = None
        self._moved_at = self._clock()  # when the head was last another one
        self._others_asked_at = -inf  # when other endpoints were asked for a block that was late
        self._asked_at: float | None = None  # when the question was asked that has no answer yet

    @property
    def endpoint(self) -> StickyEndpoint:
        assert self._endpoint is not None
        return self._endpoint

    @endpoint.setter
    def endpoint(self, endpoint: StickyEndpoint) -> None:
        self._endpoint = endpoint

    @property
    def pause(self) -> float:
        """Seconds until the next look."""
        return self._next_block.pause(self._clock())

    async def see(self, state: FollowState) -> Sighting:
        """Look at the head; a sink of whole cells needs only the head and the final block."""
        before, now = self.endpoint.name, self._clock()
        look_at = partial(look, state) if self._spec.grid is None else _look_at_tip
        known = -1 if self._head is None else max(state.last, self._head)
        late = self._next_block.is_late(now) and now - self._others_asked_at >= _OTHERS_EVERY
        if late:
            self._others_asked_at = now
        self._asked_at = now
        try:
            seen = await self.endpoint.sight(look_at, known=known, late=late)
        finally:
            self._asked_at = None
        if self.endpoint.name != before:
            told = {"endpoint": before, "instead": self.endpoint.name}
            height = seen.tip.head.height
            log(logging.WARNING, "endpoint_behind", follow=self._spec.name, height=height, **told)
        self._measure(seen.tip)
        self._notice_stall(seen)
        return seen

    async def require_agreement(self, height: int) -> None:
        """Raise if the other endpoints have another block at this height.

        One endpoint that invents a head would make a follow pass over the blocks up to it, and one
        on a branch of its own would stop the follow.
        """
        alone = self.endpoint.name
        if not await self.endpoint.is_agreed(height):
            self.endpoint.move_on()
            raise TransientError(
                f"endpoint `{alone}` has a block {height:,} that no other endpoint has"
            )

    def report(self, trouble: str | None) -> HeadSeen | None:
        """What to tell other processes; None if nothing was seen and there is no trouble."""
        trouble = self._silence() or trouble
        if self._seen_at is None and trouble is None:
            return None
        ago = None if self._seen_at is None else self._clock() - self._seen_at
        short = None if trouble is None else redact(trouble)[:_MOST_TEXT]
        return HeadSeen(ago, self._head_time, short)

    def stand_by(self) -> None:
        """Another process leads and reports: what was seen before is out of date by then."""
        self._seen_at = None

    def _silence(self) -> str | None:
        """Why no endpoint has answered the question that waits for an answer, if it waits long."""
        if self._asked_at is None or self._clock() - self._asked_at < _SILENT_AFTER:
            return None
        return str(self.endpoint.silence())

    def _measure(self, tip: ChainHead) -> None:
        chain, height, now = str(self._spec.chain_id), tip.head.height, self._clock()
        if self._head != height:
            self._moved_at = now
        self._head, self._head_time, self._seen_at = height, tip.head.time, now
        self._next_block.saw(height, now)
        metrics.HEAD_SEEN.set(self._system.wall_clock(), self._spec.name)
        if tip.head.time is not None:
            metrics.HEAD_TIME.set(tip.head.time, chain)
        metrics.HEAD_HEIGHT.set(height, chain)
        metrics.FINAL_HEIGHT.set(tip.final, chain)

    def _notice_stall(self, seen: Sighting) -> None:
        """Says that the chain stands still: all endpoints were asked meanwhile."""
        limit = max(_STALLED_AT_LEAST, _STALLED_AFTER * self._spec.chain.block_time)
        if isinstance(seen, Behind) and self._clock() - self._moved_at >= limit:
            self._moved_at = self._clock()
            height = seen.tip.head.height
            log(logging.WARNING, "chain_stalled", follow=self._spec.name, height=height)


async def _look_at_tip(chain: Headers) -> Sighting:
    """A sighting of the head and the final block alone."""
    return Behind(await chain.tip())
