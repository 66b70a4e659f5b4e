"""Those who follow a chain's head: two that want to lead one follow, append and fold."""

from __future__ import annotations

import dataclasses

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from gapless.core.backfill import State
from gapless.core.chunk import Order, Status
from gapless.core.errors import WrongState
from gapless.core.ranges import HIGHEST, Span
from gapless.core.retry import RetryKind
from gapless.core.selector import all_heights
from gapless.ledger.cursor import Cursor
from gapless.ledger.records import Append, BackfillRequest, NewChunk
from tests.stateful.laws import Act, Deed
from tests.stateful.replies import Reply
from tests.stateful.stage import Stage, pick
from tests.stateful.wishes import LEASE, POLICIES, Wish

FOLLOW = "follow"
HEAD = "head"
HEIGHTS = 24
TERM = 30.0  # of a leader's lease
HEIGHT = st.integers(0, HEIGHTS - 1)
SPAN = st.builds(lambda first, more: Span(first, min(first + more, HEIGHTS - 1)), HEIGHT, HEIGHT)
REPLIES = st.sampled_from([Reply.ARRIVES, Reply.ARRIVES, *Reply])
RARELY = st.sampled_from([False, False, False, True])


class Followers(Stage):
    """The leaders of a follow, and what each of them believes the cursor to be."""

    def __init__(self) -> None:
        self.leaders: dict[str, Cursor] = {}
        super().__init__()

    @precondition(lambda self: not self.tables.cursors)
    @rule(retry=st.sampled_from([RetryKind.SCHEDULE, RetryKind.BACKOFF]), reply=REPLIES)
    def follow(self, retry: RetryKind = RetryKind.SCHEDULE, reply: Reply = Reply.ARRIVES) -> None:
        request = BackfillRequest(
            id=HEAD,
            job="copy",
            job_version=1,
            selector={"kind": "range", "start": "0", "end": str(HIGHEST)},
            selection=all_heights(),
            chunk_size=1,
            max_concurrent_runs=4,
            queue="priority",
            retry=POLICIES[retry],
            lease_seconds=LEASE,
            follow=FOLLOW,
            standing=True,
        )
        self.ask_for(HEAD, [str(height) for height in range(HEIGHTS)])
        made = self.do(Act(Deed.OTHER), lambda: self.ledger.create(request), reply)
        assert (made.standing, made.partitions) == (True, 0)
        self.lead(0)

    @precondition(lambda self: self.tables.cursors)
    @rule(who=st.integers(0, 1), reply=REPLIES)
    def lead(self, who: int, reply: Reply = Reply.ARRIVES) -> None:
        owner = f"leader {who}"
        before, until = self.tables.cursors[FOLLOW], self.tables.cursors[FOLLOW].lease_until
        led = until is not None and self.now < until <= self.now + TERM + 1
        found = self.do(Act(Deed.OTHER), lambda: self.ledger.lead(FOLLOW, owner, TERM), reply)
        after = self.tables.cursors[FOLLOW]
        if reply is not Reply.LATE:
            assert (found is None) == (led and before.owner != owner), f"{found} after {before}"
            assert (after.fence == before.fence) == led, f"{after} after {before}"
            assert after.version == before.version, f"{after} after {before}"
        if found is not None:
            cursor, _ = found
            assert (cursor.owner, cursor.fence) == (owner, after.fence)
            self.leaders[owner] = cursor

    @precondition(lambda self: self.leaders)
    @rule(
        which=st.integers(0, 1),
        spans=st.lists(SPAN, max_size=3),
        fenced=RARELY,
        revoke=st.none() | SPAN,
        replace=st.booleans(),
        history=RARELY,
        reply=REPLIES,
    )
    def append(
        self,
        which: int = 0,
        spans: list[Span] | None = None,
        fenced: bool = False,
        revoke: Span | None = None,
        replace: bool = False,
        history: bool = False,
        reply: Reply = Reply.ARRIVES,
    ) -> None:
        """A step of someone who leads, or who believes so."""
        owner, cursor = pick(sorted(self.leaders.items()), which)
        dead = [chunk.index for chunk in self.tables.of(HEAD, Status.ABANDONED)]
        step = Append(
            follow=FOLLOW,
            owner=owner,
            fence=cursor.fence,
            version=cursor.version,
            state={"version": cursor.version + 1},
            revoke=revoke,
            replace=tuple(dead) if replace else (),
            chunks=tuple(NewChunk(*span, draw_fence=fenced) for span in spans or ()),
            backfills=(self._history(),) if history else (),
        )
        if not self._leads(cursor, cursor.version):
            self._append_in_vain(step, reply)
        elif not self._may_append(step):
            self.refused(WrongState, lambda: self.ledger.append(step))
        else:
            self._append(step, reply)

    def _append(self, step: Append, reply: Reply) -> None:
        before = self.tables.backfills[HEAD]
        for request in step.backfills:
            self.ask_for(request.id, [*self._wish().keys])
        act = Act(Deed.APPEND, revoke=step.revoke, replace=step.replace)
        moved = self.do(act, lambda: self.ledger.append(step), reply)
        assert moved is not None, "a step of the leader was lost"
        assert (moved.version, moved.state) == (step.version + 1, {"version": step.version + 1})
        self.leaders[step.owner] = moved
        after = self.tables.backfills[HEAD]
        assert after.planned == before.planned + len(step.chunks)
        sizes = [chunk.last - chunk.first + 1 for chunk in step.chunks]
        assert after.partitions == before.partitions + sum(sizes)
        old = [chunk for chunk in self.tables.of(HEAD) if chunk.index < before.planned]
        for chunk in old:
            revoked = step.revoke and step.revoke.overlap(Span(chunk.first, chunk.last))
            assert not revoked or chunk.status.ended, f"{chunk} was not revoked"

    def _append_in_vain(self, step: Append, reply: Reply) -> None:
        before = self.tables.cursors
        assert self.do(Act(Deed.OTHER), lambda: self.ledger.append(step), reply) is None
        assert self.tables.cursors == before, "a step changed a cursor that another leads"

    def _leads(self, cursor: Cursor, version: int) -> bool:
        now = self.tables.cursors[FOLLOW]
        return (now.owner, now.fence, now.version) == (cursor.owner, cursor.fence, version)

    def _may_append(self, step: Append) -> bool:
        head = self.tables.backfills[HEAD]
        if head.stopping is not None or head.state.ended:
            return False
        return head.state is not State.PAUSED or not (step.chunks or step.backfills)

    def _wish(self) -> Wish:
        return Wish(partitions=3, chunk_size=2, queue="backlog", order=Order.NEWEST)

    def _history(self) -> BackfillRequest:
        serial = next(self.serial)
        request = self._wish().request(f"h{serial}")
        return dataclasses.replace(request, follow=FOLLOW, precedence=serial % 3)

    @precondition(lambda self: self.leaders)
    @rule(which=st.integers(0, 1), below=HEIGHT, limit=st.sampled_from([1, 3, 50]), reply=REPLIES)
    def fold(
        self,
        which: int = 0,
        below: int = HEIGHTS,
        limit: int = 50,
        reply: Reply = Reply.ARRIVES,
    ) -> None:
        owner, cursor = pick(sorted(self.leaders.items()), which)
        leads = self._leads(cursor, self.tables.cursors[FOLLOW].version)
        act = Act(Deed.FOLD, below=below) if leads else Act(Deed.OTHER)
        fence = cursor.fence
        gone = self.do(act, lambda: self.ledger.fold(FOLLOW, owner, fence, below, limit), reply)
        assert leads or not gone, f"{owner} folded {gone} and does not lead"

    @precondition(lambda self: self.leaders)
    @rule(which=st.integers(0, 1), reply=REPLIES)
    def resign(self, which: int = 0, reply: Reply = Reply.ARRIVES) -> None:
        owner, _ = pick(sorted(self.leaders.items()), which)
        self.do(Act(Deed.OTHER), lambda: self.ledger.resign(FOLLOW, owner), reply)
        assert self.tables.cursors[FOLLOW].owner != owner
