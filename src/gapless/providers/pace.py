"""How many calls per second a provider accepts, learned from its answers and refusals. Pure.

A pacer starts without a rate. It evaluates each second (an epoch):

    many requests refused    the rate becomes what was answered in this epoch. A few requests that
                             are refused in a slow epoch are not many, whatever their share is
    some refused             the rate falls a little, but not below what was answered in the best
                             recent epoch. If that does not help, the refusals are random: that
                             share is tolerated for a while, without a rate
    a few refused            they are random: nothing is learned
    none, and calls waited   the rate grows: quickly while it is far below the rate that was last
                             refused, slowly near it
    none, and none waited    nothing is learned

Requests count, not calls: one large batch that is refused at random proves no more than a small
one. The configured rate is an upper bound; what is learned never raises it.
"""

from __future__ import annotations

from collections import deque
from math import inf, isfinite

from gapless.providers.limits import PROBE_AFTER

EPOCH = 1.0  # seconds
_SOON = 0.1  # seconds: a batch sent this soon after its turn was waiting for it
LEAST = 0.5  # calls per second
_REMEMBERED = 4  # epochs
_MANY, _SOME = 0.3, 0.06  # shares of refused requests that are not, or perhaps not, random
_TELLING = 5  # refused requests before their share is used
_STUBBORN = 3  # consecutive epochs with some refusals, or with none, that are not random
_MUCH_SLOWER = 0.75  # of the rate: an unchanged share of refusals at this rate is random
_NOISE_HOLDS = 60.0  # seconds
_DECREASE, _MOST_DECREASE = 0.9, 0.5  # of the rate, for an epoch with refusals
_GROWTH = ((0.5, 2.0), (0.85, 1.25))  # up to this share of the refused rate: factor per epoch
_NEAR_GROWTH = 0.02  # for each epoch in a row without a refusal, above these shares
_CEILING_HOLDS = 60.0  # seconds
_UNPACED_ABOVE = 20_000.0  # calls per second: more than one process can use
_BATCHES_PER_SECOND = 8  # at a learned rate, so that a refused batch is a small loss


class Pacer:
    """Spreads calls evenly at the learned rate, and never faster than `most`."""

    def __init__(self, most: float | None = None) -> None:
        self._most = inf if most is None else most
        self._rate = inf
        self._learned_at = -inf
        self._free_at = -inf
        self._ceiling, self._ceiling_at = inf, -inf  # the rate that was last refused
        self._calm = 0  # epochs in a row
        self._some = 0  # epochs in a row with some refusals, while unpaced
        self._slowing_from = inf  # the rate at which counting these two began:
        self._slowing_requests = self._slowing_refusals = 0
        self._noise, self._noise_until = 0.0, -inf  # the share that is refused at random
        self._recent: deque[float] = deque(maxlen=_REMEMBERED)  # calls answered per second
        self._started_at = self._used_at = -inf
        self._answered = 0  # calls
        self._requests = self._refusals = 0
        self._waited = False

    @property
    def rate(self) -> float:
        """Calls per second; infinite if there is no limit."""
        return min(self._rate, self._most)

    @property
    def largest(self) -> int | None:
        """The most calls in one batch, so that it does not exceed one second; None: any."""
        largest = min(self._rate / _BATCHES_PER_SECOND, self._most)
        return max(1, int(largest)) if isfinite(largest) else None

    def wait(self, now: float) -> float:
        """Return how long to wait before the next batch may be sent."""
        return max(0.0, self._free_at - now)

    def take(self, calls: int, now: float) -> None:
        """Record calls that are sent now; the next ones wait in proportion to their number."""
        if now - max(self._used_at, self._free_at) > EPOCH:
            # An idle time proves nothing about the provider.
            self._begin(now)
        self._used_at = now
        self._waited |= now - self._free_at < _SOON
        self._free_at = max(self._free_at, now) + calls / self.rate

    def record(self, answered: int, refused: int, now: float) -> None:
        """Record how many calls were answered, and how many were refused by a rate limit."""
        self._answered += answered
        self._requests += 1
        self._refusals += refused > 0
        passed = now - self._started_at
        if passed >= EPOCH:
            self._conclude(passed, now)
            self._begin(now)

    def learned(self, now: float) -> float | None:
        """Return the rate learned from the provider, unless it has expired."""
        valid = now - self._learned_at < PROBE_AFTER
        return self._rate if valid and isfinite(self._rate) else None

    @property
    def learned_at(self) -> float:
        return self._learned_at

    def restore(self, rate: float, learned_at: float) -> None:
        """Restore what an earlier process learned."""
        if LEAST <= rate < _UNPACED_ABOVE:
            self._rate = self._ceiling = rate
            self._learned_at = self._ceiling_at = learned_at

    def _begin(self, now: float) -> None:
        self._started_at = now
        self._answered = self._requests = self._refusals = 0
        self._waited = False

    def _conclude(self, passed: float, now: float) -> None:
        answered = self._answered / passed
        if self._refusals:
            noise = self._noise if now < self._noise_until else 0.0
            self._slow_down(answered, self._refusals / self._requests - noise, now)
            self._recent.append(answered)
            return
        self._some = 0
        self._slowing_requests += self._requests
        if self._waited and isfinite(self._rate):
            fresh = now - self._ceiling_at < _CEILING_HOLDS
            share = self._rate / self._ceiling if fresh else 0.0
            self._calm += 1
            if self._calm == _STUBBORN:  # slowing down has helped
                self._count_from(self._rate)
            near = min(1 + _NEAR_GROWTH * self._calm, _GROWTH[-1][1])
            self._rate *= next((factor for below, factor in _GROWTH if share < below), near)
        if self._rate > _UNPACED_ABOVE:
            self._rate = inf
        self._recent.append(answered)

    def _slow_down(self, answered: float, share: float, now: float) -> None:
        """React to the share of requests that were refused, not counting random refusals."""
        self._slowing_requests += self._requests
        self._slowing_refusals += self._refusals
        if share < _SOME:
            self._some = 0
            return
        unpaced, many = not isfinite(self._rate), share >= _MANY
        best = max(answered, *self._recent, 0.0)
        if unpaced:
            self._some += 1
            if self._refusals < _TELLING if many else self._some < _STUBBORN:
                return
            self._rate, self._ceiling = max(LEAST, answered if many else best), answered or inf
            self._count_from(self._rate)
        elif many and self._refusals >= _TELLING:
            self._rate = max(LEAST, _MOST_DECREASE * self._rate, min(answered, self._rate))
            self._ceiling = self._rate
            self._count_from(self._rate)
        elif self._slowing_is_useless(now):
            return
        else:
            self._ceiling = self._rate
            least = max(best, _MOST_DECREASE * self._rate)
            self._rate = max(LEAST, min(least, _DECREASE * self._rate))
        self._ceiling_at = self._learned_at = now
        self._calm = 0

    def _slowing_is_useless(self, now: float) -> bool:
        """Whether a much lower rate has as many refusals: then the rate is not the cause."""
        if self._rate > _MUCH_SLOWER * self._slowing_from or self._slowing_refusals < _TELLING:
            return False
        share = self._slowing_refusals / self._slowing_requests
        if share < _SOME:
            self._count_from(self._rate)
            return False
        if self._refusals / self._requests < share:  # fewer than before: it does help
            return False
        self._noise, self._noise_until = share, now + _NOISE_HOLDS
        self._rate = self._ceiling = inf
        self._some = 0
        return True

    def _count_from(self, rate: float) -> None:
        self._slowing_from = rate
        self._slowing_requests = self._slowing_refusals = 0
