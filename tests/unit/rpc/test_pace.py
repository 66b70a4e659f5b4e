"""The laws of a learned rate, against providers whose budgets are unknown."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from itertools import count
from math import inf

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gapless.providers.limits import PROBE_AFTER
from gapless.providers.pace import Pacer

Meter = Callable[[int, float], bool]


def bucket(budget: float, *, costly: bool = False) -> Meter:
    """One second's budget at once, then a fixed rate; a refused batch may cost as well."""
    left, at = budget, 0.0

    def grants(calls: int, now: float) -> bool:
        nonlocal left, at
        left, at = min(budget, left + (now - at) * budget), now
        granted = left >= calls
        if granted or costly:
            left = max(-budget, left - calls)
        return granted

    return grants


def window(budget: float) -> Meter:
    """A fixed budget for each second of the clock."""
    second, used = -1, 0

    def grants(calls: int, now: float) -> bool:
        nonlocal second, used
        if int(now) != second:
            second, used = int(now), 0
        granted = used + calls <= budget
        used += calls * granted
        return granted

    return grants


def run(pacer: Pacer, grants: Meter, start: float, end: float) -> tuple[float, float]:
    """Calls answered and refused per second, for a client that always has more to ask."""
    now, answered, refused = start, 0, 0
    while now < end:
        now += max(pacer.wait(now), 0.002)
        calls = min(20, pacer.largest or 20)
        pacer.take(calls, now)
        if grants(calls, now):
            answered += calls
            pacer.record(calls, 0, now)
        else:
            refused += calls
            pacer.record(0, calls, now)
            now += 0.05  # as long as an endpoint rests
    return answered / (end - start), refused / (end - start)


@pytest.mark.parametrize(
    ("meter", "share"),
    [(bucket, 0.9), (window, 0.8), (partial(bucket, costly=True), 0.3)],
    ids=["bucket", "window", "costly"],
)
@settings(deadline=None, max_examples=30)
@given(budget=st.integers(10, 2000))
@example(budget=11)  # was once mistaken for chance refusals, and then not paced at all
def test_the_rate_settles_near_the_budget(
    meter: Callable[[float], Meter], share: float, budget: int
) -> None:
    pacer, grants = Pacer(), meter(budget)
    run(pacer, grants, 0, 20)
    answered, refused = run(pacer, grants, 20, 80)
    assert answered >= share * budget
    assert refused <= 0.25 * budget


@settings(deadline=None, max_examples=50)
@given(st.integers(40, 500), st.sampled_from([0.25, 4.0]))
def test_the_rate_follows_a_budget_that_changes(budget: int, factor: float) -> None:
    pacer = Pacer()
    run(pacer, bucket(budget), 0, 30)
    grants = bucket(factor * budget)
    run(pacer, grants, 30, 90)
    answered, refused = run(pacer, grants, 90, 120)
    assert answered >= 0.7 * factor * budget
    assert refused <= 0.2 * factor * budget


@pytest.mark.parametrize("nth", [5, 20, 30])
def test_a_provider_that_refuses_by_chance_is_not_throttled(nth: int) -> None:
    """Every n-th request is refused, however few there are."""

    class Unpaced(Pacer):
        def record(self, answered: int, refused: int, now: float) -> None: ...

    def chance() -> Meter:
        numbers = count(1)
        return lambda *_: next(numbers) % nth != 0

    answered, _ = run(Pacer(), chance(), 0, 120)
    at_best, _ = run(Unpaced(), chance(), 0, 120)
    assert answered > 0.7 * at_best


@pytest.mark.parametrize("seconds", [0.02, 0.06])
@pytest.mark.parametrize("calls", [1, 20])
def test_a_fifth_refused_by_chance_does_not_throttle_a_slow_client(
    calls: int, seconds: float
) -> None:
    """In a second with few requests, a third of them is soon refused, which proves nothing."""
    for seed in range(40):
        chance, pacer, now, answered = random.Random(seed), Pacer(), 0.0, 0
        while now < 120:
            now += max(pacer.wait(now), seconds)
            sent = min(calls, pacer.largest or calls)
            pacer.take(sent, now)
            if refused := chance.random() < 0.2:
                now += 0.01
            pacer.record(0 if refused else sent, sent if refused else 0, now)
            answered += 0 if refused else sent
        assert answered > 0.3 * 0.8 * calls * 120 / (seconds + 0.002), seed


def test_one_refused_request_in_a_slow_second_does_not_set_a_rate() -> None:
    """A large batch that is refused while little else is answered looks like a tiny budget."""
    pacer = Pacer()
    for at in (0.0, 0.5):
        pacer.take(1, at)
        pacer.record(1, 0, at + 0.1)
    pacer.take(20, 0.9)
    pacer.record(0, 20, 1.1)
    assert pacer.rate == inf


def test_without_refusals_there_is_no_pacing() -> None:
    pacer = Pacer()
    run(pacer, bucket(1e9), 0, 5)
    assert (pacer.rate, pacer.largest, pacer.wait(6.0)) == (inf, None, 0.0)


@given(st.floats(0.5, 500), st.lists(st.tuples(st.integers(1, 100), st.floats(0, 3)), min_size=1))
def test_no_window_holds_more_calls_than_the_rate_and_one_batch(
    rate: float, batches: list[tuple[int, float]]
) -> None:
    pacer, now, sent = Pacer(rate), 0.0, list[tuple[float, int]]()
    for calls, passed in batches:
        now += passed + pacer.wait(now + passed)
        pacer.take(calls, now)
        pacer.record(calls, 0, now)
        sent.append((now, calls))
    for at, (start, _) in enumerate(sent):
        total = 0
        for end, calls in sent[at:]:
            assert total <= rate * (end - start) + 1e-6 * rate + 1e-6, "earlier calls are paid for"
            total += calls


@settings(deadline=None, max_examples=20)
@given(st.integers(20, 200), st.integers(20, 200))
def test_the_configured_rate_stays_an_upper_bound(most: int, budget: int) -> None:
    pacer, grants = Pacer(most), bucket(budget)
    answered, refused = run(pacer, grants, 0, 30)
    assert answered + refused <= most + 1
    assert answered >= 0.6 * min(most, budget)


def test_idle_time_says_nothing_about_the_provider() -> None:
    pacer = Pacer()
    run(pacer, bucket(100), 0, 20)
    learned = pacer.rate
    pacer.take(5, 500.0)
    pacer.record(0, 5, 500.1)
    pacer.take(5, 501.2)
    pacer.record(5, 0, 501.3)
    assert pacer.rate >= 0.5 * learned


def test_a_learned_rate_expires() -> None:
    pacer = Pacer()
    pacer.restore(50.0, 100.0)
    assert (pacer.rate, pacer.learned(100.0)) == (50.0, 50.0)
    assert pacer.learned(100.0 + PROBE_AFTER) is None
    for senseless in (0.0, -1.0, inf):
        other = Pacer()
        other.restore(senseless, 0.0)
        assert other.rate == inf
