"""What must hold for a ledger, at every moment and for every change.

The laws are written from the design alone: which changes each act may cause, and what the tables
must look like in between. They share no code with the ledger beyond its vocabulary.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from gapless.core.backfill import State, Stop
from gapless.core.chunk import ENDED, Order, Status, unplanned_positions
from gapless.core.ranges import RangeSet, Span
from gapless.core.retry import RetryKind, RetryPolicy
from gapless.ledger import records
from gapless.ledger.records import Claim, ClaimRequest, Failure, Progress
from tests.stateful.tables import Backfill, Chunk, Key, Snapshot


class Deed(StrEnum):
    """What is being done; anything not named may change no chunk."""

    CLAIM = "claim"
    PLAN = "plan"
    BEAT = "beat"
    COMPLETE = "complete"
    FAIL = "fail"
    RELEASE = "release"
    FREE = "free the leases of the dead"
    STEER = "steer"
    FORCE = "cancel by force"
    IDLE = "settle and close epochs"
    APPEND = "take a step of a follow"
    FOLD = "fold a follow"
    OTHER = "anything else"


@dataclass(frozen=True)
class Act:
    """The current deed, and which chunks it is allowed to change."""

    deed: Deed
    owner: str = ""
    claims: tuple[Claim, ...] = ()
    progress: Mapping[Key, Progress] = field(default_factory=dict)
    failure: Failure | None = None
    dead: Collection[str] = ()
    revoke: Span | None = None
    replace: Collection[int] = ()
    below: int = 0

    def names(self, chunk: Chunk) -> bool:
        """Whether the act is done under the chunk's current lease."""
        return any(
            (claim.backfill_id, claim.chunk_index) == chunk.key
            and claim.fence == chunk.fence
            and claim.claim_id == chunk.claim_id
            for claim in self.claims
        )


FOLDABLE = (State.SUCCEEDED, State.CANCELLED)
STEPS = {
    (State.PENDING, State.RUNNING): 1,
    (State.PENDING, State.PAUSED): 1,
    (State.PENDING, State.CANCELLED): 1,
    (State.RUNNING, State.PAUSED): 1,
    (State.RUNNING, State.SUCCEEDED): 1,
    (State.RUNNING, State.FAILED): 1,
    (State.RUNNING, State.CANCELLED): 1,
    (State.PAUSED, State.RUNNING): 1,
    (State.PAUSED, State.CANCELLED): 1,
    (State.PAUSED, State.SUCCEEDED): 2,  # resumed and settled at once
    (State.PAUSED, State.FAILED): 2,
}


# What holds at every moment


def check_tables(tables: Snapshot, keys: Mapping[str, list[str]]) -> None:
    """The laws of a single moment; `keys` are the partitions asked for, by backfill."""
    drawn = [(chunk.fence, chunk.write_fence) for chunk in tables.chunks.values()]
    fences = [fence for both in drawn for fence in both if fence is not None]
    fences += [cursor.fence for cursor in tables.cursors.values() if cursor.fence]
    assert len(fences) == len(set(fences)), f"a fence was given twice: {sorted(fences)}"
    for backfill in tables.backfills.values():
        chunks = tables.of(backfill.id)
        if backfill.id in tables.vanishing:
            assert backfill.state in FOLDABLE, f"{backfill} is being deleted"
            continue
        folded = tables.folded.get(backfill.id, (0, 0, 0))
        if backfill.standing:
            _check_appended(backfill, chunks, sum(folded))
        else:
            _check_plan(backfill, chunks, keys[backfill.id])
        _check_counts(backfill, chunks, tables.counts.get(backfill.id, (0, 0, 0)), folded)
        _check_state(backfill, chunks)
        for chunk in chunks:
            _check_chunk(chunk)
    for group, epoch in tables.epochs.items():
        hooks = sorted(each for each in tables.backfills if each.startswith(f"drained-{group}-"))
        wanted = sorted(f"drained-{group}-{each}" for each in range(1, epoch + 1))
        assert hooks == wanted, f"group {group} is in epoch {epoch}, its hooks are {hooks}"


def _check_plan(backfill: Backfill, chunks: list[Chunk], keys: list[str]) -> None:
    """Planned and unplanned chunks are the whole selection, without duplicates."""
    size, total, planned = backfill.chunk_size, backfill.chunk_total, backfill.planned
    assert backfill.partitions == len(keys), f"{backfill.id} has lost partitions: {keys}"
    assert total == -(-len(keys) // size), f"{backfill.id} has {total} chunks"
    oldest = backfill.order is Order.OLDEST
    indices = list(range(planned) if oldest else range(total - planned, total))
    assert [chunk.index for chunk in chunks] == indices, f"{backfill.id}: {chunks}, not {indices}"
    unplanned = set(unplanned_positions(backfill.order, len(keys), size, planned))
    positions = [at for chunk in chunks for at in range(chunk.first, chunk.last + 1)]
    assert sorted([*positions, *unplanned]) == list(range(len(keys))), (
        f"{backfill.id}: planned {positions} and unplanned {unplanned} are not 0-{len(keys) - 1}"
    )
    for chunk in chunks:
        assert chunk.last - chunk.first < size, f"{chunk} is too large"
        assert chunk.rank == (chunk.index if oldest else -chunk.index), f"{chunk} ranks wrongly"


def _check_appended(backfill: Backfill, chunks: list[Chunk], folded: int) -> None:
    """Nothing of a standing backfill is unplanned, and whatever has no row was folded."""
    assert backfill.chunk_total == backfill.planned == len(chunks) + folded, f"{backfill}: {chunks}"
    for chunk in chunks:
        assert chunk.index < backfill.planned, f"{chunk} of {backfill}"
        assert (chunk.rank <= -(2**53)) == (chunk.write_fence is not None), f"{chunk} ranks wrongly"
        assert chunk.rank % 2**53 == -chunk.first % 2**53, f"{chunk} ranks wrongly"


def _check_counts(
    backfill: Backfill,
    chunks: list[Chunk],
    counts: tuple[int, int, int],
    folded: tuple[int, int, int],
) -> None:
    kinds = (Status.COMPLETE, Status.ABANDONED, Status.CANCELLED)
    rows = tuple(
        sum(chunk.status is kind for chunk in chunks) + gone
        for kind, gone in zip(kinds, folded, strict=True)
    )
    assert counts == rows, f"{backfill.id}: the counters say {counts}, the rows are {rows}"
    running = sum(chunk.status is Status.RUNNING for chunk in chunks)
    assert running <= backfill.max_concurrent_runs, f"{backfill.id} runs {running} chunks"


def _check_state(backfill: Backfill, chunks: list[Chunk]) -> None:
    statuses = {chunk.status for chunk in chunks}
    if backfill.state.ended:
        assert statuses <= ENDED, f"{backfill.id} is {backfill.state}, its chunks are {statuses}"
    if backfill.standing:
        assert backfill.state not in (State.SUCCEEDED, State.FAILED), f"{backfill} ended by itself"
    match backfill.state:
        case State.PENDING:
            assert not chunks, f"{backfill.id} is PENDING and has chunks"
        case State.SUCCEEDED:
            assert statuses == {Status.COMPLETE}, f"{backfill.id} SUCCEEDED with {statuses}"
            assert backfill.planned == backfill.chunk_total, f"{backfill.id} was not all planned"
        case State.FAILED:
            assert Status.ABANDONED in statuses, f"{backfill.id} FAILED without a dead letter"
        case State.CANCELLED:
            assert backfill.stopping is Stop.CANCEL, f"{backfill.id} was not asked to cancel"


def _check_chunk(chunk: Chunk) -> None:
    waits = chunk.status in (Status.RUNNING, Status.FAILED)
    assert (chunk.due is not None) == waits, f"a due of {chunk.due} in {chunk}"
    assert (chunk.ended_at is not None) == chunk.status.ended, f"ended at the wrong time: {chunk}"
    if chunk.status is Status.RUNNING:
        assert None not in (chunk.fence, chunk.claim_id, chunk.owner), f"nobody runs {chunk}"
    if chunk.status is Status.COMPLETE:
        assert not chunk.missing, f"complete, but {chunk.missing} is missing: {chunk}"


def check_shown(tables: Snapshot, shown: list[records.Backfill]) -> None:
    """What people see of backfills equals the tables, counted row by row."""
    assert {each.id for each in shown} == tables.backfills.keys()
    for each in shown:
        backfill = tables.backfills[each.id]
        assert (each.state, each.lifecycle.stopping) == (backfill.state, backfill.stopping)
        if each.id in tables.vanishing:
            continue
        counts = {status: len(tables.of(each.id, status)) for status in Status}
        for status, gone in zip(
            (Status.COMPLETE, Status.ABANDONED, Status.CANCELLED),
            tables.folded.get(each.id, (0, 0, 0)),
            strict=True,
        ):
            counts[status] += gone
        counted = records.ChunkCounts(
            total=backfill.chunk_total,
            planned=sum(counts.values()),
            pending=counts[Status.PENDING],
            running=counts[Status.RUNNING],
            complete=counts[Status.COMPLETE],
            failed=counts[Status.FAILED],
            abandoned=counts[Status.ABANDONED],
            cancelled=counts[Status.CANCELLED],
        )
        assert each.chunks == counted, f"{each.id} shows {each.chunks}, not {counted}"


# What holds for every change


def check_change(before: Snapshot, after: Snapshot, act: Act, now: float, top_fence: int) -> None:
    """The laws of one transaction, given the highest fence that was ever seen before it."""
    for key in before.chunks.keys() - after.chunks:
        _check_vanished(before.chunks[key], before.backfills[key[0]], act)
    for backfill_id, was in before.backfills.items():
        if backfill_id in after.backfills:
            _check_backfill_change(was, after.backfills[backfill_id], act)
        else:
            assert _is_foldable(was, act), f"{was} vanished by {act}"
            assert not after.of(backfill_id), f"{was} vanished without its chunks"
    for key, chunk in after.chunks.items():
        old = before.chunks.get(key)
        if old != chunk:
            _check_chunk_change(_Change(old, chunk, after.backfills[key[0]], act, now), before)
        if chunk.fence is not None and (old is None or old.fence != chunk.fence):
            assert chunk.fence > top_fence, f"fence {chunk.fence} after {top_fence}"
        if chunk.write_fence is not None and old is None:
            assert chunk.write_fence > top_fence, f"fence {chunk.write_fence} after {top_fence}"
        if chunk.write_fence is not None and old is not None:
            assert chunk.write_fence == old.write_fence, f"the fence of {chunk} changed"
    if act.deed is Deed.CLAIM:
        _check_order(before, after, now)
    for group, epoch in after.epochs.items():
        if epoch != before.epochs.get(group, 0):
            assert act.deed is Deed.IDLE, f"{act} closed an epoch"
            assert epoch == before.epochs[group] + 1, f"group {group} skipped to {epoch}"
            assert not before.busy(group), f"group {group} was not drained"


def _is_foldable(backfill: Backfill, act: Act) -> bool:
    closed = backfill.follow is not None and not backfill.standing
    return act.deed is Deed.FOLD and closed and backfill.state in FOLDABLE


def _check_vanished(chunk: Chunk, backfill: Backfill, act: Act) -> None:
    """A chunk is deleted only when it has ended and a follow's leader says so."""
    if not backfill.standing:
        assert _is_foldable(backfill, act), f"{chunk} vanished by {act}"
    elif act.deed is Deed.FOLD:
        done = chunk.status in (Status.COMPLETE, Status.CANCELLED)
        assert done, f"{chunk} vanished by {act}"
        assert chunk.last < act.below, f"{chunk} vanished by {act}"
    else:
        assert act.deed is Deed.APPEND, f"{chunk} vanished by {act}"
        assert chunk.index in act.replace, f"{chunk} vanished by {act}"
        assert chunk.status is Status.ABANDONED, f"{chunk} vanished by {act}"


def _check_backfill_change(was: Backfill, now_is: Backfill, act: Act) -> None:
    if was == now_is:
        return
    assert not was.state.ended, f"{was} had ended, and is {now_is} by {act}"
    fixed = ["selection", "chunk_size", "max_concurrent_runs", "order"]
    fixed += [] if was.standing else ["partitions", "chunk_total"]
    for name in fixed:
        assert getattr(was, name) == getattr(now_is, name), f"{name} of {was.id} changed by {act}"
    steps = now_is.state_version - was.state_version
    moved = STEPS.get((was.state, now_is.state), 0 if was.state is now_is.state else None)
    assert steps == moved, f"{was.id}: {was.state} to {now_is.state} with {steps} versions"
    if was.stopping is not None:
        stops = (was.stopping, Stop.CANCEL)
        assert now_is.stopping in stops, f"{was.id} was to {was.stopping}, not {now_is.stopping}"
    if was.planned != now_is.planned:
        assert now_is.planned > was.planned, f"{was.id} was planned to {was.planned}: {now_is}"
        assert was.active, f"{was.id} is {was.state}, {was.stopping}, and was planned by {act}"
        deeds = (Deed.APPEND,) if was.standing else (Deed.CLAIM, Deed.PLAN)
        assert act.deed in deeds, f"{act} planned {was.id}"


@dataclass(frozen=True)
class _Change:
    old: Chunk | None
    new: Chunk
    backfill: Backfill
    act: Act
    now: float

    def __str__(self) -> str:
        return f"{self.old} became {self.new} by {self.act} at {self.now}"


def _check_chunk_change(change: _Change, before: Snapshot) -> None:
    """A chunk changes only by an act that is allowed to change it, and only as that act says."""
    old, new, act = change.old, change.new, change.act
    was = before.backfills.get(new.backfill_id)
    if old is None:
        assert was is not None, f"chunks in a new backfill: {change}"
        assert was.active, f"planned in a backfill that is {was.state}: {change}"
        if new.status is Status.PENDING:
            deeds = (Deed.APPEND,) if was.standing else (Deed.CLAIM, Deed.PLAN)
            assert act.deed in deeds, str(change)
            return
        old = _planned(new)
    assert was is not None
    assert (old.first, old.last) == (new.first, new.last), f"moved: {change}"
    match (old.status, new.status):
        case (Status.PENDING | Status.FAILED, Status.RUNNING):
            assert was.active, f"claimed although {was.state}, {was.stopping}: {change}"
            assert old.status is Status.PENDING or was.is_due(old, change.now), f"early: {change}"
            assert (old.attempts, old.lost) == (new.attempts, new.lost), f"counted: {change}"
            assert old.progress == new.progress, f"progress changed: {change}"
            _check_taken(change)
        case (Status.RUNNING, Status.RUNNING) if old.fence == new.fence:
            if act.deed is Deed.FREE:
                assert old.owner in act.dead, f"alive: {change}"
                assert new.due == change.now, str(change)
                assert new.progress == old.progress, f"progress changed: {change}"
            else:
                assert act.deed is Deed.BEAT, str(change)
                _check_named(change, old)
                assert new.due == change.now + was.lease_seconds, f"wrong lease: {change}"
        case (Status.RUNNING, Status.RUNNING):
            assert was.active, f"claimed although {was.state}, {was.stopping}: {change}"
            assert was.lapsed(old, change.now), f"stolen: {change}"
            _check_recovery(change, old)
            assert new.lost <= 1, f"taken at once, although lost before: {change}"
            _check_taken(change)
        case (Status.RUNNING, Status.COMPLETE) if act.deed is Deed.CLAIM:
            assert was.active, f"recovered although {was.state}, {was.stopping}: {change}"
            assert was.lapsed(old, change.now), f"taken away: {change}"
            assert not old.missing, f"completed, but not done: {change}"
            assert (old.attempts, old.lost) == (new.attempts, new.lost), f"counted: {change}"
        case (Status.RUNNING, Status.COMPLETE):
            assert act.deed is Deed.COMPLETE, str(change)
            _check_named(change, old)
        case (Status.RUNNING, Status.PENDING):
            assert act.deed is Deed.RELEASE, str(change)
            _check_named(change, old)
            assert (old.attempts, old.lost) == (new.attempts, new.lost), f"counted: {change}"
        case (Status.RUNNING, Status.FAILED | Status.ABANDONED) if act.deed is Deed.FAIL:
            _check_named(change, old)
            _check_failure(change, old)
        case (Status.RUNNING, Status.FAILED | Status.ABANDONED):
            assert act.deed is Deed.CLAIM, str(change)
            assert was.active, f"recovered although {was.state}, {was.stopping}: {change}"
            assert was.lapsed(old, change.now), f"taken away: {change}"
            _check_recovery(change, old)
        case (Status.PENDING | Status.FAILED | Status.RUNNING, Status.CANCELLED) if act.revoke:
            assert was.standing, f"not of the head: {change}"
            assert act.revoke.overlap(Span(old.first, old.last)), f"not revoked: {change}"
            assert old.progress == new.progress, f"progress changed: {change}"
        case (Status.PENDING | Status.FAILED | Status.RUNNING, Status.CANCELLED):
            assert change.backfill.stopping is not None, f"not stopping: {change}"
            assert (
                old.status is not Status.RUNNING
                or act.deed is Deed.FORCE
                or was.lapsed(old, change.now)
            ), f"cancelled under a live lease: {change}"
            assert old.progress == new.progress, f"progress changed: {change}"
        case (Status.ABANDONED, Status.ABANDONED):
            assert (old.purged_at, new.purged_at) == (None, change.now), str(change)
            assert act.deed is Deed.OTHER, str(change)
        case _:
            raise AssertionError(f"not foreseen: {change}")


def _planned(chunk: Chunk) -> Chunk:
    """The chunk as it was between its planning and its first claim."""
    return replace(
        chunk,
        status=Status.PENDING,
        attempts=0,
        lost=0,
        last_processed=None,
        last_failure_position=None,
        holes=RangeSet(),
    )


def _check_taken(change: _Change) -> None:
    """A claimed chunk has its new holder and a full lease."""
    new, act = change.new, change.act
    assert act.deed is Deed.CLAIM, str(change)
    assert new.owner == act.owner, f"claimed for someone else: {change}"
    assert new.due == change.now + change.backfill.lease_seconds, f"wrong lease: {change}"


def _check_named(change: _Change, old: Chunk) -> None:
    """Only the current holder changes a running chunk, and its progress is what it reported."""
    assert change.act.names(old), f"done under an old fence: {change}"
    said = change.act.progress[old.key]
    assert change.new.progress == said, f"{said} was said: {change}"


def _check_failure(change: _Change, old: Chunk) -> None:
    failure, policy = change.act.failure, change.backfill.retry
    assert failure is not None
    progressed = change.new.last_processed != old.last_failure_position
    if failure.ledger_lost:
        _check_loss(change, old, progressed=progressed)
        return
    attempts = 1 if progressed and not failure.permanent else old.attempts + 1
    assert (change.new.attempts, change.new.lost) == (attempts, 0), f"miscounted: {change}"
    final = failure.permanent and policy.kind is not RetryKind.UNBOUNDED
    ends = final or gives_up(policy, attempts)
    assert (change.new.status is Status.ABANDONED) == ends, f"wrong verdict: {change}"
    _check_halt(change)
    if not ends:
        low, high = delay_bounds(policy, attempts)
        assert change.new.due is not None
        assert low <= change.new.due - change.now <= high, f"wrong delay: {change}"


def _check_recovery(change: _Change, old: Chunk) -> None:
    """An expired lease leaves the chunk as it was last reported."""
    assert old.missing, f"lost, although all was done: {change}"
    assert change.new.progress == old.progress, f"progress changed: {change}"
    _check_loss(change, old, progressed=old.last_processed != old.last_failure_position)


def _check_loss(change: _Change, old: Chunk, *, progressed: bool) -> None:
    """A lost worker costs no attempt, but too many in a row abandon the chunk."""
    new, policy = change.new, change.backfill.retry
    tries = (0, 1) if progressed else (old.attempts, old.lost + 1)
    assert (new.attempts, new.lost) == tries, f"miscounted: {change}"
    ends = new.lost >= policy.lost_limit and policy.kind is not RetryKind.UNBOUNDED
    assert (new.status is Status.ABANDONED) == ends, f"wrong verdict: {change}"
    _check_halt(change)


def _check_halt(change: _Change) -> None:
    if change.new.status is Status.ABANDONED and change.backfill.retry.kind is RetryKind.HALT:
        assert change.backfill.stopping is not None, f"goes on: {change}"


def gives_up(policy: RetryPolicy, attempts: int) -> bool:
    match policy.kind:
        case RetryKind.HALT:
            return True
        case RetryKind.SCHEDULE:
            return attempts > len(policy.delays)
        case RetryKind.BACKOFF:
            return attempts > policy.retries
        case RetryKind.UNBOUNDED:
            return False


def delay_bounds(policy: RetryPolicy, attempts: int) -> tuple[float, float]:
    if policy.kind is RetryKind.SCHEDULE:
        exact = policy.delays[attempts - 1]
        return exact, exact
    delay = min(policy.base * 2 ** (attempts - 1), policy.max_delay)
    return delay, delay * (1 + policy.jitter)


def _check_order(before: Snapshot, after: Snapshot, now: float) -> None:
    """Pending chunks are taken in the order of their ranks; of the head, failed ones too."""
    for backfill in after.backfills.values():
        taken = [
            chunk.rank
            for chunk in after.of(backfill.id, Status.RUNNING)
            if (old := before.chunks.get(chunk.key)) is None or old.status is Status.PENDING
        ]
        left = [chunk.rank for chunk in after.of(backfill.id, Status.PENDING)]
        if backfill.standing:
            fresh = [
                chunk
                for chunk in after.of(backfill.id, Status.RUNNING)
                if chunk.fence != before.chunks[chunk.key].fence
            ]
            taken = [chunk.rank for chunk in fresh]
            left += [
                chunk.rank
                for chunk in before.of(backfill.id, Status.FAILED)
                if backfill.is_due(chunk, now) and chunk.key not in {it.key for it in fresh}
            ]
        assert not (taken and left) or max(taken) <= min(left), f"took {taken} before {left}"


# What a claim must grant


def check_granted(
    before: Snapshot, after: Snapshot, wish: ClaimRequest, granted: list[Claim], now: float
) -> None:
    """A worker gets what is available, up to its request, from the first queue with work."""
    backfills = {claim.backfill_id for claim in granted}
    assert len(granted) <= wish.count, f"{len(granted)} claims for {wish}"
    assert len(backfills) <= 1, f"one claim on {backfills}"
    fits = [
        each
        for each in before.backfills.values()
        if each.active
        and each.queue in wish.queues
        and (each.job, each.job_version) in wish.jobs
        and wish.only in (None, each.id)
    ]
    assert backfills <= {each.id for each in fits}, f"{granted} was not wished for"
    leased = {each.id: len(before.leased(each.id, now)) for each in fits}
    lapsed = {each.id: len(before.of(each.id, Status.RUNNING)) - leased[each.id] for each in fits}
    room = {each.id: each.max_concurrent_runs - leased[each.id] for each in fits}
    ready = {each.id: before.takeable(each.id, now) for each in fits}
    queues = [
        {
            each.id
            for each in fits
            if each.queue == queue and room[each.id] and ready[each.id] + lapsed[each.id]
        }
        for queue in wish.queues
    ]
    first = next((found for found in queues if found), set())
    touched = {each for each in first if before.of(each) != after.of(each)}
    assert touched or not first, f"nothing came of a claim, although {first} have work"
    assert backfills <= first or any(map(lapsed.get, first)), f"{granted} before {first}"
    for each in [each for each in fits if each.id in backfills and each.follow is not None]:
        before_it = {
            other.id
            for other in fits
            if other.id in first and other.follow == each.follow and other.place > each.place
        }
        assert all(map(lapsed.get, before_it)), f"{granted} before {before_it} of its follow"
    for backfill_id in backfills:
        if not lapsed[backfill_id]:  # what happens to expired leases depends on the retry policy
            wanted = min(wish.count, room[backfill_id], ready[backfill_id])
            assert len(granted) == wanted, f"{len(granted)} granted of {wanted}"
