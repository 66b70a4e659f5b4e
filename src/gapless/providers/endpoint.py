"""One provider: its URL, its limits, and what was learned about it.

Everything learned expires after `PROBE_AFTER` seconds and is then tried again, no matter how many
processes have passed it on in between. The URL and the headers are secrets: only `http` receives
them, and parts of them that a provider repeats in an error message are redacted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import inf, isfinite
from typing import TypeVar
from urllib.parse import urlsplit

from gapless.core.errors import UsageError
from gapless.core.redaction import Secrets
from gapless.providers.calls import CallError
from gapless.providers.limits import PROBE_AFTER, Cap, Concurrency, Rest, delay
from gapless.providers.offer import Offer
from gapless.providers.pace import Pacer
from gapless.providers.profile import Learned, Profile
from gapless.providers.provider_errors import Reaction
from gapless.providers.request_queue import RequestQueue, RequestSize
from gapless.system import SYSTEM, System

FIRST_BATCH, LARGEST_BATCH = 20, 100  # calls
MOST_BYTES, LEAST_BYTES = 16 << 20, 1 << 20
LONGEST_REST = 300.0  # seconds, even if a provider asks for more; then it is tried again
_QUOTA_REST = 300.0
_DENIED_REST = (5.0, 300.0)  # after the first denial in a row, and at most
_FAILED_REST = (0.2, 10.0)
_HEAD_HOLDS = 10.0  # seconds
_BAD_STREAK = 3  # consecutive failures that count against the endpoint rather than a call
_MOST_WIDENING = 4  # times the slots, while batches are small
_HEADER_NAME = re.compile(r"[A-Za-z0-9-]+")
_HEADER_VALUE = re.compile(r"[\x20-\x7e]+")
T = TypeVar("T")


@dataclass(frozen=True)
class EndpointSpec:
    """A provider's name, its URLs and secrets, and the most calls per second to send to it."""

    name: str
    url: str = field(repr=False)
    rps: float | None = None
    profile: str = field(default="", repr=False)  # the key of its profile, if not its name
    ws: str = field(default="", repr=False)  # the URL of its WebSocket, if it has one
    headers: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)
    """Sent with each HTTP request to the URL, such as an API key."""

    @property
    def key(self) -> str:
        """The key under which its profile is saved."""
        return self.profile or self.name

    def __post_init__(self) -> None:
        if not _is_usable(self.url, "http", "https"):
            only_ws = _is_usable(self.url, "ws", "wss")
            raise UsageError(
                f"endpoint `{self.name}` has no usable URL",
                hint="give its HTTP URL, and this one as `ws` of an endpoint in `gapless.toml`"
                if only_ws
                else "write `https://host/path`",
            )
        if self.ws and not _is_usable(self.ws, "ws", "wss"):
            raise UsageError(
                f"endpoint `{self.name}`: `ws` is not a usable URL", hint="write `wss://host/path`"
            )
        if self.rps is not None and not 0 < self.rps < inf:
            raise UsageError(f"endpoint `{self.name}`: `rps` must be above 0")
        for header, value in self.headers.items():
            if not _HEADER_NAME.fullmatch(header) or not _HEADER_VALUE.fullmatch(value):
                raise UsageError(
                    f"endpoint `{self.name}`: the header `{header}` is not valid",
                    hint="its name has letters, digits and `-`; its value has no line breaks",
                )

    @cached_property
    def _secrets(self) -> Secrets:
        return Secrets([self.url, self.ws], self.headers.values())

    def url_of(self, path: str) -> str:
        """Return the URL of a path below its own URL; a query stays at the end."""
        if not path:
            return self.url
        parts = urlsplit(self.url)
        return parts._replace(path=parts.path.rstrip("/") + path).geturl()

    def redacted(self, text: str) -> str:
        """Return the text without the secret parts of the URLs, and without header values."""
        return self._secrets.struck(text)


def _is_usable(url: str, *schemes: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


class Endpoint:
    """The current knowledge about a provider."""

    def __init__(
        self,
        spec: EndpointSpec,
        workers: int,
        known: Profile,
        system: System = SYSTEM,
    ) -> None:
        now = system.clock()
        self.spec = spec
        self.concurrency = Concurrency(workers)
        self.requests = RequestQueue(self, system.clock)
        self.calls = Cap(FIRST_BATCH, LARGEST_BATCH)
        self.bytes = Cap(MOST_BYTES, MOST_BYTES, LEAST_BYTES)
        self.pacer = Pacer(spec.rps)
        self.offer = Offer()
        self.chain_id: int | None = None
        self.answers = 0  # requests that brought results
        self._trouble = ""
        self._clock, self._chance = system.clock, system.chance
        self._rests_until = -inf
        self._limited = Rest()
        self._streaks: dict[Reaction, int] = {}  # consecutive failures of a kind
        self._failed_at = -inf
        self._head = (0, -inf)
        self._epoch = system.wall_clock() - now  # offset from monotonic to wall-clock time
        self._restore(known, now)

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def trouble(self) -> str:
        """The last failure, redacted so that it can be shown."""
        return self._trouble

    @trouble.setter
    def trouble(self, message: str) -> None:
        self._trouble = self.spec.redacted(message)

    @property
    def load(self) -> float:
        """The share of its request slots that would be in use with one more request."""
        return (self.requests.in_flight + self.requests.waiting + 1) / self.slots()

    def slots(self) -> int:
        """How many requests may be in flight now.

        There are more of them while batches fail as a whole by chance and are small for that
        reason, so that the same latency still hides as many calls. It never means more calls in
        flight than the largest batches hold, and ends with the first sign of a rate limit.
        """
        allowed = self.concurrency.allowed
        now = self._clock()
        limited = now - self.concurrency.limited_at < PROBE_AFTER or isfinite(self.pacer.rate)
        if self.concurrency.most == 1 or limited or not self.calls.fails_by_chance(now):
            return allowed
        return allowed * min(_MOST_WIDENING, max(1, LARGEST_BATCH // self.calls.value))

    def wait(self, now: float) -> float:
        """How many seconds the pace requires until the next request."""
        return self.pacer.wait(now)

    def accepts(self, size: RequestSize, now: float) -> bool:
        """Whether it does not rest, and takes this many calls at once."""
        return self.ready_at() <= now and self.has_room(size)

    def take(self, counted: int, now: float) -> None:
        """Count calls, as the provider counts them, that are sent now."""
        self.pacer.take(counted, now)

    def ready_at(self) -> float:
        """When it may be asked again; a time in the past if it may be asked now."""
        return self._rests_until

    def is_below(self, height: int, now: float) -> bool:
        """Whether its head was recently below a height; an outdated head proves nothing."""
        head, seen_at = self._head
        return head < height and now - seen_at < _HEAD_HOLDS

    def record_head(self, height: int, now: float) -> None:
        self._head = (height, now)

    def has_room(self, size: RequestSize) -> bool:
        """Whether it takes a request of this size, as far as is known."""
        return size.calls <= self.calls.value and size.counted <= self._most_counted()

    def largest_batch(self, *, counts_calls: bool) -> int:
        """The most calls in one request, given whether each of them counts."""
        return min(self.calls.value, self._most_counted() if counts_calls else LARGEST_BATCH)

    def _most_counted(self) -> int:
        """The most calls in one request, as the provider counts them."""
        return self.pacer.largest or LARGEST_BATCH

    def answered(self, *, limited: bool) -> None:
        """Record a request that returned results; some calls may have hit a rate limit."""
        self.answers += 1
        self._streaks.clear()
        self._limited.succeeded(partly=limited)
        if not limited:
            self.concurrency.succeeded()
            self.requests.grant()

    def refused(self, error: CallError, sent_at: float, now: float) -> None:
        """Learn from a refusal what applies to the endpoint as a whole."""
        refusal = error.refusal
        self.trouble = error.message
        match refusal.reaction:
            case Reaction.SLOW_DOWN:
                self.rest(now, refusal.wait_seconds or 0)
                if self.concurrency.limited(sent_at, now) and not refusal.wait_seconds:
                    self.rest(now, self._limited.after_refusal(self._chance()))
            case Reaction.SWITCH if error.denied:
                self.rest(now, self._delay(refusal.reaction, *_DENIED_REST))
            case Reaction.SWITCH:
                self.rest(now, max(_QUOTA_REST, refusal.wait_seconds or 0))
            case Reaction.AGAIN:
                self.failed(self.trouble, sent_at, now, refusal.wait_seconds)

    def failed(self, trouble: str, sent_at: float, now: float, wait: float | None = None) -> None:
        """Record that it did not answer, or reported an internal failure."""
        self.trouble = trouble
        if wait is not None:
            self.rest(now, wait)
        if sent_at < self._failed_at:
            return  # sent before the last counted failure: both count as one
        self._failed_at = now
        if self._count(Reaction.AGAIN) >= _BAD_STREAK:
            failures = self._streaks[Reaction.AGAIN] - _BAD_STREAK + 1
            self.rest(now, delay(failures, self._chance(), *_FAILED_REST))

    def shrank(self, trouble: str) -> None:
        """Reset its failures: the request size may be the cause, so smaller ones follow at once."""
        self.trouble = trouble
        self._streaks.pop(Reaction.AGAIN, None)

    def rest(self, now: float, seconds: float) -> None:
        self._rests_until = max(self._rests_until, now + min(seconds, LONGEST_REST))

    def profile(self, now: float) -> Profile:
        fewer = self.concurrency.allowed < self.concurrency.most
        limited_at = self.concurrency.limited_at
        return Profile(
            batch_calls=self._learned(self.calls.learned(now), self.calls.learned_at),
            batch_bytes=self._learned(self.bytes.learned(now), self.bytes.learned_at),
            concurrency=self._learned(self.concurrency.allowed if fewer else None, limited_at),
            rate=self._learned(self.pacer.learned(now), self.pacer.learned_at),
            earliest={
                method: Learned(height, at + self._epoch)
                for method, (height, at) in self.offer.beginnings(now).items()
            },
            lacks={name: at + self._epoch for name, at in self.offer.missing(now).items()},
        )

    def _learned(self, value: T | None, at: float) -> Learned[T] | None:
        return None if value is None else Learned(value, at + self._epoch)

    def _restore(self, known: Profile, now: float) -> None:
        """Restore what an earlier process learned, unless it has expired."""

        def moment(learned_at: float) -> float | None:
            at = learned_at - self._epoch
            return at if abs(now - at) < PROBE_AFTER else None

        def restore(learned: Learned[T] | None, by: Callable[[T, float], None]) -> None:
            if learned is not None and (at := moment(learned.at)) is not None:
                by(learned.value, at)

        restore(known.batch_calls, self.calls.restore)
        restore(known.batch_bytes, self.bytes.restore)
        restore(known.concurrency, self.concurrency.restore)
        restore(known.rate, self.pacer.restore)
        for method, learned in known.earliest.items():
            restore(learned, partial(self.offer.begins_at, method))
        for method, learned_at in known.lacks.items():
            restore(Learned(method, learned_at), self.offer.without)

    def _count(self, reaction: Reaction) -> int:
        self._streaks[reaction] = self._streaks.get(reaction, 0) + 1
        return self._streaks[reaction]

    def _delay(self, reaction: Reaction, first: float, longest: float) -> float:
        return delay(self._count(reaction), self._chance(), first, longest)
