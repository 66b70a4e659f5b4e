"""Count what is sent: for the limit of calls, the summary of a fetch, and the metrics.

Providers bill every call, including retries, so a call counts when it is sent. The metrics record
it once its outcome is known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from gapless.core.errors import Unavailable
from gapless.providers.calls import BatchReply
from gapless.telemetry import metrics


@dataclass(slots=True)
class CallCounts:
    """The calls of one pool."""

    most: int | None = None  # calls
    calls: Counter[str] = field(default_factory=Counter)
    calls_to: Counter[str] = field(default_factory=Counter)  # by endpoint
    requests: int = 0
    retries: int = 0  # calls that were sent again
    used_up: bool = False  # whether a call was not sent because of `most`

    def count(self, endpoint: str, counted: Mapping[int, str], sent: set[int]) -> None:
        """Count a request by what a provider counts: methods, by the ids of their calls.

        `sent` are the ids of the same `ask` that were counted before.
        """
        if self.most is not None and self.calls.total() + len(counted) > self.most:
            self.used_up = True
            raise Unavailable(
                f"the limit of {self.most:,} calls is reached", hint="raise the limit of calls"
            )
        self.requests += 1
        self.calls.update(counted.values())
        self.calls_to[endpoint] += len(counted)
        again = len(counted.keys() & sent)
        self.retries += again
        metrics.REPEATED_CALLS.add(again, endpoint)
        sent.update(counted)


class Measured:
    """A request in flight; its `reply` is set before the context ends."""

    reply: BatchReply | None = None


@contextmanager
def measured(endpoint: str, counted: Mapping[int, str]) -> Iterator[Measured]:
    """Measure a request; if it has no reply at the end, it was cancelled."""
    it = Measured()
    try:
        with metrics.IN_FLIGHT.raised(1, endpoint), metrics.REQUEST_SECONDS.timed(endpoint):
            yield it
    finally:
        for error in it.reply.errors if it.reply else ():
            metrics.REFUSALS.add(1, endpoint, error.refusal.reaction.replace(" ", "_"))
        ends = Counter((method, _end(at, it.reply)) for at, method in counted.items())
        for (method, end), count in ends.items():
            metrics.CALLS.add(count, endpoint, method, end)


def _end(call: int, reply: BatchReply | None) -> str:
    if reply is None:
        return "cancelled"
    return "answered" if call in reply.results else "unanswered"
