"""How a follow stands, from the ledger alone: so any process can tell, whoever leads."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from gapless.core.backfill import State, describe
from gapless.core.ranges import RangeSet
from gapless.following.spec import FollowSpec, follow_spec, is_history_of
from gapless.following.state import FollowState
from gapless.ledger import Ledger
from gapless.ledger.records import Backfill

_NEWEST = 10_000  # chunks of new blocks that are looked at
LIVE_WITHIN = 3
"""A follow is live while at most this many new blocks are not stored yet."""


@dataclass(frozen=True)
class FollowStatus:
    """How far a follow is."""

    name: str
    spec: FollowSpec
    backfill: Backfill
    state: FollowState
    leader: str | None
    head: int | None  # the newest block that was planned
    stored: int | None  # the newest block that is stored
    unstored: int  # new blocks that are planned and not stored yet
    waiting_since: float | None  # when the oldest newer block was planned
    gaps: RangeSet  # new blocks that were given up for now
    history_blocks: int
    history_done: int
    now: float

    @property
    def lag_blocks(self) -> int:
        """Blocks between the head and the newest stored one."""
        if self.head is None:
            return 0
        return self.head - (self.state.start - 1 if self.stored is None else self.stored)

    @property
    def lag_seconds(self) -> float:
        return 0.0 if self.waiting_since is None else max(0.0, self.now - self.waiting_since)

    @property
    def history_pct(self) -> float:
        if not self.history_blocks:
            return 100.0
        return round(100 * self.history_done / self.history_blocks, 2)

    @property
    def phase(self) -> str:
        """How it is going, in one word; the state of the backfill, if it is not running.

        One of `starting`, `backfilling`, `live`, `behind`, `retracting` and `stopped`.
        """
        if self.state.alarm is not None:
            return "stopped"
        if self.backfill.lifecycle.stopping or self.backfill.state not in (
            State.PENDING,
            State.RUNNING,
        ):
            return describe(self.backfill.lifecycle).lower()
        if self.state.retraction is not None:
            return "retracting"
        if self.state.final < 0:
            return "starting"
        if self.history_done < self.history_blocks:
            return "backfilling"
        return "live" if max(self.lag_blocks, self.unstored) <= LIVE_WITHIN else "behind"


async def all_follows(ledger: Ledger) -> list[FollowStatus]:
    """All follows of a ledger, by name."""
    return [await follow_status(ledger, cursor.follow) for cursor, _ in await ledger.follows()]


async def follow_status(ledger: Ledger, name: str) -> FollowStatus:
    found = await ledger.follow(name, _NEWEST)
    cursor, backfill = found.cursor, found.standing
    spec = follow_spec(backfill)
    state = msgspec.convert(cursor.state, FollowState)
    history = [each for each in found.backfills if is_history_of(each.id, backfill.id)]
    lost = RangeSet(each.span for each in found.dead)
    open_heights = RangeSet(each.span for each in found.unended)
    planned = RangeSet.of((state.start, state.last)) if state.last >= state.start else RangeSet()
    there = planned - open_heights - lost
    stored = there.spans[-1].last if there else None
    waiting = [
        each.planned_at for each in found.unended if stored is None or each.span.first > stored
    ]
    return FollowStatus(
        name=cursor.follow,
        spec=spec,
        backfill=backfill,
        state=state,
        leader=cursor.owner if cursor.is_led(spec.lease_seconds) else None,
        head=state.last if state.hashes else None,
        stored=stored,
        unstored=len(open_heights & planned),
        waiting_since=min(waiting, default=None),
        gaps=lost,
        history_blocks=sum(each.partitions for each in history),
        history_done=sum(_done(each) for each in history),
        now=cursor.now,
    )


def _done(backfill: Backfill) -> int:
    chunks = backfill.chunks
    return backfill.partitions * chunks.complete // chunks.total if chunks.total else 0
