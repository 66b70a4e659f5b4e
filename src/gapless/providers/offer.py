"""What a provider has to offer: which methods, and from which block on.

Invariant: no single refusal takes anything away. A method is missing if the provider says so in
words that mean exactly that, or if it declines the method several times and never answers it. A
history begins somewhere if that was asked about, below and above (`survey`). Everything is
forgotten after `PROBE_AFTER` seconds, and so tried again.
"""

from __future__ import annotations

from collections.abc import Collection
from math import inf

from gapless.providers.limits import PROBE_AFTER

_DECLINES = 3  # of a method that was never answered, until it counts as missing
_SURVEY_EVERY = 5.0  # seconds, if the last survey was inconclusive


class Offer:
    """Methods and history of one endpoint, as far as they are known."""

    def __init__(self) -> None:
        self._lacks: dict[str, float] = {}  # by method: when that was learned
        self._declined: dict[str, tuple[int, float]] = {}  # by method: how often, and when last
        self._answered_at: dict[str, float] = {}  # by method, of calls about a block
        self._earliest: dict[str, tuple[int, float]] = {}  # by method: height, and when learned
        self._surveyed_at: dict[str, float] = {}
        self._doubted = (0, -inf)

    def lacks(self, methods: Collection[str], now: float) -> bool:
        return any(now - self._lacks.get(each, -inf) < PROBE_AFTER for each in methods)

    def earliest(self, methods: Collection[str], now: float) -> int:
        """The first block that all of these methods are answered for."""
        known = (self._earliest.get(each, (0, -inf)) for each in methods)
        return max((height for height, at in known if now - at < PROBE_AFTER), default=0)

    def doubted_below(self, now: float) -> int:
        """It had nothing below this height, without a word why: it is asked last."""
        height, learned_at = self._doubted
        return height if now - learned_at < PROBE_AFTER else 0

    def doubt_below(self, height: int, now: float) -> None:
        self._doubted = (max(self.doubted_below(now), height), now)

    def answered(self, methods: Collection[str], now: float) -> None:
        """Calls about blocks were answered."""
        for method in methods:
            self._answered_at[method] = now
            self._declined.pop(method, None)

    def declined(self, method: str, sent_at: float, now: float) -> None:
        """A method was refused in words that nobody knows, while others are answered.

        Refusals of requests that were in flight at the same time count as one.
        """
        if now - self._answered_at.get(method, -inf) < PROBE_AFTER:
            return
        count, counted_at = self._declined.get(method, (0, -inf))
        if sent_at < counted_at or not self._answered_at.keys() - {method}:
            return
        self._declined[method] = (count + 1, now)
        if count + 1 >= _DECLINES:
            del self._declined[method]
            self.without(method, now)

    def suspects(self, method: str) -> bool:
        """Whether a method was declined, and never answered since."""
        return method in self._declined

    def without(self, method: str, now: float) -> None:
        """A method is not there."""
        self._lacks[method] = now

    def wants_survey(self, method: str, now: float) -> bool:
        """Whether to find out now where the history begins; says yes once in a while."""
        if now - self._surveyed_at.get(method, -inf) < _SURVEY_EVERY:
            return False
        self._surveyed_at[method] = now
        return True

    def begins_at(self, method: str, height: int, now: float) -> None:
        """Blocks below a height are not there; a survey has shown it."""
        self._earliest[method] = (max(self.earliest((method,), now), height), now)
        self._surveyed_at.pop(method, None)

    def missing(self, now: float) -> dict[str, float]:
        """The methods that are not there, and when that was learned."""
        return {name: at for name, at in sorted(self._lacks.items()) if now - at < PROBE_AFTER}

    def beginnings(self, now: float) -> dict[str, tuple[int, float]]:
        """By method, where its history begins, and when that was learned."""
        known = sorted(self._earliest.items())
        return {name: found for name, found in known if now - found[1] < PROBE_AFTER}
