"""How much a provider takes at once, learned by trying. Pure: the time is always handed in.

| what          | starts      | grows                          | shrinks                      |
|---------------|-------------|--------------------------------|------------------------------|
| `Concurrency` | at the most | by one per window of successes | to half, once per round trip |
| `Cap`         | at `start`  | to the double, when an answer  | to half, or to the           |
|               |             | was all but as large           | provider's own word          |
| `Pacer`       | at the rate | never                          | never                        |
| `Rest`        | at `least`  | to the double, when it was too | to half, after `CALM`        |
|               |             | short                          | successes in a row           |

What a refusal taught is believed for `PROBE_AFTER` seconds and then tried again, so that one bad
moment never costs a capability for good.
"""

from __future__ import annotations

from math import inf

PROBE_AFTER = 600.0
CALM = 20  # requests


class Concurrency:
    """Requests in flight: additive increase, multiplicative decrease, between one and `most`."""

    def __init__(self, most: int, start: int | None = None) -> None:
        self.most = most
        self.allowed = most if start is None else max(1, min(most, start))
        self._streak = 0
        self._cut_at = -inf

    def succeeded(self) -> None:
        self._streak += 1
        if self._streak >= self.allowed:
            self._streak = 0
            self.allowed = min(self.most, self.allowed + 1)

    def limited(self, sent_at: float, now: float) -> bool:
        """Halves, unless the request left before the last halving could have had an effect."""
        if sent_at < self._cut_at:
            return False
        self.allowed = max(1, self.allowed // 2)
        self._streak = 0
        self._cut_at = now
        return True


class Cap:
    """A number of calls or bytes per request, between `least` and `most`."""

    def __init__(self, start: int, most: int, least: int = 1) -> None:
        self.most, self.least = most, least
        self.value = max(least, min(start, most))
        self._told = most  # what the last refusal left
        self._told_at = -inf
        self._proven = 0  # as much was answered at once

    def ceiling(self, now: float) -> int:
        return self._told if now - self._told_at < PROBE_AFTER else self.most

    def held(self, used: int, now: float) -> None:
        """An answered request proves room for more only if it nearly filled the cap."""
        self._proven = max(self._proven, used)
        if 4 * used >= 3 * self.value:
            self.value = max(self.value, min(2 * self.value, self.ceiling(now)))

    def refused(self, used: int, now: float, word: int | None = None) -> None:
        """Too much; `word` is what the provider says it would take.

        If it took as much before, this one was an exception (a giant block among small ones):
        less for now, but only its repetition is a limit.
        """
        if word is None and used <= self._proven:
            self._proven = used // 2
            self.eased(used)
            return
        fits = word if word is not None and word < used else used // 2
        fits = max(self.least, min(fits, self.ceiling(now)))
        self._told, self._told_at, self._proven = fits, now, 0
        self.value = min(self.value, fits)

    def eased(self, used: int) -> None:
        """Perhaps too much: less next time, but nothing is concluded."""
        self.value = max(self.least, min(self.value, used // 2))

    def learned(self, now: float) -> int | None:
        """What a refusal taught, as far as it is still believed."""
        return None if self.ceiling(now) >= self.most else self._told

    def believe(self, told: int | None, now: float) -> None:
        """Takes up what an earlier process learned."""
        if told is not None and self.least <= told < self.most:
            self._told, self._told_at = told, now
            self.value = min(self.value, told)


class Pacer:
    """Calls per second, evenly: after a batch, as long a silence as its calls are worth."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._free_at = -inf

    @property
    def largest(self) -> int:
        """The calls of one batch: no more than a second's worth."""
        return max(1, int(self._rate))

    def reserve(self, calls: int, now: float) -> float:
        """How long to wait before these calls may go out; they are counted from now on."""
        start = max(self._free_at, now)
        self._free_at = start + calls / self._rate
        return start - now


class Rest:
    """How long to leave a provider alone that is asked too fast, and does not say how long.

    A refusal now and then costs next to nothing. A provider that refuses again right after a rest
    means it: rests begin longer from then on, until it has been calm for a while.
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
        """An answer came; perhaps with a refusal of some calls in it, so that it is not calm."""
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
    """The wait after so many failures in a row; chance (0 to 1) takes away up to half of it."""
    return min(first * 2.0 ** min(failures - 1, 30), longest) * (1 - chance / 2)
