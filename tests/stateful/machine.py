"""A state machine that does to a real ledger whatever people, workers and mishaps do to one.

The machine holds its own model: what each worker believes to hold, what each backfill was asked
for, and which positions were done by writes that the ledger accepted. After every commit the laws
(`tests.stateful.laws`) compare the tables with the model and with the tables before; after every
step the ledger checks itself. At the end a simple driver shows that nothing can hang.

Clock, chance and the database's own randomness are bound, so a run is a function of its steps.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count, cycle
from typing import Any, TypeVar
from unittest.mock import patch

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from gapless.core.backfill import State, Stop
from gapless.core.chunk import Order, Status
from gapless.core.errors import Conflict, LeaseLost, UsageError, WrongState
from gapless.core.partitions import StaticScheme, blocks, static
from gapless.core.ranges import RangeSet
from gapless.core.retry import RetryKind, RetryPolicy
from gapless.core.selector import Explicit, Range, Selector, resolve, summary
from gapless.ledger import Ledger, claims
from gapless.ledger.database import Database, Transaction
from gapless.ledger.groups import Hook
from gapless.ledger.records import (
    BackfillRequest,
    Claim,
    ClaimRequest,
    Failure,
    Progress,
    Signal,
)
from gapless.ledger.workers import Process
from tests.stateful import laws
from tests.stateful.laws import Act, Deed
from tests.stateful.replies import Reply, UnreliableDatabase
from tests.stateful.tables import Backfill, Key, Snapshot, Tables, done_of, read

T = TypeVar("T")

WORKERS = 3
QUEUES = ("priority", "default", "backlog")
KNOWN = (("copy", 1), ("hook", 1))
LEASE = 60.0
HOUR = 3600.0
POLICIES = (
    RetryPolicy(RetryKind.BACKOFF, base=4, max_delay=30, retries=1, lost_limit=2),
    RetryPolicy(RetryKind.UNBOUNDED, base=4, max_delay=30, lost_limit=2),
    RetryPolicy(RetryKind.SCHEDULE, delays=(5, 50), lost_limit=3),
    RetryPolicy(RetryKind.HALT, lost_limit=2),
)
HOOK = msgspec.json.encode(Hook("hook", 1, "default", POLICIES[0])).decode()


@dataclass(frozen=True)
class Wish:
    """A backfill that someone may ask for."""

    shape: str = "range"
    partitions: int = 1
    chunk_size: int = 1
    max_concurrent: int = 1
    queue: str = "default"
    order: Order = Order.OLDEST
    retry: RetryKind = RetryKind.BACKOFF
    group: str | None = None
    lease: float = LEASE

    @property
    def keys(self) -> list[str]:
        """The partitions asked for, by position."""
        places = range(self.partitions)
        match self.shape:
            case "range":
                return [str(100 + at) for at in places]
            case "explicit":
                return [str(7 + 3 * at + at % 2) for at in places]
            case _:
                return [f"k{at * 5 % 13}" for at in places]

    def request(self, backfill_id: str) -> BackfillRequest:
        keys = self.keys
        scheme: StaticScheme | Any = blocks()
        selector: Selector = Explicit.of(reversed(keys))
        if self.shape == "range":
            selector = Range(keys[0], keys[-1])
        elif self.shape == "static":
            scheme, selector = static(sorted(keys)), Explicit.of(keys)
        return BackfillRequest(
            id=backfill_id,
            job="copy",
            job_version=1,
            selector=summary(selector),
            selection=resolve(selector, scheme),
            chunk_size=self.chunk_size,
            max_concurrent_runs=self.max_concurrent,
            queue=self.queue,
            order=self.order,
            retry=next(policy for policy in POLICIES if policy.kind is self.retry),
            lease_seconds=self.lease,
            group=self.group,
            hook=HOOK if self.group else None,
        )


WISHES = st.builds(
    Wish,
    shape=st.sampled_from(["range", "explicit", "static"]),
    partitions=st.integers(1, 12),
    chunk_size=st.integers(1, 5),
    max_concurrent=st.integers(1, 4),
    queue=st.sampled_from(["default", "priority", "backlog"]),
    order=st.sampled_from(Order),
    retry=st.sampled_from(RetryKind),
    group=st.sampled_from([None, "g"]),
    lease=st.sampled_from([LEASE, 10.0]),
)
ANY = st.integers(0, 11)
WORKER = st.integers(0, WORKERS - 1)
REPLIES = st.sampled_from([Reply.ARRIVES, *Reply])


@dataclass
class Held:
    """A claim as its worker knows it."""

    claim: Claim
    worker: int
    progress: Progress
    past: list[Progress] = field(default_factory=list)

    @property
    def key(self) -> Key:
        return self.claim.backfill_id, self.claim.chunk_index

    def ahead(self, steps: int, hole: bool) -> Progress:
        """The progress after some more positions, the last of which may be a hole."""
        first, last = self.claim.span
        done = self.progress.last_processed
        at = min((first - 1 if done is None else done) + steps, last)
        if at < first or at == done:
            return self.progress
        holes = self.progress.holes
        return Progress(at, holes | RangeSet.of((at, at)) if hole else holes)


class LedgerMachine(RuleBasedStateMachine):
    """The machine without a database; `_open` brings one."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_000_000.0
        self.act = Act(Deed.OTHER)
        self.tables = Snapshot()
        self.top_fence = 0
        self.keys: dict[str, list[str]] = {}
        self.done: dict[str, set[int]] = {}
        self.requests: dict[str, BackfillRequest] = {}
        self.children: dict[tuple[str, str], str] = {}
        self.epochs_seen: dict[str, int] = {}
        self.held: list[Held] = []  # by workers that live
        self.past: list[Held] = []  # ended, lost, or their worker crashed
        self.pids = [1 + at for at in range(WORKERS)]
        self.serial = count(1)
        self.chances = cycle((0.0, 0.5, 0.9375))
        self.checked: Snapshot | None = None
        self.broken = False
        self._small_plans = patch.object(claims, "PLAN_AHEAD", 2)
        self._small_plans.start()
        self.runner = asyncio.Runner()
        try:
            self._run(self._start())
        except BaseException:
            self._shut()
            raise

    # What a database brings

    async def _open(self, bound: Callable[[], dict[str, Any]]) -> tuple[Database, Tables]:
        raise NotImplementedError

    async def _prepare(self, tx: Transaction) -> None:
        """Binds the database's own randomness for a transaction."""

    async def _clean(self) -> None:
        """Removes what `_open` made."""

    # People

    @initialize(wish=WISHES)
    def begin(self, wish: Wish) -> None:
        self.create(wish)

    @precondition(lambda self: len(self.requests) < 4)
    @rule(wish=WISHES, reply=REPLIES)
    def create(self, wish: Wish, reply: Reply = Reply.ARRIVES) -> None:
        request = wish.request(f"b{next(self.serial)}")
        self.requests[request.id] = request
        self._ask_for(request.id, wish.keys)
        made = self._do(Act(Deed.OTHER), lambda: self.ledger.create(request), reply)
        assert (made.id, made.partitions, made.state) == (request.id, len(wish.keys), State.PENDING)

    @precondition(lambda self: self.requests)
    @rule(which=ANY, other=st.booleans())
    def create_again(self, which: int, other: bool) -> None:
        request = _pick(list(self.requests.values()), which)
        before = self.tables
        if other:
            changed = dataclasses.replace(request, chunk_size=request.chunk_size + 1)
            self._refused(Conflict, lambda: self.ledger.create(changed))
        else:
            self._do(Act(Deed.OTHER), lambda: self.ledger.create(request))
        assert self.tables == before, "a repeated request changed something"

    @precondition(lambda self: self.tables.backfills)
    @rule(which=ANY, reply=REPLIES)
    def pause(self, which: int, reply: Reply = Reply.ARRIVES) -> None:
        backfill = self._backfill(which)
        paused = backfill.state is State.PAUSED and backfill.stopping is not Stop.CANCEL
        possible = not backfill.state.ended and (paused or backfill.stopping is None)
        self._steer(backfill, possible, lambda: self.ledger.pause(backfill.id), reply)
        if possible and reply is not Reply.LATE:
            assert self.tables.backfills[backfill.id].state is State.PAUSED

    @precondition(lambda self: self.tables.backfills)
    @rule(which=ANY, reply=REPLIES)
    def resume(self, which: int, reply: Reply = Reply.ARRIVES) -> None:
        backfill = self._backfill(which)
        stopping = backfill.stopping
        paused = backfill.state is State.PAUSED and stopping is not Stop.CANCEL
        possible = not backfill.state.ended and (paused or stopping is None)
        self._steer(backfill, possible, lambda: self.ledger.resume(backfill.id), reply)
        if possible:
            assert self.tables.backfills[backfill.id].state is not State.PAUSED

    @precondition(lambda self: self.tables.backfills)
    @rule(which=ANY, force=st.booleans(), reply=REPLIES)
    def cancel(self, which: int, force: bool, reply: Reply = Reply.ARRIVES) -> None:
        backfill = self._backfill(which)
        possible = backfill.state not in (State.SUCCEEDED, State.FAILED)
        self._steer(
            backfill, possible, lambda: self.ledger.cancel(backfill.id, force=force), reply, force
        )
        if possible:
            left = self.tables.of(backfill.id, Status.PENDING, Status.FAILED)
            assert not left, f"{left} are not cancelled"
            cancelled = self.tables.backfills[backfill.id].state is State.CANCELLED
            leased = self.tables.of(backfill.id, Status.RUNNING)
            assert cancelled == (not leased) or not force, f"{leased} survive"

    def _steer(
        self,
        backfill: Backfill,
        possible: bool,
        command: Callable[[], Coroutine[Any, Any, Any]],
        reply: Reply,
        force: bool = False,
    ) -> None:
        act = Act(Deed.FORCE if force else Deed.STEER)
        if possible:
            shown = self._do(act, command, reply)
            assert shown.id == backfill.id
        else:
            self._refused(WrongState, command)

    @precondition(lambda self: self.tables.backfills)
    @rule(which=ANY, count=st.integers(1, 3), reply=REPLIES)
    def plan(self, which: int, count: int, reply: Reply = Reply.ARRIVES) -> None:
        backfill = self._backfill(which)
        planned = self._do(
            Act(Deed.PLAN), lambda: self.ledger.plan(backfill.id, count), reply
        )
        if reply is Reply.ARRIVES:
            left = backfill.chunk_total - backfill.planned if backfill.active else 0
            assert planned == min(count, left), f"{planned} planned of {left}"

    @precondition(lambda self: 0 < len(self.tables.backfills) < 9)
    @rule(which=ANY, request=st.sampled_from([None, "a", "b"]), reply=REPLIES)
    def retry_failed(self, which: int, request: str | None, reply: Reply = Reply.ARRIVES) -> None:
        parent = self._backfill(which)
        name = request or f"{parent.id}:{parent.state_version}"
        missing = set(range(parent.partitions)) - self.done[parent.id]
        possible = parent.state in (State.FAILED, State.CANCELLED) and bool(missing)
        self._retry(
            parent,
            name,
            missing if possible else None,
            lambda child: self.ledger.retry_failed(parent.id, child, request),
            reply,
        )

    @precondition(lambda self: 0 < len(self.tables.backfills) < 9 and self._dead())
    @rule(which=ANY, some=st.integers(0, 7), reply=REPLIES)
    def retry_dead(self, which: int, some: int, reply: Reply = Reply.ARRIVES) -> None:
        parent = _pick(self._dead(), which)
        dead = {
            chunk.index: chunk
            for chunk in self.tables.of(parent.id, Status.ABANDONED)
            if chunk.purged_at is None
        }
        wanted = [index for nth, index in enumerate(dead) if some & 1 << nth]
        missing = {at for index in wanted for at in dead[index].missing}
        self._retry(
            parent,
            "dead:" + ",".join(map(str, wanted)),
            missing or None,
            lambda child: self.ledger.retry_dead(parent.id, child, wanted),
            reply,
        )

    def _retry(
        self,
        parent: Backfill,
        name: str,
        missing: set[int] | None,
        retry: Callable[[str], Coroutine[Any, Any, Any]],
        reply: Reply,
    ) -> None:
        """A child holds what its parent lacks; asked again, it is the same child."""
        known = self.children.get((parent.id, name))
        child = f"c{next(self.serial)}"
        before = self.tables
        if known is not None:
            assert self._do(Act(Deed.OTHER), lambda: retry(child), reply).id == known
            assert self.tables == before, "a repeated request changed something"
        elif missing is None:
            self._refused(UsageError, lambda: retry(child))
        else:
            keys = [self.keys[parent.id][at] for at in sorted(missing)]
            self._ask_for(child, keys)
            made = self._do(Act(Deed.OTHER), lambda: retry(child), reply)
            assert made.id == child
            assert made.parent_backfill_id == parent.id
            assert self._run(self._selected(made.selection)) == keys
            self.children[parent.id, name] = child

    @precondition(lambda self: self._dead())
    @rule(which=ANY)
    def purge(self, which: int) -> None:
        backfill = _pick(self._dead(), which)
        self._do(Act(Deed.OTHER), lambda: self.ledger.purge(backfill.id))
        assert backfill not in self._dead()

    @precondition(lambda self: any(each.state.ended for each in self.tables.backfills.values()))
    @rule(reply=REPLIES)
    def compact(self, reply: Reply = Reply.ARRIVES) -> None:
        before = self.tables
        self._do(Act(Deed.OTHER), self.ledger.compact, reply)
        if reply is not Reply.LATE:
            unchanged = dataclasses.replace(self.tables, events=before.events)
            assert unchanged == before, "compacting changed more than the events"

    # Workers

    @rule(
        worker=WORKER,
        count=st.integers(1, 4),
        queues=st.permutations(QUEUES),
        many=st.integers(1, 3),
        hooks=st.booleans(),
        reply=REPLIES,
    )
    def claim(
        self,
        worker: int,
        count: int = 4,
        queues: Sequence[str] = QUEUES,
        many: int = 3,
        hooks: bool = True,
        reply: Reply = Reply.ARRIVES,
    ) -> None:
        jobs = KNOWN if hooks else KNOWN[:1]
        self._claim(worker, tuple(queues[:many]), jobs, count, None, reply)

    @precondition(lambda self: self.tables.backfills)
    @rule(worker=WORKER, count=st.integers(1, 4), which=ANY)
    def claim_only(self, worker: int, count: int, which: int) -> None:
        self._claim(worker, QUEUES, KNOWN, count, self._backfill(which).id, Reply.ARRIVES)

    def _claim(
        self,
        worker: int,
        queues: tuple[str, ...],
        jobs: tuple[tuple[str, int], ...],
        count: int,
        only: str | None,
        reply: Reply,
    ) -> list[Held]:
        request = self._claim_request(worker, queues, jobs, count, only)
        before, now = self.tables, self.now
        act = Act(Deed.CLAIM, owner=request.owner)
        granted = self._do(act, lambda: self.ledger.claim(request), reply)
        self._take_up(worker, request, granted)
        if reply is not Reply.LATE:
            _check_granted(before, request, granted, now)
        return self.held[len(self.held) - len(granted) :]

    @rule(worker=WORKER, steps=st.integers(0, 3), hole=st.booleans(), reply=REPLIES)
    def heartbeat(
        self, worker: int, steps: int, hole: bool = False, reply: Reply = Reply.ARRIVES
    ) -> None:
        """One heartbeat for all that a worker believes to hold."""
        mine = [held for held in self.held if held.worker == worker]
        ahead = {held.key: held.ahead(steps, hole) for held in mine}
        expected = {held.claim.chunk_id: self._signal(held) for held in mine}
        beats = [(held.claim, ahead[held.key]) for held in mine]
        act = Act(Deed.BEAT, claims=tuple(held.claim for held in mine), progress=ahead)
        signals = self._do(act, lambda: self.ledger.heartbeat(beats), reply)
        if reply is not Reply.LATE:
            assert signals == expected
        for held in mine:
            if signals[held.claim.chunk_id] is Signal.LOST:
                self._part(held)
            else:
                held.past.append(held.progress)
                held.progress = ahead[held.key]

    @precondition(lambda self: self.held)
    @rule(which=ANY, steps=st.integers(0, 3))
    def hold(self, which: int, steps: int) -> None:
        """A job's own transaction, which carries its progress."""
        held = _pick(self.held, which)
        ahead = held.ahead(steps, False)

        async def work() -> None:
            async with self.ledger.holding(held.claim, lambda: ahead) as tx:
                await tx.execute("SELECT 1")

        act = Act(Deed.BEAT, claims=(held.claim,), progress={held.key: ahead})
        if self._is_current(held):
            self._do(act, work)
            held.past.append(held.progress)
            held.progress = ahead
        else:
            self._refused(LeaseLost, work)
            self._part(held)

    @precondition(lambda self: any(held.past for held in self.held))
    @rule(which=ANY, past=ANY)
    def late_heartbeat(self, which: int, past: int) -> None:
        """A heartbeat that was sent before others and arrives after them takes nothing back."""
        held = _pick([held for held in self.held if held.past], which)
        beat = [(held.claim, _pick(held.past, past))]
        act = Act(Deed.BEAT, claims=(held.claim,), progress={held.key: held.progress})
        self._do(act, lambda: self.ledger.heartbeat(beat))

    @rule(worker=WORKER, most=st.integers(1, 4), reply=REPLIES)
    def complete(self, worker: int, most: int = 4, reply: Reply = Reply.ARRIVES) -> None:
        """A worker completes, in one go, chunks that have no holes."""
        mine = [held for held in self.held if held.worker == worker and not held.progress.holes]
        self._complete(mine[:most], reply)

    def _complete(self, mine: list[Held], reply: Reply = Reply.ARRIVES) -> None:
        given = tuple(held.claim for held in mine)
        whole = {held.key: Progress(held.claim.span.last) for held in mine}
        expected = {held.claim.chunk_id for held in mine if not self._is_current(held)}
        act = Act(Deed.COMPLETE, claims=given, progress=whole)
        lost = self._do(act, lambda: self.ledger.complete(given), reply)
        assert lost == expected, f"{lost} were lost, not {expected}"
        for held in mine:
            self._part(held)

    @precondition(lambda self: self.held)
    @rule(
        which=ANY,
        steps=st.integers(0, 3),
        hole=st.booleans(),
        permanent=st.booleans(),
        reply=REPLIES,
    )
    def fail(
        self,
        which: int,
        steps: int = 0,
        hole: bool = False,
        permanent: bool = False,
        reply: Reply = Reply.ARRIVES,
    ) -> None:
        held = _pick(self.held, which)
        self._fail(held, held.ahead(steps, hole), permanent, reply)

    def _fail(self, held: Held, ahead: Progress, permanent: bool, reply: Reply) -> None:
        current = self._is_current(held)
        failure = Failure(held.claim, ahead, "Boom", "it broke", permanent)
        act = Act(
            Deed.FAIL, claims=(held.claim,), progress={held.key: ahead}, permanent=permanent
        )
        verdict = self._do(act, lambda: self.ledger.fail(failure), reply)
        if current and reply is not Reply.LATE:
            assert verdict is not None
            assert verdict.status is self.tables.chunks[held.key].status or (
                verdict.status is Status.FAILED  # swept at once
            )
        self._part(held)

    @precondition(lambda self: self.held)
    @rule(which=ANY, steps=st.integers(0, 3), hole=st.booleans(), reply=REPLIES)
    def release(
        self, which: int, steps: int = 0, hole: bool = False, reply: Reply = Reply.ARRIVES
    ) -> None:
        held = _pick(self.held, which)
        ahead = held.ahead(steps, hole)
        current = self._is_current(held)
        act = Act(Deed.RELEASE, claims=(held.claim,), progress={held.key: ahead})
        ours = self._do(act, lambda: self.ledger.release(held.claim, ahead), reply)
        if reply is not Reply.LATE:
            assert ours == current
        self._part(held)

    @rule(worker=WORKER)
    def work(self, worker: int) -> None:
        """A good day: everything that can be claimed is completed."""
        for _ in range(8):
            if not (taken := self._claim(worker, QUEUES, KNOWN, 4, None, Reply.ARRIVES)):
                break
            self._end_all(taken)

    @rule()
    def idle(self) -> None:
        """What every idle worker does: settle, and close the epochs of drained groups."""
        self._idle()

    # Mishaps

    @rule(worker=WORKER, same_host=st.booleans(), reply=REPLIES)
    def crash(
        self, worker: int, same_host: bool = False, reply: Reply = Reply.ARRIVES
    ) -> None:
        """A worker is gone with all it held; a new one may free its leases."""
        for held in [held for held in self.held if held.worker == worker]:
            self._part(held)
        dead = self._owner(worker)
        self.pids[worker] = max(self.pids) + 1
        self._run(self._register(worker))
        if same_host:
            act = Act(Deed.FREE, dead={dead, *self._dead_owners()})
            process = self._process(worker)
            self._do(
                act,
                lambda: self.ledger.free_dead(process, lambda other: other.pid in self.pids),
                reply,
            )

    @rule(seconds=st.sampled_from([1.0, 7.0, LEASE + 1, HOUR, -1.0, -LEASE - 2, -HOUR]))
    def jump(self, seconds: float) -> None:
        self.now += seconds

    @precondition(lambda self: self._zombies())
    @rule(which=ANY, how=st.sampled_from(["beat", "complete", "fail", "release", "hold"]))
    def zombie(self, which: int, how: str) -> None:
        """Someone whose lease has gone, or has ended, comes back: nothing may change."""
        held = _pick(self._zombies(), which)
        claim, said = held.claim, held.progress
        chunk = self.tables.chunks[held.key]
        own = chunk.fence == claim.fence
        before = self.tables
        match how:
            case "beat":
                beat = [(claim, said)]
                signals = self._do(Act(Deed.OTHER), lambda: self.ledger.heartbeat(beat))
                assert signals == {claim.chunk_id: Signal.LOST}
            case "complete":
                lost = self._do(Act(Deed.OTHER), lambda: self.ledger.complete([claim]))
                assert (not lost) == (own and chunk.status is Status.COMPLETE)
            case "fail":
                failure = Failure(claim, said, "Late", "too late")
                verdict = self._do(Act(Deed.OTHER), lambda: self.ledger.fail(failure))
                assert own or verdict is None
            case "release":
                ours = self._do(Act(Deed.OTHER), lambda: self.ledger.release(claim, said))
                assert ours == (own and chunk.status is Status.PENDING)
            case _:
                self._refused(LeaseLost, lambda: self._hold_nothing(claim))
        assert self.tables == before, f"a zombie changed something by `{how}`"

    # Laws after every step

    @invariant()
    def the_ledger_agrees(self) -> None:
        if self.checked is not self.tables:
            problems = self._run(self.ledger.check())
            assert problems == []
            self.checked = self.tables

    def teardown(self) -> None:
        try:
            if not self.broken:
                self._finish()
        finally:
            self._shut()

    def _finish(self) -> None:
        """Nothing can hang: resumed, and with workers that do their work, everything ends."""
        for backfill in list(self.tables.backfills.values()):
            if backfill.state is State.PAUSED and backfill.stopping is not Stop.CANCEL:
                self._do(Act(Deed.STEER), lambda each=backfill.id: self.ledger.resume(each))  # type: ignore[misc]
        bound = 20 + 3 * sum(each.chunk_total for each in self.tables.backfills.values())
        for _ in range(bound):
            if all(each.state.ended for each in self.tables.backfills.values()):
                break
            self.now += 2 * HOUR
            self._end_all(self._claim(0, QUEUES, KNOWN, 4, None, Reply.ARRIVES))
            self._idle()
        left = [each for each in self.tables.backfills.values() if not each.state.ended]
        assert not left, f"these hang: {left}, {[self.tables.of(each.id) for each in left]}"
        running = [chunk for chunk in self.tables.chunks.values() if chunk.status == "RUNNING"]
        assert not running, f"leases are left: {running}"
        assert self._run(self.ledger.check()) == []

    # Doing things, and witnessing them

    def _do(
        self,
        act: Act,
        operation: Callable[[], Coroutine[Any, Any, T]],
        reply: Reply = Reply.ARRIVES,
    ) -> T:
        async def done() -> T:
            with self._acting(act, reply):
                return await operation()

        return self._run(done())

    def _refused(
        self, error: type[Exception], operation: Callable[[], Coroutine[Any, Any, Any]]
    ) -> None:
        before = self.tables
        try:
            self._do(Act(Deed.OTHER), operation)
        except error:
            assert self.tables == before
            self.broken = False
        else:
            self.broken = True
            raise AssertionError(f"no {error.__name__}")

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return self.runner.run(work)
        except BaseException:
            self.broken = True
            raise

    @contextmanager
    def _acting(self, act: Act, reply: Reply) -> Iterator[None]:
        outer = self.act, self.database.reply
        self.act, self.database.reply = act, reply
        try:
            yield
        finally:
            self.act, self.database.reply = outer

    async def _witness(self) -> None:
        before, after = self.tables, await read(self.eyes)
        laws.check_change(before, after, self.act, self.now, self.top_fence)
        self._note_epochs(before, after)
        for key, chunk in after.chunks.items():
            old = before.chunks.get(key)
            if old is not None and old != chunk and old.status is Status.RUNNING:
                said = self.act.progress.get(key) if self.act.names(old) else None
                if said is not None:
                    self.done[key[0]] |= done_of(chunk.first, said)
        laws.check_tables(after, self.keys)
        for backfill_id in after.backfills:
            stored = {at for chunk in after.of(backfill_id) for at in chunk.done}
            assert stored == self.done[backfill_id], f"{backfill_id} has done {stored}"
        fences = (chunk.fence or 0 for chunk in after.chunks.values())
        self.top_fence = max(self.top_fence, *fences, 0)
        self.tables = after if after != before else before

    def _note_epochs(self, before: Snapshot, after: Snapshot) -> None:
        for group, epoch in after.epochs.items():
            if epoch > before.epochs.get(group, 0):
                completed = before.completed(group)
                assert completed > self.epochs_seen.get(group, 0), "nothing was completed since"
                self.epochs_seen[group] = completed
                self._ask_for(f"drained-{group}-{epoch}", [str(epoch)])

    async def _others(self) -> None:
        """While a reply is lost, an hour passes and somebody else takes what there is."""
        self.now += HOUR
        worker = WORKERS - 1
        request = self._claim_request(worker, QUEUES, KNOWN, 4, None)
        with self._acting(Act(Deed.CLAIM, owner=request.owner), Reply.ARRIVES):
            self._take_up(worker, request, await self.ledger.claim(request))

    def _idle(self) -> None:
        ended = self._do(Act(Deed.IDLE), self.ledger.settle)
        for backfill_id in ended:
            assert self.tables.backfills[backfill_id].state.ended
        for backfill in self.tables.backfills.values():
            assert not self._could_settle(backfill), f"{backfill} was not settled"
        self._do(Act(Deed.IDLE), self.ledger.close_epochs)
        for group in self.tables.epochs:
            news = self.tables.completed(group) > self.epochs_seen.get(group, 0)
            assert self.tables.busy(group) or not news, f"the epoch of {group} was not closed"

    def _could_settle(self, backfill: Backfill) -> bool:
        if backfill.state.ended or self.tables.leased(backfill.id, self.now):
            return False
        if backfill.stopping is Stop.CANCEL:
            return True
        if backfill.state is not State.RUNNING:
            return False
        whole = backfill.planned == backfill.chunk_total
        ended = all(chunk.status.ended for chunk in self.tables.of(backfill.id))
        return backfill.stopping is Stop.HALT or (whole and ended)

    def _end_all(self, taken: list[Held]) -> None:
        """Completes claims, or, where there are holes, gives up on those alone."""
        self._complete([held for held in taken if not held.progress.holes])
        for held in [held for held in taken if held.progress.holes]:
            ahead = Progress(held.claim.span.last, held.progress.holes)
            self._fail(held, ahead, True, Reply.ARRIVES)

    # The model

    def _ask_for(self, backfill_id: str, keys: list[str]) -> None:
        self.keys[backfill_id] = keys
        self.done[backfill_id] = set()

    def _backfill(self, which: int) -> Backfill:
        return _pick(list(self.tables.backfills.values()), which)

    def _dead(self) -> list[Backfill]:
        """Backfills with dead letters that nobody has purged or retried."""
        chunks = self.tables.chunks.values()
        dead = {
            chunk.backfill_id
            for chunk in chunks
            if chunk.status is Status.ABANDONED and chunk.purged_at is None
        }
        return [each for each in self.tables.backfills.values() if each.id in dead]

    def _is_current(self, held: Held) -> bool:
        """Whether the chunk still runs under this claim's fence."""
        chunk = self.tables.chunks[held.key]
        return chunk.status is Status.RUNNING and chunk.fence == held.claim.fence

    def _zombies(self) -> list[Held]:
        return [held for held in [*self.held, *self.past] if not self._is_current(held)]

    def _signal(self, held: Held) -> Signal:
        backfill = self.tables.backfills[held.claim.backfill_id]
        if not self._is_current(held):
            return Signal.LOST
        if backfill.stopping is Stop.CANCEL:
            return Signal.STOP
        return Signal.PAUSE if backfill.state is State.PAUSED else Signal.GO_ON

    def _part(self, held: Held) -> None:
        self.held = [each for each in self.held if each is not held]
        self.past.append(held)

    def _take_up(self, worker: int, request: ClaimRequest, granted: list[Claim]) -> None:
        for claim in granted:
            chunk = self.tables.chunks[claim.backfill_id, claim.chunk_index]
            assert chunk.status is Status.RUNNING, f"{chunk} was granted"
            assert (chunk.fence, chunk.claim_id) == (claim.fence, request.claim_id)
            assert chunk.progress == Progress(claim.last_processed, claim.holes)
            assert (chunk.first, chunk.last) == claim.span
            self.held.append(Held(claim, worker, chunk.progress))

    def _claim_request(
        self,
        worker: int,
        queues: tuple[str, ...],
        jobs: tuple[tuple[str, int], ...],
        count: int,
        only: str | None,
    ) -> ClaimRequest:
        claim_id = f"q{next(self.serial)}"
        return ClaimRequest(self._owner(worker), claim_id, queues, jobs, count, only)

    def _owner(self, worker: int) -> str:
        return f"w{self.pids[worker]}"

    def _dead_owners(self) -> set[str]:
        return {f"w{pid}" for pid in range(1, max(self.pids)) if pid not in self.pids}

    def _process(self, worker: int) -> Process:
        return Process("host", self.pids[worker], "then")

    async def _register(self, worker: int) -> None:
        slots = {"default": 4}
        await self.ledger.register(self._owner(worker), self._process(worker), slots)

    async def _selected(self, digest: str) -> list[str]:
        selection = await self.ledger.selection(digest)
        return [selection.key(at) for at in range(len(selection))]

    async def _hold_nothing(self, claim: Claim) -> None:
        async with self.ledger.holding(claim, lambda: Progress(claim.span.last)):
            pass

    # Coming and going

    async def _start(self) -> None:
        def bound() -> dict[str, Any]:
            return {"now": self.now, "actor": "machine", "shard": len(self.held) % 4}

        inner, self.eyes = await self._open(bound)
        self.database = UnreliableDatabase(inner, self._prepare, self._witness, self._others)
        self.ledger = Ledger(self.database, "", lambda: next(self.chances))
        for worker in range(WORKERS):
            await self._register(worker)

    async def _stop(self) -> None:
        if hasattr(self, "ledger"):
            await self.eyes.close()
            await self.ledger.close()
        await self._clean()

    def _shut(self) -> None:
        try:
            self.runner.run(self._stop())
        finally:
            self.runner.close()
            self._small_plans.stop()


def _pick(items: Sequence[T], which: int) -> T:
    return items[which % len(items)]


def _check_granted(
    before: Snapshot, request: ClaimRequest, granted: list[Claim], now: float
) -> None:
    """A worker gets as much as there is and as it asked for, from the first queue with work."""
    assert len(granted) <= request.count
    backfills = {claim.backfill_id for claim in granted}
    assert len(backfills) <= 1, f"one claim on {backfills}"
    fits = [
        each
        for each in before.backfills.values()
        if each.active
        and each.queue in request.queues
        and (each.job, each.job_version) in request.jobs
        and request.only in (None, each.id)
    ]
    assert backfills <= {each.id for each in fits}, f"{granted} was not wished for"
    if any(before.of(each.id, Status.RUNNING) != before.leased(each.id, now) for each in fits):
        return  # what becomes of ended leases is not known beforehand
    ready = {
        each.id: min(
            each.max_concurrent_runs - len(before.of(each.id, Status.RUNNING)),
            before.takeable(each.id, now),
            request.count,
        )
        for each in fits
    }
    queues = [
        [each.id for each in fits if each.queue == queue and ready[each.id] > 0]
        for queue in request.queues
    ]
    first = next((found for found in queues if found), [])
    if not first:
        assert not granted, f"{granted} was not there to take"
        return
    assert backfills <= set(first), f"{granted} before {first}"
    assert granted, f"nothing was granted, although {first} have work"
    assert len(granted) == ready[granted[0].backfill_id], f"{granted} of {ready}"
