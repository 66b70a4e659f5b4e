"""What is learned of an endpoint, for how long it is believed, and when it rests."""

from __future__ import annotations

import pytest

from gapless.sources.reactions import Reaction, Refusal
from gapless.sources.rpc import EndpointSpec, Profile
from gapless.sources.rpc.endpoint import Endpoint
from gapless.sources.rpc.envelope import Complaint
from gapless.sources.rpc.limits import PROBE_AFTER

RECEIPTS = "eth_getBlockReceipts"


def endpoint(known: Profile | None = None) -> Endpoint:
    spec = EndpointSpec("a", "https://host/key")
    return Endpoint(spec, 8, known or Profile(), now=0.0, chance=lambda: 0.0)


def complaint(reaction: Reaction, wait: float | None = None, *, denied: bool = False) -> Complaint:
    return Complaint(Refusal(reaction, wait_seconds=wait), "words", denied=denied)


def test_everything_learned_is_forgotten_and_so_tried_again() -> None:
    it = endpoint()
    it.lacks_method(RECEIPTS, 0.0)
    it.lacks_history(99, 0.0)
    it.doubt_below(50, 0.0)
    just_before = PROBE_AFTER - 1
    assert it.lacks([RECEIPTS], just_before)
    assert (it.earliest(just_before), it.doubted_below(just_before)) == (100, 50)
    assert it.profile(just_before) == Profile(earliest_block=100, lacks=(RECEIPTS,))
    assert not it.lacks([RECEIPTS], PROBE_AFTER)
    assert (it.earliest(PROBE_AFTER), it.doubted_below(PROBE_AFTER)) == (0, 0)
    assert it.profile(PROBE_AFTER) == Profile()


def test_a_profile_goes_on_where_it_was() -> None:
    known = Profile(10, 2 << 20, 3, 77, (RECEIPTS,))
    assert endpoint(known).profile(1.0) == known
    senseless = Profile(batch_calls=-1, batch_bytes=5, concurrency=0)
    assert endpoint(senseless).profile(1.0) == Profile(concurrency=1)


def test_history_begins_above_the_highest_block_that_is_gone() -> None:
    it = endpoint()
    for height in (5, 30, 7):
        it.lacks_history(height, 0.0)
    assert it.earliest(0.0) == 31


def test_a_head_is_old_news_soon() -> None:
    it = endpoint()
    assert not it.is_below(5, 0.0), "nothing is known yet"
    it.heard_of_head(4, 0.0)
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
        (complaint(Reaction.SWITCH, 900.0), 900.0),
        (complaint(Reaction.SWITCH, denied=True), 5.0),
        (complaint(Reaction.AGAIN, 4.0), 4.0),
    ],
)
def test_how_long_it_rests(refused: Complaint, rests: float) -> None:
    it = endpoint()
    it.refused(refused, sent_at=0.0, now=1.0)
    assert it.ready_at() == pytest.approx(1.0 + rests)
    assert it.trouble == "words"


def test_failures_in_a_row_speak_against_it() -> None:
    it = endpoint()
    for at in range(2):
        it.failed("trouble", sent_at=at, now=at + 0.5)
    assert it.ready_at() < 2
    it.answered(limited=False)
    for at in range(2, 4):
        it.failed("trouble", sent_at=at, now=at + 0.5)
    assert it.ready_at() < 4, "a success stood in between"
    it.failed("trouble", sent_at=4, now=4.5)
    assert it.ready_at() == pytest.approx(4.7)
    it.failed("trouble", sent_at=5, now=5.5)
    assert it.ready_at() == pytest.approx(5.9)


def test_a_volley_of_failures_is_one() -> None:
    it = endpoint()
    for _ in range(8):
        it.failed("trouble", sent_at=0.0, now=1.0)
    assert it.ready_at() < 1
