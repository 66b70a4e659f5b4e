"""The laws of learned limits, on a clock that moves only when told to."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from gapless.providers.limits import CALM, PROBE_AFTER, Cap, Concurrency, Rest, delay

sizes = st.integers(1, 200)
times = st.floats(0, 10, allow_nan=False)


@given(st.integers(1, 64), st.lists(st.tuples(st.booleans(), times)))
def test_concurrency_stays_within_its_bounds(most: int, events: list[tuple[bool, float]]) -> None:
    concurrency, now = Concurrency(most), 0.0
    assert concurrency.allowed == most
    for good, passed in events:
        before, now = concurrency.allowed, now + passed
        if good:
            concurrency.succeeded()
            assert before <= concurrency.allowed <= before + 1
        else:
            concurrency.limited(now, now)
            assert concurrency.allowed in (before, max(1, before // 2))
        assert 1 <= concurrency.allowed <= most


@given(st.integers(2, 64), st.integers(1, 64))
def test_simultaneous_refusals_halve_once(most: int, refusals: int) -> None:
    concurrency = Concurrency(most)
    cuts = [concurrency.limited(sent_at=0.0, now=1.0 + at) for at in range(refusals)]
    assert cuts == [True] + [False] * (refusals - 1)
    assert concurrency.allowed == most // 2
    assert concurrency.limited(sent_at=1.5, now=2.0), "this one left with the new limit"


@given(st.integers(2, 64))
def test_concurrency_grows_by_one_per_window(most: int) -> None:
    concurrency = Concurrency(most)
    concurrency.restore(1, 0.0)
    for allowed in range(1, most):
        assert concurrency.allowed == allowed
        for _ in range(allowed):
            concurrency.succeeded()
    assert concurrency.allowed == most
    concurrency.succeeded()
    assert concurrency.allowed == most


@given(st.integers(1, 150), st.booleans())
def test_a_cap_finds_the_allowed_size(allowed: int, words: bool) -> None:
    """Whatever the true limit is, full batches settle within it, at no less than half of it."""
    cap, refused = Cap(20, 100), 0
    for now in range(50):
        if cap.value > allowed:
            refused += 1
            cap.refused(cap.value, now, allowed if words else None)
        else:
            cap.confirm(cap.value, now)
    assert cap.value <= allowed
    assert 2 * cap.value >= min(allowed, 100)
    assert refused <= 7
    if words:
        assert cap.value == min(allowed, 100)


@given(st.lists(st.tuples(st.sampled_from(["held", "refused", "eased"]), sizes, times)))
def test_a_cap_stays_within_its_bounds(events: list[tuple[str, int, float]]) -> None:
    cap, now = Cap(20, 100, 2), 0.0
    for what, used, passed in events:
        now, before = now + passed, cap.value
        if what == "held":
            cap.confirm(used, now)
            assert before <= cap.value <= 2 * before
            assert cap.value in (before, min(2 * before, cap.ceiling(now)))
        elif what == "refused":
            cap.refused(used, now)
            assert cap.value <= max(2, used // 2, 2)
        else:
            cap.shrink(used)
        assert 2 <= cap.value <= 100


def test_a_stated_limit_that_does_not_help_is_ignored() -> None:
    cap = Cap(80, 100)
    cap.refused(80, 0.0, stated=80)
    assert cap.value == 40


def test_one_refusal_of_a_size_that_was_answered_before_is_an_exception() -> None:
    cap = Cap(20, 100)
    cap.confirm(20, 0.0)
    cap.confirm(40, 1.0)
    cap.refused(40, 2.0)
    assert (cap.value, cap.learned(2.0)) == (20, None)
    cap.refused(40, 3.0)
    assert (cap.value, cap.learned(3.0)) == (20, 20)


def test_a_limit_is_probed_again_later() -> None:
    cap = Cap(20, 100)
    cap.refused(20, 0.0, stated=10)
    cap.confirm(10, PROBE_AFTER - 1)
    assert (cap.value, cap.learned(PROBE_AFTER - 1)) == (10, 10)
    cap.confirm(10, PROBE_AFTER)
    assert (cap.value, cap.learned(PROBE_AFTER)) == (20, None)


def test_a_small_success_does_not_raise_the_cap() -> None:
    cap = Cap(20, 100)
    cap.confirm(3, 0.0)
    assert cap.value == 20


# Requests that fail as a whole


def failing(cap: Cap, takes: int, requests: int) -> list[int]:
    """Sizes tried with a provider that takes at most this many calls and gives no reason."""
    sizes = []
    for now in range(requests):
        sizes.append(cap.value)
        if cap.value <= takes:
            cap.confirm(cap.value, now)
        else:
            cap.failed(cap.value)
    return sizes


def test_a_single_failure_says_nothing_about_the_size() -> None:
    cap = Cap(20, 100)
    for now in range(50):
        assert not cap.failed(20)
        cap.confirm(10, now)
    assert cap.value == 20


def test_a_size_that_was_answered_before_is_abandoned_later() -> None:
    """Its failures may be chance. Not so for a refusal by rate, where every attempt costs."""
    cap = Cap(20, 100)
    for now in range(5):
        cap.confirm(20, now)
        assert [cap.failed(20) for _ in range(2)] == [False, False]
    assert cap.failed(20)
    assert cap.value == 10
    cap.confirm(20, 6)
    assert [cap.failed(10, limited=True) for _ in range(2)] == [False, True]


def test_a_partial_answer_does_not_fail_the_whole() -> None:
    cap = Cap(20, 100)
    for _ in range(9):
        assert not cap.failed(20)
        cap.answered_in_part()
    assert cap.value == 20


@given(st.integers(1, 60))
def test_consecutive_failures_halve_down_to_what_is_answered(takes: int) -> None:
    cap = Cap(80, 100)
    first = failing(cap, takes, 9)
    assert min(first) <= takes, "nine requests find a size that is answered"
    sizes = failing(cap, takes, 200)
    answered = sum(size for size in sizes if size <= takes)
    assert answered >= 0.5 * takes * len(sizes), "most requests are answered, and nearly full"
    assert cap.learned(300) in (None, takes), "a learned limit is the true one"


def test_simultaneous_failures_halve_once() -> None:
    cap = Cap(20, 100)
    assert [cap.failed(20) for _ in range(8)] == [False, True] + [False] * 6
    assert cap.value == 10


def test_a_rate_limit_does_not_limit_the_size() -> None:
    cap = Cap(20, 100)
    for now in range(10):
        for _ in range(2):
            cap.failed(cap.value, limited=True)
        cap.confirm(1, now)
    assert cap.value < 20
    assert cap.learned(10) is None


def test_an_outage_teaches_nothing_about_the_size() -> None:
    cap = Cap(20, 100)
    for _ in range(30):
        cap.failed(cap.value)
    assert cap.value == 1
    for now in range(12):
        cap.confirm(cap.value, now)
    assert cap.learned(12) is None
    assert cap.value >= 20


@given(st.floats(0.01, 0.1), st.integers(0, 99))
def test_if_each_call_may_fail_its_batch_most_batches_are_still_answered(
    share: float, seed: int
) -> None:
    cap, chance, sent, answered = Cap(20, 100), Random(seed), 0, 0
    for now in range(600):
        used, sent = cap.value, sent + cap.value
        if chance.random() < (1 - share) ** used:
            cap.confirm(used, now)
            answered += used
        else:
            cap.failed(used)
    assert answered >= 0.45 * sent
    assert answered >= 600 * 0.04 / share, "batches are no smaller than necessary"


@given(st.integers(1, 10_000), st.floats(0, 1))
def test_delays_grow_up_to_a_bound(failures: int, chance: float) -> None:
    assert 0.05 <= delay(failures, chance) <= 3.0
    assert delay(failures + 1, chance) >= delay(failures, chance)
    assert delay(1, 0.0) == 0.1


def test_occasional_refusals_cost_little_each() -> None:
    rest = Rest()
    for _ in range(50):
        assert rest.after_refusal(chance=0.0) == rest.least
        rest.succeeded()


def test_a_provider_that_refuses_after_a_rest_gets_a_longer_one() -> None:
    rest = Rest(least=0.05, most=0.25, longest=10.0)
    assert [rest.after_refusal(0.0) for _ in range(7)] == [0.05, 0.2, 0.8, 2.0, 4.0, 8.0, 10.0]
    rest.succeeded()
    assert rest.after_refusal(0.0) == 0.25, "one success is not yet calm"


def test_a_provider_that_always_refuses_some_calls_is_not_rushed() -> None:
    rest = Rest(least=0.05, most=0.25)
    rests = []
    for _ in range(5):
        rest.succeeded(partly=True)
        rests.append(rest.after_refusal(0.0))
    assert rests == [0.05, 0.1, 0.2, 0.25, 0.25]


def test_rests_shorten_gradually_after_calm() -> None:
    rest = Rest(least=0.05, most=0.25)
    for _ in range(9):
        rest.after_refusal(0.0)
    firsts = []
    for _ in range(4):
        firsts.append(rest.first)
        for _ in range(CALM):
            rest.succeeded()
    assert firsts == [0.25, 0.125, 0.0625, 0.05]


@given(st.lists(st.tuples(st.sampled_from(["good", "partly", "bad"]), st.floats(0, 1))))
def test_a_rest_stays_within_its_bounds(events: list[tuple[str, float]]) -> None:
    rest = Rest()
    for kind, chance in events:
        if kind != "bad":
            rest.succeeded(partly=kind == "partly")
        else:
            assert rest.least / 2 <= rest.after_refusal(chance) <= rest.longest
        assert rest.least <= rest.first <= rest.most
