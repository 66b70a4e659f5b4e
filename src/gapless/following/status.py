"""How a follow stands, from the ledger alone: so any process can tell, whoever leads."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from gapless.core.backfill import State, describe
from gapless.core.errors import Unreadable
from gapless.core.ranges import RangeSet
from gapless.following.spec import FollowSpec, follow_spec, is_history_of
from gapless.following.state import FollowState, follow_state
from gapless.ledger import Ledger
from gapless.ledger.records import Backfill, FollowRecord

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
    head_seen_at: float | None  # when a leader last saw a head
    head_time: float | None  # the time of that head's block
    trouble: str | None  # why the leader does not see the head now, or cannot go on
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
    def silent_seconds(self) -> float:
        """How long nobody has seen the head, if it should have been seen meanwhile."""
        if self.trouble is None or self.head_seen_at is None:
            return 0.0
        silence = self.now - self.head_seen_at
        return silence if silence > 2 * self.spec.poll_seconds else 0.0

    @property
    def lag_seconds(self) -> float:
        """Time since the oldest block that is not stored was seen, or since any block was."""
        waiting = 0.0 if self.waiting_since is None else self.now - self.waiting_since
        return max(0.0, waiting, self.silent_seconds)

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
        near = max(self.lag_blocks, self.unstored) <= LIVE_WITHIN
        return "live" if near and not self.silent_seconds else "behind"


@dataclass(frozen=True)
class UnreadableFollow:
    """A follow whose rows are damaged; it can still be removed."""

    name: str
    backfill: Backfill
    problem: str


async def all_follows(ledger: Ledger) -> list[FollowStatus | UnreadableFollow]:
    """All follows of a ledger, by name."""
    names = [cursor.follow for cursor, _ in await ledger.follows()]
    return [await follow_if_readable(ledger, each) for each in names]


async def followed_chains(ledger: Ledger) -> set[tuple[int, str]]:
    """The chain id and the id of the sink of each follow whose rows are readable."""
    found = set[tuple[int, str]]()
    for _, backfill in await ledger.follows():
        with suppress(Unreadable):
            spec = follow_spec(backfill)
            found.add((spec.chain_id, spec.sink_id))
    return found


async def follow_status(ledger: Ledger, name: str) -> FollowStatus:
    """How a follow stands; raises `Unreadable` if its rows are damaged."""
    return _status(await ledger.follow(name, _NEWEST))


async def follow_if_readable(ledger: Ledger, name: str) -> FollowStatus | UnreadableFollow:
    found = await ledger.follow(name, _NEWEST)
    try:
        return _status(found)
    except Unreadable as error:
        return UnreadableFollow(name, found.standing, str(error))


def _status(found: FollowRecord) -> FollowStatus:
    cursor, backfill = found.cursor, found.standing
    spec = follow_spec(backfill)
    state = follow_state(cursor)
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
        head_seen_at=cursor.head_seen_at,
        head_time=cursor.head_time,
        trouble=cursor.trouble,
        gaps=lost,
        history_blocks=sum(each.partitions for each in history),
        history_done=sum(_done(each) for each in history),
        now=cursor.now,
    )


def _done(backfill: Backfill) -> int:
    chunks = backfill.chunks
    return backfill.partitions * chunks.complete // chunks.total if chunks.total else 0
