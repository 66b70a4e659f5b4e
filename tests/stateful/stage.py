"""What the state machine works on: a real ledger, an observer of its tables, and the model.

The model is what each worker believes it holds, what was requested of each backfill, and which
positions were done by writes that the ledger accepted. After every commit the laws
(`tests.stateful.laws`) compare the tables with the model and with the previous tables; after every
step the ledger checks itself. At the end a simple driver shows that nothing can hang.

The clock, chance and the database's own randomness are controlled, so a run is a function of its
steps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count, cycle
from typing import Any, TypeGuard, TypeVar
from unittest.mock import patch

from hypothesis.stateful import RuleBasedStateMachine, invariant

from gapless.core.backfill import State, Stop
from gapless.core.chunk import Status
from gapless.core.ranges import RangeSet
from gapless.core.retry import RetryKind
from gapless.ledger import Ledger, claims
from gapless.ledger.database import Database, LedgerTransaction
from gapless.ledger.records import Claim, ClaimRequest, Failure, Progress
from gapless.system import Process, System
from tests.stateful import laws
from tests.stateful.laws import Act, Deed
from tests.stateful.replies import Reply, UnreliableDatabase
from tests.stateful.tables import Backfill, Chunk, Key, Snapshot, Tables, done_of, read
from tests.stateful.wishes import JOBS, QUEUES

T = TypeVar("T")
Work = Coroutine[Any, Any, T]

WORKERS = 3
HOUR = 3600.0


@dataclass(eq=False)
class Held:
    """A claim as its worker knows it, and what the ledger knows about it."""

    claim: Claim
    worker: int
    progress: Progress
    stored: Progress
    past: list[Progress] = field(default_factory=list)

    @property
    def key(self) -> Key:
        return self.claim.backfill_id, self.claim.chunk_index

    def owns(self, chunk: Chunk | None) -> TypeGuard[Chunk]:
        """Whether nobody has claimed the chunk since; nobody owns one that was deleted."""
        return chunk is not None and chunk.fence == self.claim.fence

    def ahead(self, steps: int, hole: bool = False) -> Progress:
        """The progress after some more positions, the last of which may be a hole.

        At the end of the chunk, a run that never gives up retries the holes of earlier runs.
        """
        now = self.progress
        first, last = self.claim.span
        at = min(_reach(now, first) + steps, last)
        if at > _reach(now, first):
            fresh = at > _reach(self.stored, first)
            return Progress(at, now.holes | RangeSet.of((at, at)) if hole and fresh else now.holes)
        if at == last and self.heals:
            healed = list(now.holes & self.claim.holes)[:steps]
            return Progress(at, now.holes - RangeSet.from_members(healed))
        return now

    @property
    def heals(self) -> bool:
        return self.claim.backfill.retry.kind is RetryKind.UNBOUNDED

    def joined(self, reported: Progress) -> Progress:
        """What the ledger must know after this report: nothing is ever undone."""
        return max(reported, self.stored, key=lambda each: (_reach(each, -1), -len(each.holes)))

    def accepted(self, reported: Progress, *, heard: bool = True) -> None:
        """The ledger accepted the report; the worker may never learn of it."""
        self.stored = self.joined(reported)
        if heard:
            self.past.append(self.progress)
            self.progress = reported


def _reach(progress: Progress, first: int) -> int:
    return first - 1 if progress.last_processed is None else progress.last_processed


class Stage(RuleBasedStateMachine):
    """The machine without rules and without a database."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_000_000.0
        self.tables = Snapshot()
        self.keys: dict[str, list[str]] = {}
        self.done: dict[str, set[int]] = {}
        self.held: list[Held] = []  # by live workers
        self.past: list[Held] = []  # ended, lost, or their worker is gone
        self.pids = [1 + worker for worker in range(WORKERS)]
        self.serial = count(1)
        self._act = Act(Deed.OTHER)
        self._top_fence = 0
        self._epochs_seen: dict[str, int] = {}
        self._checked: Snapshot | None = None
        self._spent: dict[str, tuple[Snapshot, float]] = {}
        self._broken = False
        self._runner = asyncio.Runner()
        self._small_plans = patch.object(claims, "PLAN_AHEAD", 2)
        self._small_plans.start()
        try:
            self._run(self._open())
        except BaseException:
            self._close()
            raise

    # What a database brings

    async def _connect(self, bound: Callable[[], dict[str, Any]]) -> tuple[Database, Tables]:
        raise NotImplementedError

    async def _prepare(self, tx: LedgerTransaction) -> None:
        """Binds the database's own randomness for a transaction."""

    def _clean(self) -> None:
        """Removes what `_connect` left."""

    # Doing things, and witnessing them

    def do(self, act: Act, operation: Callable[[], Work[T]], reply: Reply = Reply.ARRIVES) -> T:
        """Performs an act; every commit of it is observed."""

        async def done() -> T:
            with self._acting(act, reply):
                return await operation()

        return self._run(done())

    def refused(self, error: type[BaseException], operation: Callable[[], Work[Any]]) -> None:
        """Tries something that must be refused and leave no trace."""
        before = self.tables
        try:
            self.do(Act(Deed.OTHER), operation)
        except error:
            self._broken = False
            assert self.tables == before, "refused, but not without a trace"
        else:
            raise AssertionError(f"no {error.__name__}")

    def claim_as(self, worker: int, wish: ClaimRequest, reply: Reply = Reply.ARRIVES) -> list[Held]:
        before, now = self.tables, self.now
        act = Act(Deed.CLAIM, owner=wish.owner)
        granted = self.do(act, lambda: self.ledger.claim(wish), reply)
        if reply is not Reply.LATE:
            laws.check_granted(before, self.tables, wish, granted, now)
        return self._take_up(worker, wish, granted)

    def complete_all(self, mine: Sequence[Held], reply: Reply = Reply.ARRIVES) -> None:
        given = tuple(held.claim for held in mine)
        whole = {held.key: Progress(held.claim.span.last) for held in mine}
        expected = {
            held.claim.chunk_id
            for held in mine
            if not self.is_current(held) and not self._was_completed(held)
        }
        act = Act(Deed.COMPLETE, claims=given, progress=whole)
        lost = self.do(act, lambda: self.ledger.complete(given), reply)
        assert lost == expected, f"{lost} were lost, not {expected}"
        for held in mine:
            self.part(held)

    def fail_one(self, held: Held, failure: Failure, reply: Reply = Reply.ARRIVES) -> None:
        current = self.is_current(held)
        said = {held.key: held.joined(failure.progress)}
        act = Act(Deed.FAIL, claims=(held.claim,), progress=said, failure=failure)
        verdict = self.do(act, lambda: self.ledger.fail(failure), reply)
        if current and reply is not Reply.LATE:
            assert verdict is not None, "a failure was not accepted"
            assert verdict.status is self.tables.chunks[held.key].status, f"{verdict} is not so"
        self.part(held)

    def end_all(self, taken: list[Held]) -> None:
        """Completes what is held; where holes are permanent, only those are abandoned."""
        self.complete_all([held for held in taken if held.heals or not held.progress.holes])
        for held in [held for held in taken if held in self.held]:
            ahead = Progress(held.claim.span.last, held.progress.holes)
            self.fail_one(held, Failure(held.claim, ahead, "Bad", "it is bad", permanent=True))

    def settle_all(self) -> None:
        """What every idle worker does: settle, and close the epochs of drained groups."""
        ended = self.do(Act(Deed.IDLE), self.ledger.settle)
        for backfill in self.tables.backfills.values():
            assert backfill.state.ended or backfill.id not in ended, f"{backfill} has not ended"
            assert not self._could_settle(backfill), f"{backfill} was not settled"
        self.do(Act(Deed.IDLE), self.ledger.close_epochs)
        for group in self.tables.epochs:
            news = self.tables.completed(group) > self._epochs_seen.get(group, 0)
            assert self.tables.busy(group) or not news, f"the epoch of {group} was not closed"

    def _run(self, work: Work[T]) -> T:
        try:
            return self._runner.run(work)
        except BaseException:
            self._broken = True
            raise

    @contextmanager
    def _acting(self, act: Act, reply: Reply) -> Iterator[None]:
        outer = self._act, self._database.reply
        self._act, self._database.reply = act, reply
        try:
            yield
        finally:
            self._act, self._database.reply = outer

    async def _witness(self) -> None:
        before, after = self.tables, await read(self._eyes)
        laws.check_change(before, after, self._act, self.now, self._top_fence)
        self._note_epochs(before, after)
        self._note_progress(before, after)
        laws.check_tables(after, self.keys)
        closed = [each.id for each in after.backfills.values() if not each.standing]
        for backfill_id in set(closed) - after.vanishing:
            stored = {at for chunk in after.of(backfill_id) for at in chunk.done}
            done = self.done[backfill_id]
            assert stored == done, f"{backfill_id} has {stored}, but {done} were done"
        fences = [chunk.fence or 0 for chunk in after.chunks.values()]
        fences += [chunk.write_fence or 0 for chunk in after.chunks.values()]
        fences += [cursor.fence for cursor in after.cursors.values()]
        self._top_fence = max(self._top_fence, *fences, 0)
        self.tables = after if after != before else before
        for gone in before.backfills.keys() - after.backfills:
            self.forget(gone)

    def _note_progress(self, before: Snapshot, after: Snapshot) -> None:
        """Progress that was accepted from a chunk's holder is done, and stays done."""
        for key, chunk in before.chunks.items():
            if chunk.status is Status.RUNNING and chunk != after.chunks.get(key):
                said = self._act.progress.get(key) if self._act.names(chunk) else None
                if said is not None:
                    self.done[chunk.backfill_id] |= done_of(chunk.first, said)

    def _note_epochs(self, before: Snapshot, after: Snapshot) -> None:
        for group, epoch in after.epochs.items():
            if epoch > before.epochs.get(group, 0):
                completed = before.completed(group)
                assert completed > self._epochs_seen.get(group, 0), "nothing was completed since"
                self._epochs_seen[group] = completed
                self.ask_for(f"drained-{group}-{epoch}", [str(epoch)])

    async def _others(self) -> None:
        """While a reply is lost, an hour passes and another worker takes what there is."""
        self.now += HOUR
        worker = WORKERS - 1
        wish = self.claim_request(worker)
        with self._acting(Act(Deed.CLAIM, owner=wish.owner), Reply.ARRIVES):
            self._take_up(worker, wish, await self.ledger.claim(wish))

    def _could_settle(self, backfill: Backfill) -> bool:
        if backfill.state.ended or self.tables.leased(backfill.id, self.now):
            return False
        if backfill.stopping is Stop.CANCEL:
            return True
        if backfill.state is not State.RUNNING or backfill.standing:
            return False
        whole = backfill.planned == backfill.chunk_total
        ended = all(chunk.status.ended for chunk in self.tables.of(backfill.id))
        return backfill.stopping is Stop.HALT or (whole and ended)

    # The model

    def is_news(self, rule: str, *, by_time: bool = True) -> bool:
        """Whether anything has changed since the rule was last applied."""
        tables, now = self._spent.get(rule, (None, 0.0))
        return tables is not self.tables or (by_time and now != self.now)

    def spend(self, rule: str) -> None:
        """Applying the rule again would show nothing new."""
        self._spent[rule] = self.tables, self.now

    def ask_for(self, backfill_id: str, keys: list[str]) -> None:
        self.keys[backfill_id] = keys
        self.done[backfill_id] = set()

    def forget(self, backfill_id: str) -> None:
        """The backfill was deleted, because its follow has no use for it any more."""
        del self.keys[backfill_id], self.done[backfill_id]

    def backfill(self, which: int) -> Backfill:
        return pick(list(self.tables.backfills.values()), which)

    def dead(self) -> list[Backfill]:
        """Backfills with dead letters that were neither purged nor retried."""
        dead = {
            chunk.backfill_id
            for chunk in self.tables.chunks.values()
            if chunk.status is Status.ABANDONED and chunk.purged_at is None
        }
        return [each for each in self.tables.backfills.values() if each.id in dead]

    def is_current(self, held: Held) -> bool:
        """Whether the chunk still runs under this claim's fence."""
        chunk = self.tables.chunks.get(held.key)
        return held.owns(chunk) and chunk.status is Status.RUNNING

    def _was_completed(self, held: Held) -> bool:
        """Whether the chunk was completed for its holder, who had done all of it and vanished."""
        chunk = self.tables.chunks.get(held.key)
        return held.owns(chunk) and chunk.status is Status.COMPLETE

    def zombies(self) -> list[Held]:
        """Void claims; first those whose chunks run under another claim."""
        void = [held for held in [*self.held, *self.past] if not self.is_current(held)]
        running = {each.key for each in self.tables.chunks.values() if each.status == "RUNNING"}
        return sorted(void, key=lambda held: held.key not in running)

    def part(self, held: Held) -> None:
        """The worker no longer believes it holds the chunk."""
        if held in self.held:
            self.held.remove(held)
            self.past.append(held)

    def _take_up(self, worker: int, wish: ClaimRequest, granted: list[Claim]) -> list[Held]:
        taken = []
        for claim in granted:
            chunk = self.tables.chunks[claim.backfill_id, claim.chunk_index]
            assert chunk.status is Status.RUNNING, f"{chunk} was granted"
            assert (chunk.fence, chunk.claim_id) == (claim.fence, wish.claim_id), f"not {chunk}"
            assert chunk.progress == Progress(claim.last_processed, claim.holes), f"not {chunk}"
            assert (chunk.first, chunk.last) == claim.span, f"not {chunk}"
            taken.append(Held(claim, worker, chunk.progress, chunk.progress))
        self.held += taken
        return taken

    def claim_request(
        self,
        worker: int,
        count: int = 4,
        queues: tuple[str, ...] = QUEUES,
        jobs: tuple[tuple[str, int], ...] = JOBS,
        only: str | None = None,
    ) -> ClaimRequest:
        claim_id = f"q{next(self.serial)}"
        return ClaimRequest(self.owner(worker), claim_id, queues, jobs, count, only)

    def owner(self, worker: int) -> str:
        return f"w{self.pids[worker]}"

    def process(self, worker: int) -> Process:
        return Process("host", self.pids[worker], "then")

    async def register(self, worker: int) -> None:
        await self.ledger.register(self.owner(worker), self.process(worker), {"default": 4})

    # After every step, and at the end

    @invariant()
    def the_ledger_agrees(self) -> None:
        """Its own check finds nothing, and its views equal the tables."""
        if self._checked is not self.tables:
            problems = self._run(self.ledger.check())
            assert problems == [], f"the ledger finds: {problems}"
            laws.check_shown(self.tables, self._run(self.ledger.backfills(limit=100)))
            self._checked = self.tables

    def teardown(self) -> None:
        try:
            if not self._broken:
                self._finish()
        finally:
            self._close()

    def _finish(self) -> None:
        """Nothing can hang: resumed, and with a worker that does its work, everything ends."""
        for backfill in list(self.tables.backfills.values()):
            if backfill.state is State.PAUSED and backfill.stopping is not Stop.CANCEL:
                self.do(Act(Deed.STEER), partial(self.ledger.resume, backfill.id))
        steps = 20 + 3 * sum(each.chunk_total for each in self.tables.backfills.values())
        while not all(map(self._is_over, self.tables.backfills.values())):
            assert steps, f"these hang: {self.tables}"
            steps -= 1
            self.now += 2 * HOUR
            self.end_all(self.claim_as(0, self.claim_request(0)))
            self.settle_all()
        for backfill in list(self.tables.backfills.values()):
            if backfill.standing and not backfill.state.ended:
                self.do(Act(Deed.STEER), partial(self.ledger.cancel, backfill.id))
        running = [key for key, chunk in self.tables.chunks.items() if chunk.status == "RUNNING"]
        assert not running, f"leases are left: {running}"
        self._checked = None
        self.the_ledger_agrees()

    def _is_over(self, backfill: Backfill) -> bool:
        chunks = self.tables.of(backfill.id)
        idle = backfill.stopping is None and all(chunk.status.ended for chunk in chunks)
        return backfill.state.ended or (backfill.standing and idle)

    # Coming and going

    async def _open(self) -> None:
        def bound() -> dict[str, Any]:
            return {"now": self.now, "actor": "machine", "shard": len(self.held) % 4}

        chances = cycle((0.0, 0.5, 0.9375))
        inner, self._eyes = await self._connect(bound)
        self._database = UnreliableDatabase(inner, self._prepare, self._witness, self._others)
        self.ledger = Ledger(self._database, "", System(chance=lambda: next(chances)))
        for worker in range(WORKERS):
            await self.register(worker)

    def _close(self) -> None:
        try:
            self._runner.run(self._disconnect())
        finally:
            self._runner.close()
            self._small_plans.stop()
            self._clean()

    async def _disconnect(self) -> None:
        if hasattr(self, "ledger"):
            await self._eyes.close()
            await self.ledger.close()


def pick(items: Sequence[T], which: int) -> T:
    """One of the items, for any number."""
    return items[which % len(items)]
