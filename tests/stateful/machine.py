"""A state machine that does to a real ledger whatever people, workers and mishaps do to one.

Each rule knows the expected result from the model; in addition, the laws check every commit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from gapless.core.backfill import State, Stop
from gapless.core.chunk import Status
from gapless.core.errors import Conflict, LeaseLost, UsageError, WrongState
from gapless.ledger.records import BackfillRequest, Claim, Failure, Progress, Signal
from tests.stateful.followers import Followers
from tests.stateful.laws import Act, Deed
from tests.stateful.replies import Reply
from tests.stateful.stage import HOUR, WORKERS, Held, Stage, Work, pick
from tests.stateful.tables import Backfill
from tests.stateful.wishes import JOBS, LEASE, QUEUES, WISHES, Wish
from tests.support import plan

ANY = st.integers(0, 11)
WORKER = st.integers(0, WORKERS - 1)
STEPS = st.integers(0, 3)
RARELY = st.sampled_from([False, False, False, True])
REPLIES = st.sampled_from([Reply.ARRIVES, Reply.ARRIVES, *Reply])
COMMANDS = st.sampled_from(["toggle", "toggle", "toggle", "pause", "resume", "cancel", "force"])
JUMPS = (1.0, 7.0, 7.0, LEASE + 1, HOUR, -1.0, -LEASE - 2, -HOUR)


class People(Stage):
    """Those who create, control and retry backfills."""

    def __init__(self) -> None:
        self.requests: dict[str, BackfillRequest] = {}
        self.children: dict[tuple[str, str], str] = {}
        self.retried_dead: dict[str, set[int]] = {}
        super().__init__()

    def forget(self, backfill_id: str) -> None:
        super().forget(backfill_id)
        self.requests.pop(backfill_id, None)
        kept = {key: child for key, child in self.children.items() if child != backfill_id}
        self.children = {key: child for key, child in kept.items() if key[0] != backfill_id}

    @initialize(wishes=st.lists(WISHES, min_size=1, max_size=2))
    def begin(self, wishes: list[Wish]) -> None:
        for wish in wishes:
            self.create(wish)

    @precondition(lambda self: len(self.requests) < 5)
    @rule(wish=WISHES, reply=REPLIES)
    def create(self, wish: Wish, reply: Reply = Reply.ARRIVES) -> None:
        request = wish.request(f"b{next(self.serial)}")
        self.requests[request.id] = request
        self.ask_for(request.id, wish.keys)
        made = self.do(Act(Deed.OTHER), lambda: self.ledger.create(request), reply)
        assert (made.id, made.partitions) == (request.id, len(wish.keys))

    @precondition(lambda self: self.requests and self.is_news("create again", by_time=False))
    @rule(which=ANY, other=st.booleans())
    def create_again(self, which: int, other: bool) -> None:
        request = pick(list(self.requests.values()), which)
        before = self.tables
        if other:
            changed = dataclasses.replace(request, chunk_size=request.chunk_size + 1)
            self.refused(Conflict, lambda: self.ledger.create(changed))
        else:
            self.do(Act(Deed.OTHER), lambda: self.ledger.create(request))
        assert self.tables == before, "a repeated request changed something"
        self.spend("create again")

    @rule(which=ANY, commands=st.lists(COMMANDS, min_size=1, max_size=3), reply=REPLIES)
    def steer(self, which: int, commands: list[str], reply: Reply = Reply.ARRIVES) -> None:
        """Commands to one backfill: if possible one at work, or one that has not ended.

        To toggle is to pause, or to resume if it is paused.
        """
        every = list(self.tables.backfills.values())
        unended = [each for each in every if not each.state.ended]
        at_work = [each for each in unended if self.tables.leased(each.id, self.now)]
        target = pick((at_work or unended or every, unended or every, every)[which % 3], which).id
        for command in commands:
            backfill = self.tables.backfills[target]
            other = "resume" if backfill.state is State.PAUSED else "pause"
            self._command(backfill, other if command == "toggle" else command, reply)

    def _command(self, backfill: Backfill, command: str, reply: Reply) -> None:
        state, stopping = backfill.state, backfill.stopping
        open_end = not state.ended and stopping is not Stop.CANCEL
        ledger, name = self.ledger, backfill.id
        match command:
            case "pause":
                possible = open_end and (state is State.PAUSED or stopping is None)
                self._steer(possible, lambda: ledger.pause(name), reply)
            case "resume":
                self._steer(open_end, lambda: ledger.resume(name), reply)
            case _:
                possible = not state.ended or state is State.CANCELLED
                force = command == "force"
                self._steer(possible, lambda: ledger.cancel(name, force=force), reply, force)
        self._check_steered(backfill, command)

    def _steer(
        self, possible: bool, command: Callable[[], Work[Any]], reply: Reply, force: bool = False
    ) -> None:
        if possible:
            self.do(Act(Deed.FORCE if force else Deed.STEER), command, reply)
        else:
            self.refused(WrongState, command)

    def _check_steered(self, was: Backfill, command: str) -> None:
        now_is = self.tables.backfills[was.id]
        open_chunks = [chunk for chunk in self.tables.of(was.id) if not chunk.status.ended]
        if command == "pause":
            assert now_is.state is not State.RUNNING or now_is.stopping, f"{now_is} goes on"
        elif command == "resume":
            assert now_is.state is not State.PAUSED or now_is.stopping, f"{now_is} stands"
        elif was.state not in (State.SUCCEEDED, State.FAILED):
            assert all(chunk.status is Status.RUNNING for chunk in open_chunks), f"{open_chunks}"
            assert command != "force" or now_is.state is State.CANCELLED, f"{now_is} goes on"

    @precondition(lambda self: any(not each.state.ended for each in self.tables.backfills.values()))
    @rule(which=ANY, count=st.integers(1, 3), reply=REPLIES)
    def plan(self, which: int, count: int, reply: Reply = Reply.ARRIVES) -> None:
        backfill = self.backfill(which)
        planned = self.do(Act(Deed.PLAN), lambda: plan(self.ledger, backfill.id, count), reply)
        if reply is Reply.ARRIVES:
            left = backfill.chunk_total - backfill.planned if backfill.active else 0
            assert planned == min(count, left), f"{planned} planned of {left}"

    @precondition(lambda self: len(self.tables.backfills) < 9)
    @rule(which=ANY, request=st.sampled_from([None, "a", "b"]), reply=REPLIES)
    def retry_failed(self, which: int, request: str | None, reply: Reply = Reply.ARRIVES) -> None:
        parent = self.backfill(which)
        missing = set(range(parent.partitions)) - self.done[parent.id]
        missing -= self.retried_dead.get(parent.id, set())
        retriable = parent.state in (State.FAILED, State.CANCELLED) and not parent.standing
        retriable = retriable and parent.id not in self.tables.vanishing
        self._retry(
            parent,
            request or f"{parent.id}:{parent.state_version}",
            missing if retriable else set(),
            lambda child: self.ledger.retry_failed(parent.id, child, request),
            reply,
        )

    @precondition(lambda self: len(self.tables.backfills) < 9 and self.dead())
    @rule(which=ANY, some=st.integers(0, 7), reply=REPLIES)
    def retry_dead(self, which: int, some: int, reply: Reply = Reply.ARRIVES) -> None:
        parent = pick(self.dead(), which)
        dead = {
            chunk.index: chunk.missing
            for chunk in self.tables.of(parent.id, Status.ABANDONED)
            if chunk.purged_at is None
        }
        wanted = [index for nth, index in enumerate(dead) if some & 1 << nth]
        missing = {at for index in wanted for at in dead[index]}
        if any(self.tables.chunks[parent.id, index].write_fence for index in wanted):
            missing = set()  # no child would have it
        self._retry(
            parent,
            "dead:" + ",".join(map(str, wanted)),
            missing,
            lambda child: self.ledger.retry_dead(parent.id, child, wanted),
            reply,
            wanted,
        )
        self.retried_dead.setdefault(parent.id, set()).update(missing)

    def _retry(
        self,
        parent: Backfill,
        name: str,
        missing: set[int],
        retry: Callable[[str], Work[Any]],
        reply: Reply,
        indices: Sequence[int] = (),
    ) -> None:
        """A child contains what its parent lacks; asking again returns the same child."""
        known = self.children.get((parent.id, name))
        child = f"c{next(self.serial)}"
        before = self.tables
        if known is not None:
            assert self.do(Act(Deed.OTHER), lambda: retry(child), reply).id == known
            assert reply is Reply.LATE or self.tables == before, "a repeated request did something"
        elif not missing:
            self.refused(UsageError, lambda: retry(child))
        else:
            keys = [self.keys[parent.id][at] for at in sorted(missing)]
            self.ask_for(child, keys)
            made = self.do(Act(Deed.OTHER), lambda: retry(child), reply)
            assert (made.id, made.parent_backfill_id) == (child, parent.id)
            selection = self.do(Act(Deed.OTHER), lambda: self.ledger.selection(made.selection))
            assert [selection.key(at) for at in range(len(selection))] == keys
            self.children[parent.id, name] = child
            letters = self.tables.of(parent.id, Status.ABANDONED)
            left = [letter for letter in letters if letter.missing & missing]
            if parent.standing:  # its chunks may overlap: others may miss the same
                left = [letter for letter in left if letter.index in indices]
            assert all(letter.purged_at is not None for letter in left), f"still dead: {left}"

    @precondition(lambda self: any(each.state.ended for each in self.tables.backfills.values()))
    @rule(purge=st.booleans(), reply=REPLIES)
    def tidy(self, purge: bool, reply: Reply = Reply.ARRIVES) -> None:
        """Compacts ended backfills, or purges dead letters."""
        before = self.tables
        if purge:
            for backfill in self.dead():
                self.do(Act(Deed.OTHER), partial(self.ledger.purge, backfill.id), reply)
            assert reply is Reply.LATE or not self.dead(), "dead letters are left"
        else:
            self.do(Act(Deed.OTHER), self.ledger.compact, reply)
            same = dataclasses.replace(self.tables, events=before.events) == before
            assert same or reply is Reply.LATE, "compacting changed more than events"


class Workers(Stage):
    """Those who claim, run, fail and give back."""

    @rule(
        worker=WORKER,
        count=st.integers(1, 4),
        queues=st.permutations(QUEUES),
        many=st.sampled_from([1, 2, 3, 3, 3]),
        jobs=st.sampled_from([JOBS, JOBS, JOBS[:1], JOBS[1:]]),
        reply=REPLIES,
    )
    def claim(
        self,
        worker: int,
        count: int = 4,
        queues: Sequence[str] = QUEUES,
        many: int = 3,
        jobs: Sequence[tuple[str, int]] = JOBS,
        reply: Reply = Reply.ARRIVES,
    ) -> None:
        wish = self.claim_request(worker, count, tuple(queues[:many]), tuple(jobs))
        self.claim_as(worker, wish, reply)

    @rule(worker=WORKER, count=st.integers(1, 4), which=ANY)
    def claim_only(self, worker: int, count: int, which: int) -> None:
        only = self.backfill(which).id
        self.claim_as(worker, self.claim_request(worker, count, only=only))

    @precondition(lambda self: self.held)
    @rule(which=ANY, steps=STEPS, hole=RARELY, reply=REPLIES)
    def heartbeat(
        self, which: int, steps: int, hole: bool = False, reply: Reply = Reply.ARRIVES
    ) -> None:
        """One heartbeat for all chunks that a worker believes it holds."""
        mine = self._of_one(which)
        current = [held for held in mine if self.is_current(held)]
        reported = {held: held.ahead(steps, hole) for held in reversed(mine)}
        stored = {held.key: held.joined(reported[held]) for held in current}
        # It distinguishes claims, not chunks: a worker may hold again a chunk that it had lost.
        expected = {held.claim.fence: Signal.LOST for held in mine}
        expected |= {held.claim.fence: self._signal(held) for held in current}
        beats = [(held.claim, progress) for held, progress in reported.items()]
        act = Act(Deed.BEAT, claims=tuple(held.claim for held in mine), progress=stored)
        signals = self.do(act, lambda: self.ledger.heartbeat(beats), reply)
        assert reply is Reply.LATE or signals == expected, f"{signals}, not {expected}"
        for held in mine:
            if signals[held.claim.fence] is Signal.LOST:
                self.part(held)
            elif held in current:
                held.accepted(reported[held])

    @precondition(lambda self: self.held)
    @rule(which=ANY, steps=STEPS, heard=st.booleans())
    def hold(self, which: int, steps: int, heard: bool = True) -> None:
        """A job's own transaction, which carries its progress; its reply may be lost."""
        held = pick(self.held, which)
        ahead = held.ahead(steps)

        async def work() -> None:
            async with self.ledger.holding(held.claim, lambda: ahead) as tx:
                await tx.execute("SELECT 1")

        if self.is_current(held):
            stored = {held.key: held.joined(ahead)}
            self.do(Act(Deed.BEAT, claims=(held.claim,), progress=stored), work)
            held.accepted(ahead, heard=heard)
        else:
            self.refused(LeaseLost, work)
            self.part(held)

    @precondition(lambda self: self.held)
    @rule(which=ANY, most=st.integers(1, 4), reply=REPLIES)
    def complete(self, which: int, most: int = 4, reply: Reply = Reply.ARRIVES) -> None:
        """A worker completes, in one call, chunks that have no holes."""
        mine = {held.key: held for held in self._of_one(which)}  # the newest claim on each
        whole = [held for held in mine.values() if not held.progress.holes]
        self.complete_all(whole[:most], reply)

    @precondition(lambda self: self.held)
    @rule(which=ANY, steps=STEPS, hole=RARELY, permanent=RARELY, ledger_lost=RARELY, reply=REPLIES)
    def fail(
        self,
        which: int,
        steps: int = 0,
        hole: bool = False,
        permanent: bool = False,
        ledger_lost: bool = False,
        reply: Reply = Reply.ARRIVES,
    ) -> None:
        held = pick(self.held, which)
        ahead = held.ahead(steps, hole)
        failure = Failure(held.claim, ahead, "Boom", "it broke", permanent, ledger_lost)
        self.fail_one(held, failure, reply)

    @precondition(lambda self: self.held)
    @rule(which=ANY, steps=STEPS, hole=RARELY, reply=REPLIES)
    def release(
        self, which: int, steps: int = 0, hole: bool = False, reply: Reply = Reply.ARRIVES
    ) -> None:
        held = pick(self.held, which)
        ahead = held.ahead(steps, hole)
        current = self.is_current(held)
        act = Act(Deed.RELEASE, claims=(held.claim,), progress={held.key: held.joined(ahead)})
        ours = self.do(act, lambda: self.ledger.release(held.claim, ahead), reply)
        assert reply is Reply.LATE or ours == current
        self.part(held)

    @rule(worker=WORKER)
    def work(self, worker: int) -> None:
        """A good day: everything that can be claimed is completed."""
        for _ in range(8):
            if not (taken := self.claim_as(worker, self.claim_request(worker))):
                break
            self.end_all(taken)

    @rule(worker=WORKER, tries=st.integers(1, 4), crashes=st.booleans())
    def work_in_vain(self, worker: int, tries: int, crashes: bool) -> None:
        """A bad day: everything that is claimed fails or kills its worker, again and again."""
        for _ in range(tries):
            for held in self.claim_as(worker, self.claim_request(worker)):
                if crashes:
                    self.part(held)
                else:
                    self.fail_one(held, Failure(held.claim, held.progress, "Boom", "it broke"))
            self.now += LEASE + 1

    @precondition(lambda self: self.is_news("idle"))
    @rule()
    def idle(self) -> None:
        self.settle_all()
        self.spend("idle")

    def _of_one(self, which: int) -> list[Held]:
        worker = pick(self.held, which).worker
        return [held for held in self.held if held.worker == worker]

    def _signal(self, held: Held) -> Signal:
        backfill = self.tables.backfills[held.claim.backfill_id]
        if backfill.stopping is Stop.CANCEL:
            return Signal.STOP
        return Signal.PAUSE if backfill.state is State.PAUSED else Signal.GO_ON


class Mishaps(Workers):
    """What nobody wants, but happens anyway."""

    @rule(worker=WORKER, same_host=st.booleans(), reply=REPLIES)
    def crash(self, worker: int, same_host: bool = False, reply: Reply = Reply.ARRIVES) -> None:
        """A worker is gone with all it held; its successor may free its leases."""
        for held in [held for held in self.held if held.worker == worker]:
            self.part(held)
        self.pids[worker] = max(self.pids) + 1
        self.do(Act(Deed.OTHER), lambda: self.register(worker))
        if same_host:
            dead = {f"w{pid}" for pid in range(max(self.pids)) if pid not in self.pids}
            process = self.process(worker)
            self.do(
                Act(Deed.FREE, dead=dead),
                lambda: self.ledger.free_dead(process, lambda other: other.pid in self.pids),
                reply,
            )

    @precondition(lambda self: self.is_news("jump", by_time=False))
    @rule(seconds=st.sampled_from(JUMPS))
    def jump(self, seconds: float) -> None:
        """The clock moves: a little, past a lease, by an hour, or back."""
        self.now += seconds
        self.spend("jump")

    @precondition(lambda self: self.held)
    @rule(which=ANY)
    def fall_silent(self, which: int) -> None:
        """All workers except one miss their heartbeats for longer than a lease."""
        self.now += LEASE + 1
        self.heartbeat(which, steps=0)

    @precondition(lambda self: any(held.past for held in self.held))
    @rule(which=ANY, past=ANY)
    def late_heartbeat(self, which: int, past: int) -> None:
        """A heartbeat that was sent before others and arrives after them undoes nothing."""
        held = pick([held for held in self.held if held.past], which)
        beat = [(held.claim, pick(held.past, past))]
        act = Act(Deed.BEAT, claims=(held.claim,), progress={held.key: held.stored})
        self.do(act, lambda: self.ledger.heartbeat(beat))

    @precondition(lambda self: self.zombies())
    @rule(which=ANY, how=st.sampled_from(["beat", "complete", "fail", "release", "hold"]))
    def zombie(self, which: int, how: str) -> None:
        """A worker whose lease was lost or has expired comes back: nothing may change."""
        held = pick(self.zombies(), which)
        claim, said = held.claim, held.progress
        chunk = self.tables.chunks.get(held.key)
        status = chunk.status if held.owns(chunk) else None
        nothing = Act(Deed.OTHER)
        before = self.tables
        match how:
            case "beat":
                signals = self.do(nothing, lambda: self.ledger.heartbeat([(claim, said)]))
                assert signals == {claim.fence: Signal.LOST}
            case "complete":
                lost = self.do(nothing, lambda: self.ledger.complete([claim]))
                assert (not lost) == (status is Status.COMPLETE)
            case "fail":
                failure = Failure(claim, said, "Late", "too late")
                verdict = self.do(nothing, lambda: self.ledger.fail(failure))
                assert verdict is None or verdict.status is status
            case "release":
                ours = self.do(nothing, lambda: self.ledger.release(claim, said))
                assert ours == (status is Status.PENDING)
            case _:
                self.refused(LeaseLost, lambda: self._hold(claim))
        assert self.tables == before, f"a zombie changed something by `{how}`"

    async def _hold(self, claim: Claim) -> None:
        async with self.ledger.holding(claim, lambda: Progress(claim.span.last)):
            raise AssertionError("a zombie holds a chunk")


class LedgerMachine(People, Mishaps, Followers):
    """All of them at once; a database is still to come."""
