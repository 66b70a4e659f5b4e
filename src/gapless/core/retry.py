"""Retry policies: the delay after a failure, and when to give up.

| policy      | delays                                              | gives up            |
|-------------|-----------------------------------------------------|---------------------|
| `backoff`   | min(base x 2^(n-1), max_delay) + up to 25 % jitter  | after `retries`     |
| `unbounded` | the same                                            | never               |
| `schedule`  | the given list, one by one                          | after its last      |
| `halt`      | none                                                | at once, and halts  |

A lost lease is not a failure of the chunk and is counted separately: after the first loss the chunk
is retried at once, after more in a row with growing delays (and the same jitter), and after
`lost_limit` losses without progress it is a dead letter, because a chunk that kills its worker must
not kill them all. `unbounded` never gives up, and only waits.

An error in `BLAMELESS` is not caused by the partitions, so a run does not bisect them. If the
ledger is unreachable, that counts as a lost lease. If no endpoint answers, the policy decides about
the whole chunk.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from gapless.core.errors import LedgerError, Unavailable, UsageError
from gapless.core.similar import known_names


class RetryKind(StrEnum):
    BACKOFF = "backoff"
    UNBOUNDED = "unbounded"
    SCHEDULE = "schedule"
    HALT = "halt"


NUMBERS = {
    RetryKind.BACKOFF: frozenset({"base", "max_delay", "jitter", "retries"}),
    RetryKind.UNBOUNDED: frozenset({"base", "max_delay", "jitter"}),
    RetryKind.SCHEDULE: frozenset({"delays"}),
    RetryKind.HALT: frozenset[str](),
}
"""The parameters that each policy uses."""
BLAMELESS = (LedgerError, Unavailable)
DEFAULT_SCHEDULE = (5.0, 10.0, 30.0, 60.0, 180.0, 300.0, 600.0, 1800.0, 3600.0)
LOST_BASE = 1.0
LOST_MAX = 300.0


class RetryPolicy(msgspec.Struct, frozen=True, omit_defaults=True):
    """How long to wait after the n-th failure in a row; see the table in this module."""

    kind: RetryKind = RetryKind.BACKOFF
    base: float = 120.0
    max_delay: float = 3600.0
    jitter: float = 0.25
    retries: int = 5
    delays: tuple[float, ...] = ()
    lost_limit: int = 10

    def __post_init__(self) -> None:
        problems = {
            "base must not be negative": self.base < 0,
            "max_delay must not be below base": self.max_delay < self.base,
            "jitter must lie between 0 and 1": not 0 <= self.jitter <= 1,
            "retries must not be negative": self.retries < 0,
            "lost_limit must be at least 1": self.lost_limit < 1,
            "a schedule needs delays, none of them negative": self.kind is RetryKind.SCHEDULE
            and (not self.delays or min(self.delays) < 0),
        }
        for problem, found in problems.items():
            if found:
                raise UsageError(f"retry policy `{self.kind}`: {problem}")

    @classmethod
    def backoff(
        cls,
        *,
        base: float = 120.0,
        max_delay: float = 3600.0,
        jitter: float = 0.25,
        retries: int = 5,
    ) -> RetryPolicy:
        return cls(RetryKind.BACKOFF, base, max(base, max_delay), jitter, retries)

    @classmethod
    def unbounded(
        cls, *, base: float = 120.0, max_delay: float = 3600.0, jitter: float = 0.25
    ) -> RetryPolicy:
        return cls(RetryKind.UNBOUNDED, base, max(base, max_delay), jitter)

    @classmethod
    def schedule(cls, *delays: float) -> RetryPolicy:
        return cls(RetryKind.SCHEDULE, delays=delays or DEFAULT_SCHEDULE)

    @classmethod
    def halt(cls) -> RetryPolicy:
        return cls(RetryKind.HALT)

    @classmethod
    def named(cls, kind: str) -> RetryPolicy:
        """The policy of this name with its default parameters."""
        if kind not in set(RetryKind):
            raise UsageError(
                f"there is no retry policy `{kind}`", hint=known_names(kind, RetryKind)
            )
        policy: RetryPolicy = getattr(cls, kind)()
        return policy

    @classmethod
    def foreground(cls, kind: str) -> RetryPolicy:
        """The policy of this name while a person waits.

        Its delays begin with seconds, and it retries for half an hour before it gives up.
        """
        policy = cls.named(kind)
        return policy.numbered(base=2.0, max_delay=60.0, retries=30)

    @property
    def is_usual(self) -> bool:
        """Whether all its parameters are the defaults."""
        return self == RetryPolicy.named(self.kind)

    def numbered(self, **numbers: float | tuple[float, ...] | None) -> RetryPolicy:
        """The policy with these parameters, if it uses them; None keeps the present value."""
        used = {
            name: value
            for name, value in numbers.items()
            if value is not None and name in NUMBERS[self.kind]
        }
        if "base" in used and "max_delay" not in used:
            used["max_delay"] = max(self.max_delay, used["base"])
        return msgspec.structs.replace(self, **used)

    def delay(self, failures: int, chance: float) -> float | None:
        """Seconds to wait after this many failures in a row, or None to give up.

        `chance` in [0, 1) places the result within the jitter.
        """
        match self.kind:
            case RetryKind.HALT:
                return None
            case RetryKind.SCHEDULE:
                return self.delays[failures - 1] if failures <= len(self.delays) else None
            case RetryKind.BACKOFF if failures > self.retries:
                return None
            case _:
                return _doubling(self.base, failures, self.max_delay) * (1 + self.jitter * chance)

    def delay_after_loss(self, lost: int, chance: float) -> float | None:
        """Seconds until a chunk whose lease ended `lost` times in a row is retried.

        Chunks that one worker lost together must not all return together: `chance` spreads them.
        """
        if lost >= self.lost_limit and self.kind is not RetryKind.UNBOUNDED:
            return None
        if lost <= 1:
            return 0.0
        return _doubling(LOST_BASE, lost - 1, LOST_MAX) * (1 + self.jitter * chance)

    @property
    def longest(self) -> float:
        """The longest possible delay; a longer one can only come from a clock that jumped."""
        own = max(self.delays, default=0.0) if self.delays else self.max_delay * (1 + self.jitter)
        return max(own, LOST_MAX * (1 + self.jitter))


def _doubling(base: float, nth: int, limit: float) -> float:
    return min(base * 2.0 ** min(nth - 1, 62), limit)
