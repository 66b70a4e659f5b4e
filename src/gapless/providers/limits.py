"""How much a provider accepts at once, learned by trying. Pure: callers pass the time.

| what          | starts      | grows                          | shrinks                      |
|---------------|-------------|--------------------------------|------------------------------|
| `Concurrency` | at `most`   | by one per window of successes | by half, once per round trip |
| `Cap`         | at `start`  | when an answer nearly filled   | by half, or to the           |
|               |             | it: doubles, or grows by an    | provider's limit; also after |
|               |             | eighth near a size that failed | two or three consecutive     |
|               |             |                                | failures                     |
| `Rest`        | at `least`  | doubles when it was too short  | by half, after `CALM`        |
|               |             |                                | consecutive successes        |

A limit learned from a refusal expires after `PROBE_AFTER` seconds and is then tried again, so one
bad moment never costs a capability for good.
"""

from __future__ import annotations

from math import inf

PROBE_AFTER = 600.0
CALM = 20  # requests
# Whole requests that fail in a row before a smaller size is tried; one more if the size worked.
_IN_A_ROW = 2
_STRIKES = 3  # repeated failures of a size before it counts as a limit


class Concurrency:
    """Requests in flight: additive increase, multiplicative decrease, between one and `most`."""

    def __init__(self, most: int) -> None:
        self.most = self.allowed = most
        self.limited_at = -inf
        self._streak = 0

    def restore(self, allowed: int, limited_at: float) -> None:
        """Restore what an earlier process learned."""
        self.allowed = max(1, min(self.most, allowed))
        self.limited_at = limited_at

    def succeeded(self) -> None:
        self._streak += 1
        if self._streak >= self.allowed:
            self._streak = 0
            self.allowed = min(self.most, self.allowed + 1)

    def limited(self, sent_at: float, now: float) -> bool:
        """Halve, unless the request was sent before the last halving; return whether it did."""
        if sent_at < self.limited_at:
            return False
        self.allowed = max(1, self.allowed // 2)
        self._streak = 0
        self.limited_at = now
        return True


class Cap:
    """A number of calls or bytes per request, between `least` and `most`."""

    def __init__(self, start: int, most: int, least: int = 1) -> None:
        self.most, self.least = most, least
        self.value = max(least, min(start, most))
        self._limit = most  # learned from the last refusal
        self._limit_at = -inf
        self._refused_at = -inf
        self._proven = 0  # the largest request that was answered
        self._failures = 0  # in a row
        self._double_below = most  # it doubles below this, and grows by an eighth above
        self._strikes = 0  # failures of requests larger than any that was answered
        self._smallest_strike = most + 1  # the smallest such request

    def ceiling(self, now: float) -> int:
        return self._limit if now - self._limit_at < PROBE_AFTER else self.most

    def fails_by_chance(self, now: float) -> bool:
        """Whether it shrank because whole requests failed, although about this size is answered.

        A provider that has lately refused a size does not fail by chance.
        """
        shrank, is_proven = self._double_below < self.most, 2 * self._proven > self.value
        return shrank and is_proven and now - self._refused_at >= PROBE_AFTER

    def confirm(self, used: int, now: float) -> None:
        """Record an answered request; it proves room for more only if it nearly filled the cap."""
        self._proven = max(self._proven, used)
        self._failures = 0
        if used >= self._smallest_strike:
            self._forget_strikes()
        elif self._strikes >= _STRIKES:  # smaller ones are answered, larger ones never
            self._set_limit(self._smallest_strike - 1, now)
        if 4 * used >= 3 * self.value or used + 1 == self.value:
            steep = self._double_below - self.value
            step = min(self.value, steep) if steep > 0 else max(1, self.value // 8)
            self.value = max(self.value, min(self.value + step, self.ceiling(now)))

    def answered_in_part(self) -> None:
        """Record that part of a request was answered: it did not fail as a whole."""
        self._failures = 0

    def failed(self, used: int, *, limited: bool = False) -> bool:
        """Record a request that failed as a whole; return whether to try smaller ones from now on.

        That takes two failures in a row. It takes three if a request of this size was answered
        before: the failure is then probably random, and small requests would cost more round trips
        than the retries. A limit is inferred only after larger requests have failed several times
        and a smaller one was answered, and never from requests `limited` by a rate.
        """
        if used <= self.least:  # the size is not the cause
            self._forget_strikes()
            return False
        if used > self.value:  # sent before the cap shrank
            return False
        self._failures += 1
        enough = _IN_A_ROW + (used <= self._proven and not limited)
        if self._failures < enough:
            return False
        if self._failures == enough:
            self._double_below = max(self.least, used // 2)
        if used > self._proven and not limited:
            self._strikes += self._failures == _IN_A_ROW  # consecutive failures count once
            self._smallest_strike = min(self._smallest_strike, used)
        self._proven = min(self._proven, used - 1)  # the next failure is a strike
        self.shrink(used)
        return True

    def refused(self, used: int, now: float, stated: int | None = None) -> None:
        """Record a request that was too large; `stated` is the limit that the provider named.

        If a request of this size was answered before, this one was an exception (a giant block
        among small ones): the cap shrinks for now, but becomes a limit only if it happens again.
        """
        if stated is None and used <= self._proven:
            self._proven = used // 2
            self.shrink(used)
            return
        fits = stated if stated is not None and stated < used else used // 2
        self._proven = 0
        self._refused_at = now
        self._set_limit(max(self.least, min(fits, self.ceiling(now))), now)

    def shrink(self, used: int) -> None:
        """Send less next time, without inferring a limit."""
        self.value = max(self.least, min(self.value, used // 2))

    def learned(self, now: float) -> int | None:
        """The limit learned from a refusal, unless it has expired."""
        return None if self.ceiling(now) >= self.most else self._limit

    @property
    def learned_at(self) -> float:
        return self._limit_at

    def restore(self, limit: int, learned_at: float) -> None:
        """Restore what an earlier process learned."""
        if self.least <= limit < self.most:
            self._refused_at = learned_at
            self._set_limit(limit, learned_at)

    def _set_limit(self, fits: int, now: float) -> None:
        self._limit, self._limit_at = fits, now
        self._forget_strikes()
        self.value = min(self.value, fits)

    def _forget_strikes(self) -> None:
        self._strikes, self._smallest_strike = 0, self.most + 1


class Rest:
    """How long to pause after a rate limit that does not say how long to wait.

    An occasional refusal costs almost nothing. If a provider refuses again right after a rest, the
    first rest becomes longer, until requests have succeeded for a while.
    """

    def __init__(self, least: float = 0.05, most: float = 0.25, longest: float = 10.0) -> None:
        self.least, self.most, self.longest = least, most, longest
        self.first = least
        self._refusals = self._successes = 0  # in a row

    def after_refusal(self, chance: float) -> float:
        self._refusals += 1
        self._successes = 0
        if self._refusals > 1:
            self._begin_longer()
        return delay(self._refusals, chance, self.first, self.longest)

    def succeeded(self, *, partly: bool = False) -> None:
        """Record an answer; `partly` if some of its calls were refused, so it is not calm."""
        if partly and self._refusals:
            self._begin_longer()
        self._refusals = 0
        self._successes = 0 if partly else self._successes + 1
        if self._successes >= CALM:
            self._successes = 0
            self.first = max(self.least, self.first / 2)

    def _begin_longer(self) -> None:
        self.first = min(self.most, 2 * self.first)


def delay(failures: int, chance: float, first: float = 0.1, longest: float = 3.0) -> float:
    """Return the wait after consecutive failures; `chance` (0 to 1) removes up to half of it."""
    return min(first * 2.0 ** min(failures - 1, 30), longest) * (1 - chance / 2)
