"""One `ask` in progress: its results so far, by endpoint, and its failures.

Results are kept by endpoint and never mixed: a block and its receipts must come from one node.
Failures and waiting use up patience; waiting in a queue that moves does not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from msgspec import Raw

from gapless.core.ranges import Span
from gapless.providers.calls import BatchReply, Call

_FEWEST_ATTEMPTS = 3
_WAIT_BETWEEN = 3.0  # seconds
FRESH_AFTER = 0.05  # seconds before the same endpoint is asked again over a new connection


@dataclass(frozen=True, slots=True)
class Answers:
    """A result for every call, in their order, all from one endpoint; null is a result."""

    results: tuple[Raw, ...]
    endpoint: str


@dataclass
class PendingAsk:
    """The calls of one `ask`, and their progress."""

    calls: Sequence[Call]
    avoid: frozenset[str]
    patience: float  # seconds
    started_at: float
    troubles: Counter[str] = field(default_factory=Counter)  # by endpoint, since the last progress
    not_yet: Counter[str] = field(default_factory=Counter)  # how often it had no such block yet
    elsewheres: Counter[str] = field(default_factory=Counter)  # how often it had no such history
    gone: int | None = None  # the lowest height whose history an endpoint lacks
    spent: float = 0.0  # of the patience, since the last progress
    sent: set[int] = field(default_factory=set)
    _results: dict[str, dict[int, Raw]] = field(default_factory=dict)
    _not_before: dict[str, float] = field(default_factory=dict)
    _answers_seen: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.avoid:
            self._not_before[name] = self.started_at + FRESH_AFTER

    @cached_property
    def methods(self) -> frozenset[str]:
        return frozenset(call.method for call in self.calls)

    @cached_property
    def heights(self) -> Span | None:
        """From the lowest to the highest height of its calls."""
        heights = [call.height for call in self.calls if call.height is not None]
        return Span(min(heights), max(heights)) if heights else None

    def can_wait(self, seconds: float) -> bool:
        """Whether patience is left for that; a first timeout alone may use all of it."""
        left = self.patience - self.spent
        if 0 < self.troubles.total() < _FEWEST_ATTEMPTS:
            left = max(left, _WAIT_BETWEEN)
        return seconds <= left and (left > 0 or self.spent == 0)

    def pending(self, endpoint: str) -> dict[int, Call]:
        """Return the calls that this endpoint has not answered."""
        have = self._results.get(endpoint, {})
        return {at: call for at, call in enumerate(self.calls) if at not in have}

    def answers(self, endpoint: str) -> Answers:
        have = self._results.get(endpoint, {})
        return Answers(tuple(have[at] for at in range(len(self.calls))), endpoint)

    def take(self, endpoint: str, reply: BatchReply) -> None:
        """Store results; any result counts as progress."""
        if reply.results:
            self._results.setdefault(endpoint, {}).update(reply.results)
            self.spent = 0.0
            self.troubles.clear()
            self._not_before.clear()

    def record_failure(self, endpoint: str, seconds: float) -> None:
        """Record a failed attempt."""
        self.troubles[endpoint] += 1
        self.spent += seconds

    def hold_off(self, endpoint: str, until: float) -> None:
        self._not_before[endpoint] = until

    def not_before(self, endpoint: str) -> float:
        return self._not_before.get(endpoint, self.started_at)

    def wait_for(self, endpoint: str, seconds: float, answers: int) -> None:
        """Use up patience for waiting, unless the endpoint has answered others meanwhile."""
        if self._answers_seen.get(endpoint) == answers or self.troubles[endpoint]:
            self.spent += seconds
        self._answers_seen[endpoint] = answers

    def __str__(self) -> str:
        names = ", ".join(sorted(self.methods))
        return names if self.heights is None else f"{names} at {self.heights}"
