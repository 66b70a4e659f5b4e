"""The limits of a provider, with that provider's error messages.

The messages are those of `rpc_errors.json`, because clients can only distinguish refusals by them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from time import monotonic
from typing import NamedTuple

from gapless.core.errors import UsageError

FINALITY_DEPTH, SAFE_DEPTH = 64, 32


class FinalityTags(StrEnum):
    """How the node answers the tags `safe` and `finalized`."""

    DEPTH = "depth"  # a block some way below the head
    ERROR = "error"  # not supported
    NULL = "null"  # no block yet
    ZERO = "zero"  # always the genesis, as with anvil


class Metering(StrEnum):
    """What happens to a batch that holds more calls than the rate limit has left."""

    OVERDRAW = "overdraw"  # it is answered, and later requests wait until the debt is paid
    WHOLE = "whole"  # the whole batch is refused with HTTP 429
    EACH = "each"  # each call above the budget is refused inside an HTTP 200


class CallRefused(Exception):
    """An error instead of a result."""

    def __init__(self, code: int, message: str, status: int = 200) -> None:
        super().__init__(message)
        self.code, self.message, self.status = code, message, status


class Saying(NamedTuple):
    """An error template: `most` allowed, `asked` for, and an acceptable range `low` to `high`."""

    code: int
    words: str
    status: int = 200

    def refusal(self, **gaps: int) -> CallRefused:
        return CallRefused(self.code, self.words.format(**gaps), self.status)


class Provider(NamedTuple):
    """The error messages of one provider for exceeded limits."""

    range: Saying
    results: Saying
    batch: Saying
    rate: Saying


_ERIGON_BATCH = Saying(
    -32600,
    "batch limit {most} exceeded (can increase by --rpc.batch.limit)."
    " Requested batch of size: {asked}",
)
# java-tron has one fixed limit; a proxy in front of it may have a lower one.
_TRON_RANGE = Saying(-32000, "the range is limited to {most} blocks")
_RATE = Saying(-32005, "rate limit exceeded: too many requests", 429)

PROVIDERS = {
    "geth": Provider(
        Saying(-32602, "range {asked} exceeds limit of {most}"),
        Saying(-32005, "query returned more than {most} results"),
        Saying(-32600, "batch too large"),
        _RATE,
    ),
    "alchemy": Provider(
        Saying(
            -32600,
            "You can make eth_getLogs requests with up to a {most} block range. Based on your"
            " parameters, this block range should work: [{low:#x}, {high:#x}]",
        ),
        Saying(
            -32602,
            "Log response size exceeded. You can make eth_getLogs requests with up to a 2K block"
            " range and no limit on the response size, or you can request any block range with a"
            " cap of 10K logs in the response. Based on your parameters and the response size"
            " limit, this block range should work: [{low:#x}, {high:#x}]",
        ),
        _ERIGON_BATCH,
        Saying(
            429,
            "Your app has exceeded its compute units per second capacity. If you have retries"
            " enabled, you can safely ignore this message. If not, check out"
            " https://docs.alchemy.com/reference/throughput",
            429,
        ),
    ),
    "infura": Provider(
        Saying(-32602, "range {asked} exceeds limit of {most}"),
        Saying(
            -32005,
            "query returned more than {most} results."
            " Try with this block range [{low:#x}, {high:#x}].",
        ),
        _ERIGON_BATCH,
        _RATE,
    ),
    "quicknode": Provider(
        Saying(-32614, "eth_getLogs is limited to a {most:,} range", 413),
        Saying(-32602, "query exceeds max results {most}"),
        _ERIGON_BATCH,
        _RATE,
    ),
    "erigon": Provider(
        Saying(-32000, "query block range exceeds server limit, narrow your filter: {most}"),
        Saying(-32000, "query returns too many logs, narrow your filter: {most}"),
        _ERIGON_BATCH,
        _RATE,
    ),
    "java-tron": Provider(
        _TRON_RANGE,
        _TRON_RANGE,
        _TRON_RANGE,
        Saying(-32000, "class java.lang.IllegalAccessException : lack of computing resources"),
    ),
    "trongrid": Provider(
        _TRON_RANGE,
        _TRON_RANGE,
        _TRON_RANGE,
        Saying(
            -32000,
            "request rate exceeded the allowed_rps(10), and the query server is suspended for 1 s",
            403,
        ),
    ),
    "ankr": Provider(
        Saying(-32000, "block range too large ({asked}), maximum allowed is {most} blocks"),
        Saying(-32000, "query exceeds max results {most}, retry with the range {low}-{high}"),
        _ERIGON_BATCH,
        _RATE,
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of the node; None: no limit."""

    words: str | None = None  # the provider whose error messages to imitate; None: the dialect's
    max_range: int | None = None  # blocks in one eth_getLogs
    max_results: int | None = None  # logs in one answer
    max_batch: int | None = None  # calls in one request
    rps: float | None = None  # calls in a second
    metering: Metering = Metering.OVERDRAW  # how `rps` treats batches
    retry_after: int | None = 1  # seconds, in the header of a 429; None: no such header
    missing: frozenset[str] = field(default_factory=frozenset)  # methods
    pruned_below: int = 0  # blocks below are not kept
    pruned_null: bool = False  # and answered with null, instead of an error
    traces: bool = False  # whether blocks can be traced
    state_blocks: int | None = None  # newest blocks at which accounts are known
    finality: FinalityTags = FinalityTags.DEPTH
    finality_depth: int | None = None  # from the final block to the highest head; None: usual
    safe_depth: int = SAFE_DEPTH  # the same for `safe`
    strict_head: bool = False  # logs beyond the head are refused, instead of left out

    def __post_init__(self) -> None:
        self.provider(next(iter(PROVIDERS)))

    def provider(self, usual: str) -> Provider:
        """Whose error messages to imitate, given whose they usually are."""
        name = self.words or usual
        if name not in PROVIDERS:
            raise UsageError(
                f"there are no words of `{name}`", hint=f"known are {', '.join(PROVIDERS)}"
            )
        return PROVIDERS[name]


class Bucket:
    """At most `rps` calls a second, after one second's worth at once."""

    def __init__(
        self,
        rps: float,
        metering: Metering = Metering.OVERDRAW,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._rps, self._metering, self._clock = rps, metering, clock
        self._most = max(1.0, rps)
        self._left, self._at = self._most, clock()

    def take(self, calls: int) -> int:
        """Returns how many of these calls are granted; refused calls use no budget."""
        now = self._clock()
        self._left = min(self._most, self._left + (now - self._at) * self._rps)
        self._at = now
        granted = self._granted(calls)
        self._left -= granted
        return granted

    def _granted(self, calls: int) -> int:
        match self._metering:
            case Metering.OVERDRAW:
                return calls if self._left >= 1 else 0
            case Metering.WHOLE:
                return calls if self._left >= calls else 0
            case Metering.EACH:
                return min(calls, int(self._left))
