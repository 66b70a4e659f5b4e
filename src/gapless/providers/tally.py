"""What was sent: for the limit of calls, for the summary of a fetch, and for the metrics.

Providers bill every call, also a repeated one, so a call counts when it is sent. The metrics tell
of it once its end is known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from gapless.core.errors import Unavailable
from gapless.providers.envelope import BatchReply, Call
from gapless.telemetry import metrics


@dataclass(slots=True)
class Tally:
    """The calls of one pool."""

    most: int | None = None  # calls
    calls: Counter[str] = field(default_factory=Counter)
    calls_to: Counter[str] = field(default_factory=Counter)  # by endpoint
    requests: int = 0
    retries: int = 0  # calls that were sent again
    used_up: bool = False  # whether one was not sent because of `most`

    def count(self, endpoint: str, batch: Mapping[int, Call], sent: set[int]) -> None:
        """A batch goes out; `sent` is what went out before for the same pending."""
        if self.most is not None and self.calls.total() + len(batch) > self.most:
            self.used_up = True
            raise Unavailable(
                f"the {self.most:,} calls allowed are used up", hint="allow more of them"
            )
        self.requests += 1
        self.calls.update(call.method for call in batch.values())
        self.calls_to[endpoint] += len(batch)
        again = len(batch.keys() & sent)
        self.retries += again
        metrics.REPEATED_CALLS.add(again, endpoint)
        sent.update(batch)


class Measured:
    """A request under way; what is reply is set before it is left."""

    reply: BatchReply | None = None


@contextmanager
def measured(endpoint: str, batch: Mapping[int, Call]) -> Iterator[Measured]:
    """Measures a request; if nothing was reply at its end, somebody has cancelled it."""
    it = Measured()
    try:
        with metrics.IN_FLIGHT.raised(1, endpoint), metrics.REQUEST_SECONDS.timed(endpoint):
            yield it
    finally:
        for error in it.reply.errors if it.reply else ():
            metrics.REFUSALS.add(1, endpoint, error.refusal.reaction.replace(" ", "_"))
        ends = Counter((call.method, _end(at, it.reply)) for at, call in batch.items())
        for (method, end), count in ends.items():
            metrics.CALLS.add(count, endpoint, method, end)


def _end(call: int, reply: BatchReply | None) -> str:
    if reply is None:
        return "cancelled"
    return "answered" if call in reply.results else "unanswered"
