"""What a provider offers: which methods, and from which block on.

Invariant: a single ambiguous refusal removes nothing. A method is missing if the provider says
exactly that, or if it declines the method several times and never answers it. The start of the
history is known only after a `survey` has asked below and above it. Everything expires after
`PROBE_AFTER` seconds and is then tried again.
"""

from __future__ import annotations

from collections.abc import Collection
from math import inf

from gapless.providers.limits import PROBE_AFTER

_DECLINES = 3  # of a method that was never answered, before it counts as missing
_SURVEY_EVERY = 5.0  # seconds, if the last survey was inconclusive


class Offer:
    """The known methods and history of one endpoint."""

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
        """Return the first block for which all of these methods are answered."""
        known = (self._earliest.get(each, (0, -inf)) for each in methods)
        return max((height for height, at in known if now - at < PROBE_AFTER), default=0)

    def doubted_below(self, now: float) -> int:
        """Return the height below which it had no data, without an error; it is asked last."""
        height, learned_at = self._doubted
        return height if now - learned_at < PROBE_AFTER else 0

    def doubt_below(self, height: int, now: float) -> None:
        self._doubted = (max(self.doubted_below(now), height), now)

    def answered(self, methods: Collection[str], now: float) -> None:
        """Record that calls about blocks were answered."""
        for method in methods:
            self._answered_at[method] = now
            self._declined.pop(method, None)

    def declined(self, method: str, sent_at: float, now: float) -> None:
        """Record that a method was refused with an unknown message, while others are answered.

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
        """Record that a method is missing."""
        self._lacks[method] = now

    def wants_survey(self, method: str, now: float) -> bool:
        """Whether to survey the history now; at most once per `_SURVEY_EVERY` seconds."""
        if now - self._surveyed_at.get(method, -inf) < _SURVEY_EVERY:
            return False
        self._surveyed_at[method] = now
        return True

    def begins_at(self, method: str, height: int, now: float) -> None:
        """Record that blocks below a height are missing, as a survey has shown."""
        self._earliest[method] = (max(self.earliest((method,), now), height), now)
        self._surveyed_at.pop(method, None)

    def missing(self, now: float) -> dict[str, float]:
        """Return the missing methods, and when each was found to be missing."""
        return {name: at for name, at in sorted(self._lacks.items()) if now - at < PROBE_AFTER}

    def beginnings(self, now: float) -> dict[str, tuple[int, float]]:
        """Return, by method, where its history begins and when that was learned."""
        known = sorted(self._earliest.items())
        return {name: found for name, found in known if now - found[1] < PROBE_AFTER}
