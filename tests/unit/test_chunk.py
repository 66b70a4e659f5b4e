"""Chunks tile their selection for any size; failures and losses are counted in a row."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.core.chunk import (
    ENDED,
    FailureCounts,
    Order,
    Status,
    Verdict,
    after_failure,
    after_loss,
    appended_rank,
    boundaries,
    chunk_id,
    chunk_total,
    missing,
    planned_indices,
    run_key,
    unplanned_positions,
)
from gapless.core.ranges import HIGHEST, RangeSet, Span
from gapless.core.retry import RetryPolicy

partitions = st.integers(1, 500)
sizes = st.integers(1, 600)
orders = st.sampled_from(Order)


@given(partitions, sizes)
def test_chunks_tile_the_selection(count: int, size: int) -> None:
    spans = [boundaries(index, count, size) for index in range(chunk_total(count, size))]
    assert sum(span.size for span in spans) == count
    assert RangeSet(spans) == RangeSet.of((0, count - 1))
    assert all(span.size == size for span in spans[:-1])
    assert 1 <= spans[-1].size <= size


@given(partitions, sizes, orders, st.data())
def test_planned_and_unplanned_are_disjoint_and_complete(
    count: int, size: int, order: Order, data: st.DataObject
) -> None:
    total = chunk_total(count, size)
    planned = data.draw(st.integers(0, total))
    covered = RangeSet(
        boundaries(index, count, size) for index in planned_indices(order, total, planned)
    )
    rest = unplanned_positions(order, count, size, planned)
    assert not covered & rest
    assert covered | rest == RangeSet.of((0, count - 1))


@given(partitions, sizes, orders, st.data())
def test_planning_more_never_gives_up_what_was_planned(
    count: int, size: int, order: Order, data: st.DataObject
) -> None:
    total = chunk_total(count, size)
    planned = data.draw(st.integers(0, total))
    more = data.draw(st.integers(planned, total))
    before, after = (planned_indices(order, total, each) for each in (planned, more))
    assert set(before) <= set(after)


def test_the_names_of_a_chunk_are_those_of_the_seed() -> None:
    assert chunk_id("bf", 7) == "bf:7"
    assert run_key("bf", 7) == "backfill:bf:chunk:7"


spans = st.tuples(st.integers(0, 50), st.integers(0, 20)).map(lambda it: Span(it[0], sum(it)))


@given(spans, st.data())
def test_missing_is_the_holes_and_what_stands_behind_the_last_processed(
    span: Span, data: st.DataObject
) -> None:
    last_processed = data.draw(st.none() | st.integers(span.first, span.last))
    processed = range(span.first, span.first if last_processed is None else last_processed + 1)
    holes = RangeSet.from_members(
        data.draw(st.sets(st.sampled_from(processed))) if processed else ()
    )
    done = set(processed) - set(holes)
    assert set(missing(span, last_processed, holes)) == set(range(span.first, span.last + 1)) - done


@pytest.mark.parametrize(
    ("last_processed", "holes", "expected"),
    [
        (None, RangeSet(), RangeSet.of((10, 19))),
        (10, RangeSet(), RangeSet.of((11, 19))),
        (19, RangeSet(), RangeSet()),
        (15, RangeSet.of((12, 13)), RangeSet.of((12, 13), (16, 19))),
        (19, RangeSet.of((12, 12)), RangeSet.of((12, 12))),
    ],
)
def test_missing_by_example(
    last_processed: int | None, holes: RangeSet, expected: RangeSet
) -> None:
    assert missing(Span(10, 19), last_processed, holes) == expected


def test_the_ended_statuses() -> None:
    assert {status for status in Status if status.ended} == ENDED
    assert {Status.COMPLETE, Status.ABANDONED, Status.CANCELLED} == ENDED


tries = st.builds(FailureCounts, st.integers(0, 20), st.integers(0, 20))


@given(tries)
def test_a_failure_counts_on_and_ends_a_row_of_losses(before: FailureCounts) -> None:
    assert before.failed(progressed=False) == FailureCounts(before.attempts + 1, 0)
    assert before.failed(progressed=True) == FailureCounts(1, 0)


@given(tries)
def test_a_loss_counts_on_and_is_no_failure(before: FailureCounts) -> None:
    assert before.lost_worker(progressed=False) == FailureCounts(before.attempts, before.lost + 1)
    assert before.lost_worker(progressed=True) == FailureCounts(0, 1)


@given(tries, st.booleans(), st.floats(0, 1, exclude_max=True))
def test_a_permanent_error_abandons_unless_the_policy_never_does(
    before: FailureCounts, progressed: bool, chance: float
) -> None:
    for policy in (RetryPolicy(), RetryPolicy.schedule(), RetryPolicy.halt()):
        verdict = after_failure(
            policy, before, progressed=progressed, permanent=True, chance=chance
        )
        assert (verdict.status, verdict.delay) == (Status.ABANDONED, None)
    never = RetryPolicy.unbounded()
    verdict = after_failure(never, before, progressed=progressed, permanent=True, chance=chance)
    assert verdict.status is Status.FAILED


def test_a_transient_error_waits_by_the_policy_until_it_gives_up() -> None:
    now, verdicts = FailureCounts(), []
    for _ in range(6):
        verdict = after_failure(RetryPolicy(), now, progressed=False, permanent=False, chance=0.0)
        verdicts.append((verdict.status, verdict.delay))
        now = verdict.failures
    assert verdicts[:5] == [(Status.FAILED, 120.0 * 2**n) for n in range(5)]
    assert verdicts[5] == (Status.ABANDONED, None)


def test_progress_keeps_a_chunk_alive_for_ever() -> None:
    now = FailureCounts()
    for _ in range(50):
        verdict = after_failure(RetryPolicy(), now, progressed=True, permanent=False, chance=0.0)
        assert verdict == Verdict(FailureCounts(1, 0), 120)
        now = after_loss(RetryPolicy(), verdict.failures, progressed=True, chance=0.0).failures
        assert now == FailureCounts(0, 1)


def test_a_chunk_that_kills_ten_workers_is_abandoned() -> None:
    now, statuses = FailureCounts(), []
    for _ in range(10):
        verdict = after_loss(RetryPolicy(), now, progressed=False, chance=0.0)
        statuses.append(verdict.status)
        now = verdict.failures
    assert statuses == [Status.FAILED] * 9 + [Status.ABANDONED]


@given(st.integers(0, HIGHEST), st.integers(0, HIGHEST))
def test_of_appended_chunks_the_newest_is_first_after_those_with_a_fence(
    one: int, other: int
) -> None:
    older, newer = sorted((one, other))
    for draws in (False, True):
        ranks = [appended_rank(it, draws_fence=draws) for it in (newer, older)]
        assert ranks == sorted(ranks)
    assert appended_rank(one, draws_fence=True) < appended_rank(other, draws_fence=False)
