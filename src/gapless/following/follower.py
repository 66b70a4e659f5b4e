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
from math import inf

import msgspec

from gapless.blocks.block_pipeline import BlockPipeline
from gapless.blocks.job import Host, shared_pipeline
from gapless.core.backfill import State
from gapless.core.chunk import Status
from gapless.core.errors import GaplessError, LedgerError, UsageError
from gapless.following.endpoints import StickyEndpoint
from gapless.following.head_watch import HeadWatch
from gapless.following.hints import HeadHints
from gapless.following.lease import lease_kept
from gapless.following.sighting import Sighting, Suspicion, suspicion
from gapless.following.spec import FollowSpec, LiveChunk, follow_spec, history
from gapless.following.state import FollowState, Retraction, follow_state
from gapless.following.status import follow_status
from gapless.following.steps import Step, doubtful, retracted, step, whole_cells
from gapless.following.upkeep import Upkeep
from gapless.lanes import Lane, in_lane
from gapless.ledger.cursor import Cursor
from gapless.ledger.records import Append, Backfill, NewChunk
from gapless.telemetry import log, metrics

_SOON = 1.0  # seconds until a change of the chain is looked at once more
_LAG_EVERY = 5.0  # seconds


@dataclass
class FollowerStatus:
    """What a follower shows about itself."""

    leads: bool = False
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
        self._head = HeadWatch(spec, host.system)
        self._upkeep: Upkeep | None = None
        self._suspected: Suspicion = None
        self._lag_measured_at = -inf
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
                    self._pause = self._head.pause
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
        led = await self._lead()
        if led is None:
            self._suspected = None
            self._head.stand_by()
            await self._hints.stop()
            return
        async with lease_kept(self._renew, self.spec.lease_seconds):
            await self._follow_from(*led)

    async def _lead(self) -> tuple[Cursor, Backfill] | None:
        """Takes or renews the lease; None while another process leads."""
        name, lease = self.spec.name, self.spec.lease_seconds
        led = await self._host.ledger.lead(
            name, self._owner, lease, self._head.report(self.status.trouble)
        )
        self.status.leads = led is not None
        metrics.LEADS.set(int(self.status.leads), self.spec.name)
        return led

    async def _renew(self) -> bool:
        """Renews the lease within a turn that lasts."""
        leads = await self._lead() is not None
        await self._measure_lag()
        return leads

    async def _follow_from(self, cursor: Cursor, backfill: Backfill) -> None:
        """Looks at the head, and writes what follows from it."""
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
        seen = await self._head.see(state)
        if self.spec.grid is not None:
            decided = whole_cells(state, seen.tip.final, self.spec.grid)
        else:
            if not self._confirmed(seen):
                self._pause = min(self._pause, _SOON)
                return
            depth = self.spec.depth
            deep = doubtful(state, seen, depth)
            if deep is not None:
                await self._head.require_agreement(deep)
            decided = step(state, seen, depth=depth, next_chunk=backfill.chunks.total)
        if decided.history is not None:
            await self._head.require_agreement(decided.history.last)
        await self._record(cursor, decided)
        assert self._upkeep is not None
        await self._upkeep.tidy(cursor, decided.state, pipeline)
        await self._measure_lag()
        self._pause = self._head.pause
        if decided.retract is not None:
            self._pause = min(self._pause, _SOON)

    async def _pipeline(self) -> BlockPipeline:
        pipeline = await shared_pipeline(self._host, self.spec.blocks)
        if self._upkeep is None:
            anchor, chain = self.spec.family.tables[0].name, self.spec.chain
            pool = pipeline.pool
            source = self.spec.family.source(pool, chain, [anchor], ())
            self._head.endpoint = StickyEndpoint(source, sorted(pool.names), chain, pool.served)
            self._upkeep = Upkeep(self._host.ledger, self.spec, self._owner, self._clock)
        return pipeline

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

    async def _measure_lag(self) -> None:
        """Measures the lag, which takes several queries, every few seconds."""
        if self._clock() - self._lag_measured_at < _LAG_EVERY:
            return
        self._lag_measured_at = self._clock()
        with suppress(GaplessError):
            status = await follow_status(self._host.ledger, self.spec.name)
            metrics.LAG_SECONDS.set(status.lag_seconds, self.spec.name)

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
