"""When a method counts as missing, and when it does not."""

from __future__ import annotations

from gapless.providers.limits import PROBE_AFTER
from gapless.providers.offer import Offer

RECEIPTS, BLOCK = "eth_getBlockReceipts", "eth_getBlockByNumber"


def declining(offer: Offer, times: int, start: float = 0.0) -> None:
    for at in range(times):
        offer.declined(RECEIPTS, start + at, start + at + 0.5)


def test_a_method_that_is_declined_repeatedly_is_missing() -> None:
    offer = Offer()
    offer.answered([BLOCK], 0.0)
    declining(offer, 2)
    assert not offer.lacks([RECEIPTS], 2.0)
    assert offer.suspects(RECEIPTS)
    declining(offer, 1, start=2.0)
    assert offer.lacks([RECEIPTS, BLOCK], 3.0)
    assert not offer.lacks([BLOCK], 3.0)
    assert not offer.lacks([RECEIPTS], 2.5 + PROBE_AFTER)


def test_a_method_that_was_answered_is_not_missing() -> None:
    offer = Offer()
    offer.answered([BLOCK, RECEIPTS], 0.0)
    declining(offer, 9)
    assert not offer.lacks([RECEIPTS], 9.0)


def test_an_endpoint_that_answers_nothing_lacks_no_method() -> None:
    offer = Offer()
    declining(offer, 9)
    assert not offer.lacks([RECEIPTS], 9.0)


def test_simultaneous_refusals_count_as_one() -> None:
    offer = Offer()
    offer.answered([BLOCK], 0.0)
    for _ in range(9):
        offer.declined(RECEIPTS, 0.0, 1.0)
    assert not offer.lacks([RECEIPTS], 1.0)


def test_an_inconclusive_survey_is_not_repeated_at_once() -> None:
    offer = Offer()
    wanted = [offer.wants_survey(RECEIPTS, now) for now in (0.0, 0.1, 4.0, 5.0)]
    assert wanted == [True, False, False, True]
    offer.begins_at(RECEIPTS, 50, 6.0)
    assert offer.wants_survey(RECEIPTS, 6.0), "a higher one may be missing, too"
