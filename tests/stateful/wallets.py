"""A state machine that adds and removes wallets while their passes run, fail and are retried.

The truth is computed from chunks, one by one: which heights of a sync are done, and which of the
others a chunk will still do. Whatever happens, each sync must say exactly that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gapless.core.chunk import Status, missing
from gapless.core.errors import UsageError
from gapless.core.ranges import RangeSet
from gapless.core.retry import RetryPolicy
from gapless.ledger import Ledger
from gapless.ledger.records import Backfill, Claim
from gapless.ledger.syncs import Sync, SyncFilter, SyncState
from tests.conformance.ledger.test_lost_replies import LosesReplies
from tests.support import Clock, claim, database_of, done, fail
from tests.wallets import ALICE, BOB, CAROL, Target, add, new_id

T = TypeVar("T")
HEIGHTS = st.tuples(st.integers(90, 104), st.integers(105, 130))
WALLETS = st.sets(st.sampled_from([ALICE, BOB, CAROL]), min_size=1)
POLICIES = st.sampled_from([RetryPolicy(retries=1), RetryPolicy.unbounded(), RetryPolicy.halt()])
PICKS = st.integers(0, 999)
OPEN = (Status.PENDING, Status.RUNNING, Status.FAILED)
GIVEN_UP = (SyncState.ABANDONED, SyncState.CANCELLED)


@dataclass
class Facts:
    """What the chunks of a pass say."""

    is_open: bool  # whether something of it will run
    done: RangeSet = field(default_factory=RangeSet)  # heights
    untold: RangeSet = field(default_factory=RangeSet)
    """Of these, those of chunks that were given back or cancelled, which may not count yet."""


class WalletMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.claims: list[Claim] = []
        self._runner = asyncio.Runner()
        self.ledger = self.run(self.open())
        self.flaky = Ledger(LosesReplies(database_of(self.ledger)), self.ledger.url)

    async def open(self) -> Ledger:
        raise NotImplementedError

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def teardown(self) -> None:
        self.run(self.ledger.close())
        self._runner.close()

    @property
    def passes(self) -> list[Backfill]:
        return self.run(self.ledger.backfills(hooks=False))

    # What people do

    @rule(
        wallets=WALLETS,
        heights=HEIGHTS,
        size=st.integers(1, 8),
        retry=POLICIES,
        group=st.sampled_from(["own", "other"]),
        lost=st.booleans(),
    )
    def add(
        self,
        wallets: set[str],
        heights: tuple[int, int],
        size: int,
        retry: RetryPolicy,
        group: str,
        lost: bool,
    ) -> None:
        target = Target(heights, group, chunk_size=size, retry=retry)
        ledger = self.flaky if lost else self.ledger
        found = self.run(add(ledger, *sorted(wallets), targets=[target]))
        assert {each.key for each in found} == {target.key(wallet) for wallet in wallets}
        for each in found:
            assert RangeSet.of(heights) - RangeSet.of(each.heights) == RangeSet()
            assert each.state not in GIVEN_UP, each

    @rule(pick=PICKS, lost=st.booleans())
    def remove(self, pick: int, lost: bool) -> None:
        if known := self.run(self.ledger.wallets()):
            unwanted = known[pick % len(known)].key
            self.run((self.flaky if lost else self.ledger).remove_wallets([unwanted]))

    @rule(pick=PICKS, what=st.sampled_from(["pause", "resume", "cancel", "force", "retry"]))
    def command(self, pick: int, what: str) -> None:
        if not (passes := self.passes):
            return
        each = passes[pick % len(passes)].id
        with suppress(UsageError):  # if its state does not allow it
            match what:
                case "pause":
                    self.run(self.ledger.pause(each))
                case "resume":
                    self.run(self.ledger.resume(each))
                case "retry":
                    self.run(self.ledger.retry_failed(each, new_id()))
                case _:
                    self.run(self.ledger.cancel(each, force=what == "force"))

    @rule(pick=PICKS, purge=st.booleans())
    def bury(self, pick: int, purge: bool) -> None:
        """Retries or purges a dead letter."""
        if letters := self.run(self.ledger.dead()):
            dead = letters[pick % len(letters)]
            if purge:
                self.run(self.ledger.purge(dead.backfill_id, [dead.chunk_index]))
            else:
                with suppress(UsageError):
                    chosen = [dead.chunk_index]
                    self.run(self.ledger.retry_dead(dead.backfill_id, new_id(), chosen))

    # What workers do

    @rule(pick=PICKS, count=st.integers(1, 4))
    def claim(self, pick: int, count: int) -> None:
        if passes := self.passes:
            only = passes[pick % len(passes)].id  # which of them is otherwise a matter of chance
            self.claims += self.run(claim(self.ledger, count, only=only))

    @precondition(lambda self: self.claims)
    @rule(
        pick=PICKS,
        how=st.sampled_from(["complete", "fail", "permanent", "beat", "release"]),
        steps=st.integers(0, 8),
        hole=st.booleans(),
    )
    def work(self, pick: int, how: str, steps: int, hole: bool) -> None:
        mine = self.claims[pick % len(self.claims)]
        before = mine.span.first - 1 if mine.last_processed is None else mine.last_processed
        at = min(before + steps, mine.span.last)
        holes = [(at, at)] if hole and at > before else []
        told = done(None if at < mine.span.first else at, *mine.holes.spans, *holes)
        if how == "beat":
            self.run(self.ledger.heartbeat([(mine, told)]))
            return
        self.claims.remove(mine)
        if how == "complete":
            self.run(self.ledger.complete([mine]))
        elif how == "release":
            self.run(self.ledger.release(mine, told))
        else:
            self.run(fail(self.ledger, mine, told, permanent=how == "permanent"))

    @rule(seconds=st.sampled_from([1, 59, 61, 8000]))
    def wait(self, seconds: int) -> None:
        self.clock.now += seconds

    @rule()
    def settle(self) -> None:
        self.run(self.ledger.settle())
        self.run(self.ledger.close_epochs())

    # What must hold

    @invariant()
    def every_sync_tells_the_truth(self) -> None:
        assert self.run(self.ledger.check()) == []
        syncs = self.run(self.ledger.syncs())
        facts = {each.id: self.run(self._facts(each)) for each in self.passes}
        for each in syncs:
            self._check(each, [facts[its] for its in each.passes])
        for state in SyncState:
            found = self.run(self.ledger.syncs(SyncFilter(state=state)))
            assert found == [each for each in syncs if each.state is state], state

    async def _facts(self, backfill: Backfill) -> Facts:
        heights = (await self.ledger.selection(backfill.selection)).ordinals
        chunks = await self.ledger.chunks(backfill.id)
        stops = backfill.state.ended or backfill.lifecycle.stopping is not None
        runs = (Status.RUNNING,) if stops else OPEN
        unplanned = backfill.chunks.planned < backfill.chunks.total and not stops
        found = Facts(unplanned or any(chunk.status in runs for chunk in chunks))
        for chunk in chunks:
            told = chunk.progress
            positions = RangeSet.of(chunk.span) - missing(
                chunk.span, told.last_processed, told.holes
            )
            some = RangeSet(it for span in positions.spans for it in heights.slice(*span).spans)
            found.done |= some
            if chunk.status in (Status.PENDING, Status.CANCELLED):
                found.untold |= some
        return found

    def _check(self, sync: Sync, facts: list[Facts]) -> None:
        all_done = RangeSet(span for each in facts for span in each.done.spans)
        untold = RangeSet(span for each in facts for span in each.untold.spans)
        is_open = any(each.is_open for each in facts)
        planned, progress = RangeSet.of(sync.heights), sync.progress
        assert not all_done - planned, sync
        if is_open:
            assert sync.state not in (*GIVEN_UP, SyncState.COMPLETE), sync
        elif planned - all_done:
            assert sync.state in GIVEN_UP, f"{sync} misses {planned - all_done}"
        else:
            assert sync.state is SyncState.COMPLETE, sync
            assert (progress.done, progress.processed_to) == (len(planned), sync.heights.last)
        assert len(all_done) - len(untold) <= progress.done <= len(all_done), f"{sync}: {all_done}"
        if progress.processed_to is not None:
            assert not RangeSet.of((sync.heights.first, progress.processed_to)) - all_done, sync
        counts = progress.segments
        open_ones = counts.pending + counts.running + counts.failed
        assert open_ones + counts.complete + counts.abandoned + counts.cancelled == counts.total
