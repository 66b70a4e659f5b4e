"""How much a provider takes at once, learned by trying. Pure: the time is always handed in.

| what          | starts      | grows                          | shrinks                      |
|---------------|-------------|--------------------------------|------------------------------|
| `Concurrency` | at the most | by one per window of successes | to half, once per round trip |
| `Cap`         | at `start`  | when an answer was almost as   | to half, or to what the      |
|               |             | large: to the double, or by an | provider says; also after    |
|               |             | eighth near what failed        | two or three failures in a   |
|               |             |                                | row                          |
| `Rest`        | at `least`  | to the double, when it was too | to half, after `CALM`        |
|               |             | short                          | successes in a row           |

What a refusal taught is believed for `PROBE_AFTER` seconds and then tried again, so that one bad
moment never costs a capability for good.
"""

from __future__ import annotations

from math import inf

PROBE_AFTER = 600.0
CALM = 20  # requests
_IN_A_ROW = 2  # failures of whole requests, until less is tried; one more, if as much was answered
_STRIKES = 3  # until what fails again and again is a limit


class Concurrency:
    """Requests in flight: additive increase, multiplicative decrease, between one and `most`."""

    def __init__(self, most: int) -> None:
        self.most = self.allowed = most
        self.limited_at = -inf
        self._streak = 0

    def restore(self, allowed: int, limited_at: float) -> None:
        """Takes up what an earlier process learned."""
        self.allowed = max(1, min(self.most, allowed))
        self.limited_at = limited_at

    def succeeded(self) -> None:
        self._streak += 1
        if self._streak >= self.allowed:
            self._streak = 0
            self.allowed = min(self.most, self.allowed + 1)

    def limited(self, sent_at: float, now: float) -> bool:
        """Halves, unless the request left before the last halving could have had an effect."""
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
        self._told = most  # what the last refusal left
        self._told_at = -inf
        self._proven = 0  # as much was answered at once
        self._failures = 0  # in a row
        self._steep_below = most  # it doubles below this, and grows by an eighth above
        self._strikes = 0  # times that more than was ever answered has failed
        self._smallest = most + 1  # of what struck

    def ceiling(self, now: float) -> int:
        return self._told if now - self._told_at < PROBE_AFTER else self.most

    def confirm(self, used: int, now: float) -> None:
        """An answered request proves room for more only if it nearly filled the cap."""
        self._proven = max(self._proven, used)
        self._failures = 0
        if used >= self._smallest:
            self._forget_strikes()
        elif self._strikes >= _STRIKES:  # less is answered, and more never is
            self._tell(self._smallest - 1, now)
        if 4 * used >= 3 * self.value or used + 1 == self.value:
            steep = self._steep_below - self.value
            step = min(self.value, steep) if steep > 0 else max(1, self.value // 8)
            self.value = max(self.value, min(self.value + step, self.ceiling(now)))

    def held_in_part(self) -> None:
        """Some of a request was answered, so it did not fail as a whole."""
        self._failures = 0

    def failed(self, used: int, *, limited: bool = False) -> bool:
        """A request failed as a whole, for whatever reason; after two in a row, less is tried.

        As much may have been answered before, and then chance is a likely reason: in small requests
        it costs more round trips than in failed ones, so it takes three in a row. Says whether less
        is tried from now on. A limit is concluded only once larger requests have failed several
        times, and a smaller one was answered; never from those that were `limited` by a rate.
        """
        if used <= self.least:  # the size is not to blame
            self._forget_strikes()
            return False
        if used > self.value:  # it left before there was less
            return False
        self._failures += 1
        enough = _IN_A_ROW + (used <= self._proven and not limited)
        if self._failures < enough:
            return False
        if self._failures == enough:
            self._steep_below = max(self.least, used // 2)
        if used > self._proven and not limited:
            self._strikes += self._failures == _IN_A_ROW  # failures in a row are one
            self._smallest = min(self._smallest, used)
        self._proven = min(self._proven, used - 1)  # the next time, it is a strike
        self.shrink(used)
        return True

    def refused(self, used: int, now: float, word: int | None = None) -> None:
        """Too much; `word` is what the provider says it would take.

        If it took as much before, this one was an exception (a giant block among small ones):
        less for now, but only its repetition is a limit.
        """
        if word is None and used <= self._proven:
            self._proven = used // 2
            self.shrink(used)
            return
        fits = word if word is not None and word < used else used // 2
        self._proven = 0
        self._tell(max(self.least, min(fits, self.ceiling(now))), now)

    def shrink(self, used: int) -> None:
        """Perhaps too much: less next time, but nothing is concluded."""
        self.value = max(self.least, min(self.value, used // 2))

    def learned(self, now: float) -> int | None:
        """What a refusal taught, as far as it is still believed."""
        return None if self.ceiling(now) >= self.most else self._told

    @property
    def learned_at(self) -> float:
        return self._told_at

    def restore(self, told: int, learned_at: float) -> None:
        """Takes up what an earlier process learned."""
        if self.least <= told < self.most:
            self._tell(told, learned_at)

    def _tell(self, fits: int, now: float) -> None:
        self._told, self._told_at = fits, now
        self._forget_strikes()
        self.value = min(self.value, fits)

    def _forget_strikes(self) -> None:
        self._strikes, self._smallest = 0, self.most + 1


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
