"""What is learned about an endpoint, how long it stays valid, and when the endpoint rests."""

from __future__ import annotations

from math import inf
from time import time
from typing import cast

import pytest

from gapless.providers import EndpointSpec, Learned, Profile
from gapless.providers.calls import CallError
from gapless.providers.endpoint import LARGEST_BATCH, LONGEST_REST, Endpoint
from gapless.providers.limits import PROBE_AFTER
from gapless.providers.provider_errors import Reaction, Refusal
from gapless.system import System

RECEIPTS = "eth_getBlockReceipts"
BLOCK = "eth_getBlockByNumber"


def endpoint(known: Profile | None = None) -> Endpoint:
    spec = EndpointSpec("a", "https://host/key")
    return Endpoint(spec, 8, known or Profile(), System(clock=lambda: 0.0, chance=lambda: 0.0))


def complaint(reaction: Reaction, wait: float | None = None, *, denied: bool = False) -> CallError:
    return CallError(Refusal(reaction, wait_seconds=wait), "words", denied=denied)


def test_everything_learned_expires_and_is_tried_again() -> None:
    it = endpoint()
    it.offer.without(RECEIPTS, 0.0)
    it.offer.begins_at(RECEIPTS, 100, 0.0)
    it.offer.doubt_below(50, 0.0)
    it.calls.refused(20, 0.0, 10)
    just_before = PROBE_AFTER - 1
    assert it.offer.lacks([RECEIPTS], just_before)
    assert it.offer.earliest([RECEIPTS, BLOCK], just_before) == 100
    assert it.offer.doubted_below(just_before) == 50
    learned = it.profile(just_before)
    assert learned.lacks.keys() == learned.earliest.keys() == {RECEIPTS}
    assert not it.offer.lacks([RECEIPTS], PROBE_AFTER)
    assert it.offer.earliest([RECEIPTS], PROBE_AFTER) == 0
    assert it.offer.doubted_below(PROBE_AFTER) == 0
    assert it.profile(PROBE_AFTER) == Profile()


def learned_at(at: float) -> Profile:
    return Profile(
        batch_calls=Learned(10, at),
        batch_bytes=Learned(2 << 20, at),
        concurrency=Learned(3, at),
        rate=Learned(50.0, at),
        earliest={RECEIPTS: Learned(77, at)},
        lacks={RECEIPTS: at},
    )


def test_a_profile_is_restored_and_keeps_its_age() -> None:
    at = round(time()) - 100.0
    again = endpoint(learned_at(at)).profile(1.0)
    for _ in range(3):  # however often it is saved and restored
        again = endpoint(again).profile(1.0)
    assert [again.batch_calls, again.batch_bytes] == [approx(10, at), approx(2 << 20, at)]
    assert [again.concurrency, again.rate] == [approx(3, at), approx(50.0, at)]
    assert again.earliest == {RECEIPTS: approx(77, at)}
    assert again.lacks == {RECEIPTS: pytest.approx(at, abs=1)}


def approx(value: float, at: float) -> object:
    return Learned(value, cast("float", pytest.approx(at, abs=1)))


@pytest.mark.parametrize("age", [PROBE_AFTER + 1, 1e9, -1e9, float("nan"), float("inf")])
def test_a_profile_that_is_too_old_or_from_the_future_is_ignored(age: float) -> None:
    it = endpoint(learned_at(time() - age))
    assert it.profile(1.0) == Profile()
    assert (it.calls.value, it.concurrency.allowed, it.pacer.rate) == (20, 8, inf)


def test_an_invalid_profile_is_harmless() -> None:
    now = time()
    senseless = Profile(
        batch_calls=Learned(-1, now),
        batch_bytes=Learned(5, now),
        concurrency=Learned(0, now),
        rate=Learned(-3.0, now),
    )
    it = endpoint(senseless)
    assert (it.calls.value, it.concurrency.allowed, it.pacer.rate) == (20, 1, inf)


def fail_by_chance(it: Endpoint, size: int) -> None:
    """Let batches of a size fail, so that half of it is tried, which was answered before."""
    it.calls.confirm(size // 2, 0.0)
    it.calls.value = size
    while it.calls.value == size:
        it.calls.failed(size)


@pytest.mark.parametrize(("size", "slots"), [(40, 32), (66, 24), (100, 16)])
def test_more_requests_are_in_flight_while_batches_fail_by_chance(size: int, slots: int) -> None:
    it = endpoint()
    it.calls.confirm(20, 0.0)
    assert it.slots() == 8, "nothing has failed"
    fail_by_chance(it, size)
    assert it.slots() == slots
    assert slots * it.calls.value <= 8 * LARGEST_BATCH


def test_a_size_that_was_never_answered_is_no_reason_for_more_requests() -> None:
    it = endpoint()
    for _ in range(2):
        it.calls.failed(20)
    assert (it.calls.value, it.slots()) == (10, 8)


def test_a_rate_limit_ends_the_extra_requests() -> None:
    it = endpoint()
    fail_by_chance(it, 20)
    it.refused(complaint(Reaction.SLOW_DOWN), sent_at=0.0, now=0.0)
    assert it.slots() == 4
    paced = endpoint(Profile(rate=Learned(50.0, time())))
    fail_by_chance(paced, 20)
    assert paced.slots() == 8


def test_a_limit_of_the_batch_size_is_no_reason_for_more_requests() -> None:
    it = endpoint()
    fail_by_chance(it, 20)
    it.calls.refused(20, 0.0, 2)
    it.calls.confirm(2, 0.0)
    assert (it.calls.value, it.slots()) == (2, 8)


def test_one_request_at_a_time_stays_one() -> None:
    it = Endpoint(EndpointSpec("a", "https://host/key"), 1, Profile())
    fail_by_chance(it, 20)
    assert it.slots() == 1


def test_a_head_soon_becomes_outdated() -> None:
    it = endpoint()
    assert not it.is_below(5, 0.0), "nothing is known yet"
    it.record_head(4, 0.0)
    assert it.is_below(5, 1.0)
    assert not it.is_below(4, 1.0)
    assert not it.is_below(5, 60.0)


@pytest.mark.parametrize(
    ("refused", "rests"),
    [
        (complaint(Reaction.SLOW_DOWN), 0.05),
        (complaint(Reaction.SLOW_DOWN, 7.0), 7.0),
        (complaint(Reaction.SLOW_DOWN, 0.0), 0.05),
        (complaint(Reaction.SWITCH), 300.0),
        (complaint(Reaction.SWITCH, 900.0), LONGEST_REST),
        (complaint(Reaction.SLOW_DOWN, 86_400.0), LONGEST_REST),
        (complaint(Reaction.SLOW_DOWN, inf), LONGEST_REST),
        (complaint(Reaction.AGAIN, 1e300), LONGEST_REST),
        (complaint(Reaction.SWITCH, denied=True), 5.0),
        (complaint(Reaction.AGAIN, 4.0), 4.0),
    ],
)
def test_the_length_of_a_rest(refused: CallError, rests: float) -> None:
    it = endpoint()
    it.refused(refused, sent_at=0.0, now=1.0)
    assert it.ready_at() == pytest.approx(1.0 + rests)
    assert it.trouble == "words"


def test_consecutive_failures_make_it_rest() -> None:
    it = endpoint()
    for at in range(2):
        it.failed("trouble", sent_at=at, now=at + 0.5)
    assert it.ready_at() < 2
    it.answered(limited=False)
    for at in range(2, 4):
        it.failed("trouble", sent_at=at, now=at + 0.5)
    assert it.ready_at() < 4, "a success came in between"
    it.failed("trouble", sent_at=4, now=4.5)
    assert it.ready_at() == pytest.approx(4.7)
    it.failed("trouble", sent_at=5, now=5.5)
    assert it.ready_at() == pytest.approx(5.9)


def test_simultaneous_failures_count_as_one() -> None:
    it = endpoint()
    for _ in range(8):
        it.failed("trouble", sent_at=0.0, now=1.0)
    assert it.ready_at() < 1


def test_no_reported_trouble_contains_the_key() -> None:
    url = "https://node.example/v2/S3CRETKEY"
    system = System(clock=lambda: 0.0, chance=lambda: 0.5)
    endpoint = Endpoint(EndpointSpec("a", url), 8, Profile(), system)
    endpoint.shrank("internal error for S3CRETKEY")
    assert endpoint.trouble == "internal error for …"
    endpoint.failed("no such key: s3cretkey", 0.0, 1.0)
    assert endpoint.trouble == "no such key: …"
