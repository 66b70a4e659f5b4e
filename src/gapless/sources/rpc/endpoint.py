"""One provider: where it is, how much it takes, and what was learned of it.

Everything learned is forgotten after `PROBE_AFTER` seconds and so tried again. The URL is a
secret: it leaves this module only towards `http`, and a provider that repeats a part of it in its
own words has it struck out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from urllib.parse import urlsplit

from gapless.core.errors import UsageError
from gapless.core.redaction import Secrets
from gapless.sources.reactions import Reaction
from gapless.sources.rpc.envelope import Complaint
from gapless.sources.rpc.gate import Gate
from gapless.sources.rpc.limits import PROBE_AFTER, Cap, Concurrency, Pacer, Rest, delay
from gapless.sources.rpc.profile import Profile

FIRST_BATCH, LARGEST_BATCH = 20, 100  # calls
MOST_BYTES, LEAST_BYTES = 16 << 20, 1 << 20
_QUOTA_REST = 300.0
_DENIED_REST = (5.0, 300.0)  # after the first denial in a row, and at most
_FAILED_REST = (0.2, 10.0)
_HEAD_HOLDS = 10.0  # seconds
_BAD_STREAK = 3  # failures in a row that speak against the endpoint, not against a call


@dataclass(frozen=True)
class EndpointSpec:
    """A provider by name, its URL, and the calls per second that it may be asked."""

    name: str
    url: str = field(repr=False)
    rps: float | None = None
    profile: str = field(default="", repr=False)  # what its profile is kept as, if not its name

    @property
    def key(self) -> str:
        """What its profile is kept as."""
        return self.profile or self.name

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            usable = False
        if not usable:
            raise UsageError(
                f"endpoint `{self.name}` has no usable URL", hint="write `https://host/path`"
            )
        if self.rps is not None and not 0 < self.rps < inf:
            raise UsageError(f"endpoint `{self.name}`: `rps` must be above 0")

    @cached_property
    def _secrets(self) -> Secrets:
        return Secrets([self.url])

    def redacted(self, text: str) -> str:
        """The text without anything that only the URL knows."""
        return self._secrets.struck(text)


class Endpoint:
    """What is known of a provider at this moment."""

    def __init__(
        self,
        spec: EndpointSpec,
        workers: int,
        known: Profile,
        now: float,
        chance: Callable[[], float],
    ) -> None:
        self.spec = spec
        self.concurrency = Concurrency(workers, known.concurrency)
        self.gate = Gate(lambda: self.concurrency.allowed)
        self.calls = Cap(FIRST_BATCH, LARGEST_BATCH)
        self.calls.believe(known.batch_calls, now)
        self.bytes = Cap(MOST_BYTES, MOST_BYTES, LEAST_BYTES)
        self.bytes.believe(known.batch_bytes, now)
        self.pacer = None if spec.rps is None else Pacer(spec.rps)
        self.chain_id: int | None = None
        self.answers = 0  # requests that brought results
        self.trouble = ""  # the last one
        self._chance = chance
        self._rests_until = -inf
        self._limited = Rest()
        self._streaks: dict[Reaction, int] = {}  # of the same trouble, without a success
        self._failed_at = -inf
        self._lacks = dict.fromkeys(known.lacks, now)
        self._earliest = (known.earliest_block, now)
        self._doubted = (0, now)
        self._head = (0, -inf)

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def load(self) -> float:
        """How busy it is: the share of its places that would be taken with one more."""
        return (self.gate.inside + self.gate.waiting + 1) / self.concurrency.allowed

    def ready_at(self) -> float:
        """When it may be asked again; the past, if nothing stands against it."""
        return self._rests_until

    def lacks(self, methods: Collection[str], now: float) -> bool:
        return any(now - self._lacks.get(each, -inf) < PROBE_AFTER for each in methods)

    def earliest(self, now: float) -> int:
        height, learned_at = self._earliest
        return height if now - learned_at < PROBE_AFTER else 0

    def doubted_below(self, now: float) -> int:
        """It had nothing below this height, without a word why: it is asked last."""
        height, learned_at = self._doubted
        return height if now - learned_at < PROBE_AFTER else 0

    def is_below(self, height: int, now: float) -> bool:
        """Whether its head was lower just now; an older one says nothing any more."""
        head, heard_at = self._head
        return head < height and now - heard_at < _HEAD_HOLDS

    def heard_of_head(self, height: int, now: float) -> None:
        self._head = (height, now)

    def largest_batch(self) -> int:
        paced = LARGEST_BATCH if self.pacer is None else self.pacer.largest
        return min(self.calls.value, paced)

    def answered(self, *, limited: bool) -> None:
        """A request brought results, be it that some calls were above a rate limit."""
        self.answers += 1
        self._streaks.clear()
        self._limited.succeeded(partly=limited)
        if not limited:
            self.concurrency.succeeded()
            self.gate.admit()

    def refused(self, complaint: Complaint, sent_at: float, now: float) -> None:
        """Learns from a refusal what concerns the endpoint as a whole."""
        refusal = complaint.refusal
        self.trouble = self.spec.redacted(complaint.words)
        match refusal.reaction:
            case Reaction.SLOW_DOWN:
                self.rest(now, refusal.wait_seconds or 0)
                if self.concurrency.limited(sent_at, now) and not refusal.wait_seconds:
                    self.rest(now, self._limited.after_refusal(self._chance()))
            case Reaction.SWITCH if complaint.denied:
                self.rest(now, self._delay(refusal.reaction, *_DENIED_REST))
            case Reaction.SWITCH:
                self.rest(now, max(_QUOTA_REST, refusal.wait_seconds or 0))
            case Reaction.AGAIN:
                self.failed(self.trouble, sent_at, now, refusal.wait_seconds)

    def failed(self, trouble: str, sent_at: float, now: float, wait: float | None = None) -> None:
        """It did not answer, or has trouble of its own."""
        self.trouble = trouble
        if wait is not None:
            self.rest(now, wait)
        if sent_at < self._failed_at:
            return  # it left with the one whose failure was counted
        self._failed_at = now
        if self._count(Reaction.AGAIN) >= _BAD_STREAK:
            failures = self._streaks[Reaction.AGAIN] - _BAD_STREAK + 1
            self.rest(now, delay(failures, self._chance(), *_FAILED_REST))

    def rest(self, now: float, seconds: float) -> None:
        self._rests_until = max(self._rests_until, now + seconds)

    def lacks_method(self, method: str, now: float) -> None:
        self._lacks[method] = now

    def lacks_history(self, height: int, now: float) -> None:
        self._earliest = (max(self.earliest(now), height + 1), now)

    def doubt_below(self, height: int, now: float) -> None:
        self._doubted = (max(self.doubted_below(now), height), now)

    def profile(self, now: float) -> Profile:
        fewer = self.concurrency.allowed < self.concurrency.most
        return Profile(
            batch_calls=self.calls.learned(now),
            batch_bytes=self.bytes.learned(now),
            concurrency=self.concurrency.allowed if fewer else None,
            earliest_block=self.earliest(now),
            lacks=tuple(sorted(each for each in self._lacks if self.lacks((each,), now))),
        )

    def _count(self, reaction: Reaction) -> int:
        self._streaks[reaction] = self._streaks.get(reaction, 0) + 1
        return self._streaks[reaction]

    def _delay(self, reaction: Reaction, first: float, longest: float) -> float:
        return delay(self._count(reaction), self._chance(), first, longest)
