"""Delays stay within their bounds, never shrink, and match the documented numbers."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.core.errors import UsageError
from gapless.core.retry import DEFAULT_SCHEDULE, LOST_MAX, RetryKind, RetryPolicy

chances = st.floats(0, 1, exclude_max=True)
seconds = st.floats(0, 10_000)
failures = st.integers(1, 10_000)
doubling = st.builds(
    lambda kind, base, more, jitter: RetryPolicy(kind, base, base + more, jitter, retries=10_001),
    st.sampled_from([RetryKind.BACKOFF, RetryKind.UNBOUNDED]),
    seconds,
    seconds,
    st.floats(0, 1),
)


def certain(policy: RetryPolicy, count: int, chance: float = 0.0) -> list[float | None]:
    return [policy.delay(nth, chance) for nth in range(1, count + 1)]


def test_backoff_is_two_minutes_doubling_to_an_hour_and_gives_up_on_the_sixth_failure() -> None:
    policy = RetryPolicy.backoff()
    assert certain(policy, 7) == [120, 240, 480, 960, 1920, None, None]
    assert certain(RetryPolicy.backoff(retries=8), 8)[5:] == [3600, 3600, 3600]


def test_jitter_is_up_to_a_quarter() -> None:
    assert RetryPolicy.backoff().delay(1, 0.0) == 120
    assert RetryPolicy.backoff().delay(1, 0.5) == 135
    assert 149.9 < (RetryPolicy.backoff().delay(1, 0.9999) or 0) < 150
    assert RetryPolicy.backoff(jitter=0).delay(1, 0.9) == 120


def test_unbounded_has_the_same_delays_and_no_end() -> None:
    policy = RetryPolicy.unbounded()
    assert certain(policy, 5) == certain(RetryPolicy.backoff(), 5)
    assert policy.delay(1_000_000, 0.0) == 3600


def test_the_schedule_goes_from_five_seconds_to_an_hour_and_ends_on_the_tenth_failure() -> None:
    delays = [5, 10, 30, 60, 180, 300, 600, 1800, 3600, None]
    assert certain(RetryPolicy.schedule(), 10) == delays
    assert certain(RetryPolicy.schedule(), 10, chance=0.9) == delays
    assert certain(RetryPolicy.schedule(1, 2), 3) == [1, 2, None]


def test_halt_never_retries() -> None:
    assert certain(RetryPolicy.halt(), 3) == [None, None, None]


@given(doubling, failures, chances)
def test_a_delay_lies_between_the_base_and_the_longest(
    policy: RetryPolicy, nth: int, chance: float
) -> None:
    delay = policy.delay(nth, chance)
    assert delay is not None
    assert policy.base <= delay <= policy.max_delay * (1 + policy.jitter) <= policy.longest


@given(doubling, failures, chances)
def test_the_next_delay_is_never_shorter(policy: RetryPolicy, nth: int, chance: float) -> None:
    assert (policy.delay(nth, chance) or 0) <= (policy.delay(nth + 1, chance) or 0)


@given(doubling, failures, chances, chances)
def test_a_higher_draw_means_a_longer_delay(
    policy: RetryPolicy, nth: int, a: float, b: float
) -> None:
    low, high = sorted((a, b))
    assert (policy.delay(nth, low) or 0) <= (policy.delay(nth, high) or 0)


def test_the_first_loss_is_retried_at_once_then_the_delay_doubles_until_the_tenth() -> None:
    policy = RetryPolicy.backoff()
    waits = [policy.delay_after_loss(lost, 0.0) for lost in range(1, 12)]
    assert waits == [0, 1, 2, 4, 8, 16, 32, 64, 128, None, None]


def test_unbounded_retries_lost_chunks_forever() -> None:
    policy = RetryPolicy.unbounded()
    assert [policy.delay_after_loss(lost, 0.0) for lost in (10, 11, 10_000)] == [256, 300, 300]


def test_chunks_that_were_lost_together_return_one_by_one() -> None:
    policy = RetryPolicy.unbounded(jitter=0.5)
    assert [policy.delay_after_loss(3, chance) for chance in (0.0, 0.5, 0.9)] == [2, 2.5, 2.9]
    assert policy.delay_after_loss(1, 0.9) == 0  # the first loss has no delay


@given(st.integers(1, 10_000), chances)
def test_no_delay_after_a_loss_exceeds_the_longest(lost: int, chance: float) -> None:
    for policy in (RetryPolicy.unbounded(base=0, max_delay=1), RetryPolicy.schedule(1)):
        assert (policy.delay_after_loss(lost, chance) or 0) <= policy.longest


def test_the_longest_delay_covers_the_jitter() -> None:
    assert RetryPolicy.backoff().longest == 4500
    assert RetryPolicy.schedule().longest == 3600
    assert RetryPolicy.schedule(1).longest == LOST_MAX * 1.25


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"base": -1.0}, "base must not be negative"),
        ({"base": 9.0, "max_delay": 8.0}, "max_delay must not be below base"),
        ({"jitter": 1.1}, "jitter must lie between 0 and 1"),
        ({"jitter": -0.1}, "jitter must lie between 0 and 1"),
        ({"retries": -1}, "retries must not be negative"),
        ({"lost_limit": 0}, "lost_limit must be at least 1"),
        ({"kind": RetryKind.SCHEDULE}, "a schedule needs delays"),
        ({"kind": RetryKind.SCHEDULE, "delays": (1.0, -1.0)}, "none of them negative"),
    ],
)
def test_invalid_numbers_are_refused(wrong: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        RetryPolicy(**wrong)


def test_a_base_above_the_default_maximum_raises_it() -> None:
    assert RetryPolicy.backoff(base=7200).max_delay == 7200
    assert RetryPolicy.unbounded(base=7200).max_delay == 7200


@pytest.mark.parametrize("kind", RetryKind)
def test_a_policy_is_found_by_its_name(kind: RetryKind) -> None:
    policy = RetryPolicy.named(kind)
    assert policy.kind is kind
    assert msgspec.json.decode(msgspec.json.encode(policy), type=RetryPolicy) == policy


def test_an_unknown_name_is_refused_and_the_known_ones_listed() -> None:
    with pytest.raises(UsageError, match="no retry policy `never`") as error:
        RetryPolicy.named("never")
    assert error.value.hint == "known are backoff, unbounded, schedule, halt"
    assert len(DEFAULT_SCHEDULE) == 9
