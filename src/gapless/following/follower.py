"""Follows the head of one chain into one sink, while it holds the lease.

Any number of followers may stand by; the ledger lets one lead. Each turn, the leader renews its
lease, looks at the head, and writes what to do and what it knows in one transaction. So a follower
that is killed between two turns leaves nothing half done, and one that was overtaken writes
nothing at all. While a turn lasts, the lease is kept, however long the endpoints take.

A change of the chain is acted on only if two sightings in a row agree about it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import inf

import msgspec

from gapless.blocks.block_pipeline import BlockPipeline
from gapless.blocks.job import Host, shared_pipeline
from gapless.core.backfill import State
from gapless.core.chunk import Status
from gapless.core.errors import GaplessError, LedgerError, TransientError, UsageError
from gapless.core.redaction import redact
from gapless.following.endpoints import Look, StickyEndpoint
from gapless.following.hints import HeadHints
from gapless.following.lease import lease_kept
from gapless.following.next_block import NextBlock
from gapless.following.sighting import (
    Behind,
    ChainHead,
    Headers,
    Sighting,
    Suspicion,
    look,
    suspicion,
)
from gapless.following.spec import FollowSpec, LiveChunk, follow_spec, history
from gapless.following.state import FollowState, Retraction, follow_state
from gapless.following.status import follow_status
from gapless.following.steps import Step, doubtful, retracted, step, whole_cells
from gapless.following.upkeep import Upkeep
from gapless.lanes import Lane, in_lane
from gapless.ledger.cursor import Cursor, HeadSeen
from gapless.ledger.records import Append, NewChunk
from gapless.telemetry import log, metrics

_SOON = 1.0  # seconds until a change of the chain is looked at once more
_LAG_EVERY = 5.0  # seconds
_OTHERS_EVERY = 5.0  # seconds between two questions to all other endpoints for a late block
_SILENT_AFTER = 10.0  # seconds without an answer
_MOST_TEXT = 300  # characters of a trouble that the ledger stores
_STALLED_AFTER = 5  # block times without a new block, and at least:
_STALLED_AT_LEAST = 30.0  # seconds


@dataclass
class FollowerStatus:
    """What a follower shows about itself."""

    leads: bool = False
    head: int | None = None
    head_time: float | None = None  # of its block
    seen_at: float | None = None  # when a head was last seen
    state: FollowState | None = None
    trouble: str | None = None


class Follower:
    """Stands by for a follow, and leads it while it holds the lease."""

    def __init__(
        self, host: Host, spec: FollowSpec, owner: str, planned: Callable[[], None]
    ) -> None:
        """`planned` is called when there are new chunks."""
        self.spec = spec
        self.status = FollowerStatus()
        self.hint = asyncio.Event()  # set when there may be a new block
        self._hints = HeadHints(self.hint, spec.name, spec.chain.block_time)
        self._host, self._owner, self._planned = host, owner, planned
        self._clock = host.system.clock
        self._endpoint: StickyEndpoint | None = None
        self._upkeep: Upkeep | None = None
        self._suspected: Suspicion = None
        self._others_asked_at = -inf  # when other endpoints were asked for a block that was late
        self._asked_at: float | None = None  # when the question was asked that has no answer yet
        self._moved_at = self._clock()  # when the head last moved
        self._lag_measured_at = -inf
        self._next_block = NextBlock(spec.poll_seconds)
        self._pause = spec.poll_seconds

    async def run(self) -> None:
        """Takes turns until it is cancelled."""
        try:
            while True:
                self._pause = self.spec.poll_seconds
                try:
                    with in_lane(Lane.PRIORITY):
                        await self._take_turn()
                except GaplessError as error:
                    self._note(error)
                    self._pause = self._next_block.pause(self._clock())
                    await self._measure_lag()
                    if isinstance(error, UsageError):  # another process may be able to lead
                        await self._resign()
                else:
                    self._note(None)
                await self._sleep()
        finally:
            await self._hints.stop()
            await self._resign()

    async def _take_turn(self) -> None:
        cursor = await self._lead()
        if cursor is None:
            self._suspected = self.status.seen_at = None
            await self._hints.stop()
            return
        async with lease_kept(self._renew, self.spec.lease_seconds):
            await self._follow_from(cursor)

    async def _lead(self) -> Cursor | None:
        """Takes or renews the lease; None while another process leads."""
        name, lease = self.spec.name, self.spec.lease_seconds
        cursor = await self._host.ledger.lead(name, self._owner, lease, self._head_seen())
        self.status.leads = cursor is not None
        metrics.LEADS.set(int(self.status.leads), self.spec.name)
        return cursor

    async def _renew(self) -> bool:
        """Renews the lease within a turn that lasts."""
        leads = await self._lead() is not None
        await self._measure_lag()
        return leads

    def _head_seen(self) -> HeadSeen | None:
        """What to tell other processes; None before the first look."""
        status, ago = self.status, None
        trouble = self._silence() or status.trouble
        if status.seen_at is None and trouble is None:
            return None
        if status.seen_at is not None:
            ago = self._clock() - status.seen_at
        short = None if trouble is None else redact(trouble)[:_MOST_TEXT]
        return HeadSeen(ago, status.head_time, short)

    def _silence(self) -> str | None:
        """Why no endpoint has answered the question that waits for an answer, if it waits long."""
        asked_at = self._asked_at
        if self._endpoint is None or asked_at is None or self._clock() - asked_at < _SILENT_AFTER:
            return None
        return str(self._endpoint.silence())

    async def _follow_from(self, cursor: Cursor) -> None:
        """Looks at the head, and writes what follows from it."""
        backfill = await self._host.ledger.backfill(cursor.backfill_id)
        if backfill.lifecycle.stopping or backfill.state not in (State.PENDING, State.RUNNING):
            return
        if follow_spec(backfill) != self.spec:  # another follower takes this one's place soon
            return
        state = follow_state(cursor)
        self.status.state = state
        pipeline = await self._pipeline()
        self._hints.start(pipeline.pool)
        if state.retraction is not None:
            if not await self._retraction_is_over(cursor, state, backfill.chunks.total):
                self._pause = min(self._pause, _SOON)
                return
            state = retracted(state)
        if state.alarm is not None:
            return
        if self.spec.grid is not None:
            seen = await self._sight(state, _look_at_tip)
            decided = whole_cells(state, seen.tip.final, self.spec.grid)
        else:
            seen = await self._sight(state, partial(look, state))
            self._notice_stall(seen)
            if not self._confirmed(seen):
                self._pause = min(self._pause, _SOON)
                return
            deep = doubtful(state, seen, self.spec.depth)
            if deep is not None:
                await self._require_agreement(deep)
            decided = step(state, seen, next_chunk=backfill.chunks.total)
        if decided.history is not None:
            await self._require_agreement(decided.history.last)
        await self._record(cursor, decided)
        assert self._upkeep is not None
        await self._upkeep.tidy(cursor, decided.state, pipeline)
        await self._measure_lag()
        self._pause = self._next_block.pause(self._clock())
        if decided.retract is not None:
            self._pause = min(self._pause, _SOON)

    async def _pipeline(self) -> BlockPipeline:
        pipeline = await shared_pipeline(self._host, self.spec.blocks)
        if self._endpoint is None:
            anchor, chain = self.spec.family.tables[0].name, self.spec.chain
            source = self.spec.family.source(pipeline.pool, chain, [anchor], ())
            pool = pipeline.pool
            self._endpoint = StickyEndpoint(source, sorted(pool.names), chain, pool.served)
            self._upkeep = Upkeep(self._host.ledger, self.spec, self._owner, self._clock)
        return pipeline

    async def _sight(self, state: FollowState, look: Look) -> Sighting:
        """What an endpoint shows of the head; the one of before, if possible."""
        assert self._endpoint is not None
        before, now = self._endpoint.name, self._clock()
        known = -1 if self.status.head is None else max(state.last, self.status.head)
        late = self._next_block.is_late(now) and now - self._others_asked_at >= _OTHERS_EVERY
        if late:
            self._others_asked_at = now
        self._asked_at = now
        try:
            seen = await self._endpoint.sight(look, known=known, late=late)
        finally:
            self._asked_at = None
        if self._endpoint.name != before:
            facts = {"endpoint": before, "instead": self._endpoint.name}
            height = seen.tip.head.height
            log(logging.WARNING, "endpoint_behind", follow=self.spec.name, height=height, **facts)
        self._measure(seen.tip)
        return seen

    async def _retraction_is_over(self, cursor: Cursor, state: FollowState, total: int) -> bool:
        """Whether the branch is gone; asks for it once more if nobody will remove it."""
        wanted = state.retraction
        assert wanted is not None
        index = wanted.chunk_index
        found = await self._host.ledger.chunks(cursor.backfill_id, index, index)
        if not found or found[0].status in (Status.ABANDONED, Status.CANCELLED):
            again = Retraction(total, wanted.first, wanted.last)
            kept = msgspec.structs.replace(state, retraction=again)
            dead = [each.chunk_index for each in found if each.status is Status.ABANDONED]
            await self._append(cursor, Step(kept, retract=wanted.span), replace=dead)
            return False
        return found[0].status is Status.COMPLETE

    async def _require_agreement(self, height: int) -> None:
        """Raises if the other endpoints have another block at this height.

        One endpoint that invents a head would make a follow pass over the blocks up to it, and one
        on a branch of its own would stop the follow.
        """
        assert self._endpoint is not None
        alone = self._endpoint.name
        if not await self._endpoint.is_agreed(height):
            self._endpoint.move_on()
            raise TransientError(
                f"endpoint `{alone}` has a block {height:,} that no other endpoint has"
            )

    def _confirmed(self, seen: Sighting) -> bool:
        """Whether this can be acted on: a change of the chain only if it was seen twice."""
        before = self._suspected
        self._suspected = suspicion(seen)
        return before == self._suspected or self._suspected is None

    async def _record(self, cursor: Cursor, decided: Step) -> None:
        """Writes a step, with its new blocks, unless nothing has changed."""
        if decided.state == follow_state(cursor):
            return
        if not await self._append(cursor, decided):
            self.status.leads = False
            return
        self.status.state = decided.state
        name = self.spec.name
        if decided.retract is not None:
            self._suspected = None
            fork, depth = decided.state.last, decided.retract.size
            metrics.REORGS.add(1, str(self.spec.chain_id), str(depth))
            log(logging.WARNING, "chain_reorganised", follow=name, fork=fork, depth=depth)
        if decided.state.alarm is not None:
            log(logging.ERROR, "follow_stopped", follow=name, error=decided.state.alarm)

    async def _append(self, cursor: Cursor, decided: Step, replace: Sequence[int] = ()) -> bool:
        chunks = [
            NewChunk(it.height, it.height, LiveChunk(hash=it.hash.hex()).encode())
            for it in decided.blocks
        ]
        if decided.retract is not None:
            payload = LiveChunk(retracts=True).encode()
            chunks.append(NewChunk(*decided.retract, payload, draw_fence=True))
        older = decided.history
        appended = await self._host.ledger.append(
            Append(
                follow=cursor.follow,
                owner=self._owner,
                fence=cursor.fence,
                version=cursor.version,
                state=msgspec.to_builtins(decided.state),
                revoke=decided.retract,
                chunks=tuple(chunks),
                backfills=() if older is None else (history(cursor.backfill_id, self.spec, older),),
                replace=tuple(replace),
            )
        )
        if appended is not None:
            self._planned()
        return appended is not None

    def _measure(self, tip: ChainHead) -> None:
        chain, height = str(self.spec.chain_id), tip.head.height
        if self.status.head != height:
            self._moved_at = self._clock()
        self.status.head, self.status.head_time = height, tip.head.time
        self.status.seen_at = self._clock()
        self._next_block.saw(height, self._clock())
        metrics.HEAD_SEEN.set(self._host.system.wall_clock(), self.spec.name)
        if tip.head.time is not None:
            metrics.HEAD_TIME.set(tip.head.time, chain)
        metrics.HEAD_HEIGHT.set(height, chain)
        metrics.FINAL_HEIGHT.set(tip.final, chain)

    async def _measure_lag(self) -> None:
        """Measures the lag, which takes several queries, every few seconds."""
        if self._clock() - self._lag_measured_at < _LAG_EVERY:
            return
        self._lag_measured_at = self._clock()
        with suppress(GaplessError):
            status = await follow_status(self._host.ledger, self.spec.name)
            metrics.LAG_SECONDS.set(status.lag_seconds, self.spec.name)

    def _notice_stall(self, seen: Sighting) -> None:
        """Says that the chain stands still: all endpoints were asked meanwhile."""
        limit = max(_STALLED_AT_LEAST, _STALLED_AFTER * self.spec.chain.block_time)
        if isinstance(seen, Behind) and self._clock() - self._moved_at >= limit:
            self._moved_at = self._clock()
            height = seen.tip.head.height
            log(logging.WARNING, "chain_stalled", follow=self.spec.name, height=height)

    def _note(self, error: Exception | None) -> None:
        """Says once that something is wrong, and once that it is over."""
        trouble = None if error is None else str(error)
        if trouble and not self.status.trouble:
            log(logging.WARNING, "follow_troubled", follow=self.spec.name, error=error)
        elif self.status.trouble and not trouble:
            log(logging.INFO, "follow_recovered", follow=self.spec.name)
        self.status.trouble = trouble

    async def _sleep(self) -> None:
        """Sleeps until the next turn; a hint wakes it, but not more than once a second."""
        await asyncio.sleep(min(self._pause, _SOON))
        try:
            async with asyncio.timeout(max(0.0, self._pause - _SOON)):
                await self.hint.wait()
        except TimeoutError:
            pass
        self.hint.clear()

    async def _resign(self) -> None:
        if self.status.leads:
            self.status.leads = False
            try:
                async with asyncio.timeout(_SOON):
                    await self._host.ledger.resign(self.spec.name, self._owner)
            except (LedgerError, TimeoutError):
                pass  # the lease ends by itself


async def _look_at_tip(chain: Headers) -> Sighting:
    """A sighting of the head and the final block alone."""
    return Behind(await chain.tip())
