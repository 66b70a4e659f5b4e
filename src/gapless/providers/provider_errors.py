"""Classify a provider's refusal by what to do next.

The code alone is not enough: -32005 is a result, rate, batch or filter limit, -32602 is a range
limit at five providers, and some errors come with HTTP 200 and no envelope. So the message decides,
with specific rules before general ones ("block range too large (2000), maximum allowed is 1000
blocks" contains two numbers and two phrases). Code and status decide only if no rule matches.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cache


class Reaction(StrEnum):
    """What the source does next."""

    SLOW_DOWN = "slow down"  # too many calls: wait, ask less at once, never less of each
    SWITCH = "switch"  # the quota is used up: pause this endpoint, use another one
    SMALLER_RANGE = "smaller range"  # ask for fewer blocks at a time
    SMALLER_BATCH = "smaller batch"  # put fewer calls into one request
    OTHER_METHOD = "other method"  # the endpoint lacks this method: use another one
    ELSEWHERE = "elsewhere"  # the endpoint has no such history: ask one that has
    LATER = "later"  # beyond this endpoint's head, or not the canonical block any more
    ABSENT = "absent"  # a plain "not found", or a call that reverts: the same as null
    AGAIN = "again"  # an internal failure: retry the same call
    GIVE_UP = "give up"  # the request itself is wrong: a retry does not help


@dataclass(frozen=True)
class Refusal:
    """A classified refusal."""

    reaction: Reaction
    most: int | None = None  # blocks or calls allowed, as stated by the provider
    suggested: tuple[int, int] | None = None  # a range that the provider says would work
    wait_seconds: float | None = None
    recognized: bool = True  # whether its message, code or status is known


_HEX_PAIR = re.compile(r"\[\s*(0x[0-9a-f]+)\s*,\s*(0x[0-9a-f]+)\s*\]")
_DECIMAL_PAIR = re.compile(r"with the range (\d+)\s*-\s*(\d+)")
_SUSPENDED = re.compile(r"suspended for (\d+(?:\.\d+)?) ?s")
_NUMBER = r"(\d[\d,._]*k?)"


def _any_of(*patterns: str) -> str:
    return "|".join(patterns)


# The first rule that matches decides; a matching group is the limit.
_RULES: tuple[tuple[Reaction, str], ...] = (
    # The rest of such a message is the contract's own, and may imitate any other.
    (Reaction.ABSENT, _any_of(r"execution reverted", r"vm (?:execution error|exception)")),
    (
        Reaction.SWITCH,
        _any_of(r"monthly capacity", r"daily request count", r"daily usage", r"quota exceeded"),
    ),
    (
        Reaction.SLOW_DOWN,
        _any_of(
            r"compute units per second",
            r"rate[ -]?limit",
            r"too many requests",
            r"request rate exceeded",
            r"lack of computing resources",
            r"requests? per second",
            r"requests/second",
        ),
    ),
    (
        Reaction.SMALLER_BATCH,
        _any_of(
            rf"batch limit {_NUMBER}",
            rf"batch of more than {_NUMBER}",
            r"batch size",
            r"batch too large",
            r"batch (?:call|request)s? (?:are|is) not (?:supported|allowed)",
        ),
    ),
    (
        Reaction.ELSEWHERE,
        _any_of(
            r"pruned",
            r"history (?:has been|is not)",
            r"data before .* is not available",
            r"height is not available",
            r"failed to get logs for block #0",
            r"missing trie node",
            r"historical state",
            r"no state available",
            r"world state (?:is )?(?:unavailable|not available)",
            r"archive",
            r"lite full ?node",
        ),
    ),
    (Reaction.LATER, _any_of(r"beyond current head", r"not currently canonical")),
    (
        Reaction.SMALLER_RANGE,
        _any_of(
            rf"maximum allowed is {_NUMBER}",
            rf"maximum is set to {_NUMBER}",
            rf"limited to (?:a )?{_NUMBER}",
            rf"exceeds the range allowed for your plan \(\d+ > {_NUMBER}\)",
            rf"range \d+ exceeds limit of {_NUMBER}",
            rf"range limit {_NUMBER}",
            rf"up to a {_NUMBER} block range",
            rf"max range: {_NUMBER}",
            rf"requested blocks is {_NUMBER}",
            rf"at most {_NUMBER} blocks",
            rf"more than {_NUMBER} blocks",
            rf"max(?:imum)? block range:? {_NUMBER}",
            rf"greater than {_NUMBER} max",
            rf"max is {_NUMBER} blocks",
            rf"smaller than size {_NUMBER}",
            rf"too wide \(maximum {_NUMBER}\)",
            rf"exceeds server limit, narrow your filter: {_NUMBER}",
        ),
    ),
    (
        Reaction.SMALLER_RANGE,
        _any_of(
            r"range should work",
            r"try with this block range",
            r"with the range \d+",
            r"block range (?:is )?too (?:large|high|wide)",
            r"block range limit",
            r"range threshold exceeded",
            r"exceeded max allowed",
            r"range is too large",
            r"log response size exceeded",
            r"response size should not",
            r"response too large",
            r"response exceeds the limit",
            r"payload too large",
            r"more than \S+ (?:results|logs)",
            r"logs returned",
            r"too many (?:logs|results)",
            r"max results",
            r"logs matched by query exceeds",
            r"jsonrpctoomanyresult",
        ),
    ),
    (
        Reaction.OTHER_METHOD,
        _any_of(
            r"method \S+ (?:does not exist|not found|not supported)",
            r"(?:\bmethod|\b[a-z]+_[a-z]+)(?: \S+)? (?:is |are )?not "
            r"(?:supported|available|whitelisted|allowed|enabled|implemented|permitted)",
            r"unsupported method",
            r"api is unavailable",
        ),
    ),
    (
        Reaction.ABSENT,
        _any_of(
            r"(?:block|header|transaction|receipt)s? not found",
            r"unknown block$",
            # A contract that was called fails.
            r"invalid (?:opcode|jump destination)",
            r"out of gas",
            r"stack (?:underflow|limit reached)",
        ),
    ),
    (
        Reaction.AGAIN,
        _any_of(
            r"internal (?:server )?error",
            r"no backend is currently healthy",
            r"service unavailable",
            r"time(?:d )?-?out",
            r"bad gateway",
        ),
    ),
    (
        Reaction.GIVE_UP,
        _any_of(
            r"invalid argument",
            r"invalid request",
            r"invalid blockhash",
            r"please verify",
            r"tag (?:\w+ )?(?:is )?not supported",
            r"quantity not supported",
        ),
    ),
)
_STATUSES = {413: Reaction.SMALLER_RANGE, 429: Reaction.SLOW_DOWN}
_CODES = {
    3: Reaction.ABSENT,  # a contract reverted
    -32004: Reaction.OTHER_METHOD,  # EIP-1474
    -32601: Reaction.OTHER_METHOD,
    -32604: Reaction.OTHER_METHOD,
    -32602: Reaction.GIVE_UP,
    4444: Reaction.ELSEWHERE,
}


def classify(message: str, code: int | None = None, status: int | None = None) -> Refusal:
    """Classify a refusal by its message, code and HTTP status."""
    text = message.lower()
    for reaction, pattern in _compiled_rules():
        if match := pattern.search(text):
            most = next((_count(group) for group in match.groups() if group), None)
            return Refusal(reaction, most, _suggested(text), _wait(text))
    if code is not None and code in _CODES:
        return Refusal(_CODES[code])
    if status is not None and status in _STATUSES:
        return Refusal(_STATUSES[status])
    return Refusal(Reaction.AGAIN, recognized=False)


@cache
def _compiled_rules() -> list[tuple[Reaction, re.Pattern[str]]]:
    """Compiled at the first refusal: most commands meet none."""
    return [(reaction, re.compile(pattern)) for reaction, pattern in _RULES]


def _suggested(text: str) -> tuple[int, int] | None:
    """Return the range that the provider says would work; some swap its ends."""
    if pair := _HEX_PAIR.search(text):
        low, high = sorted(int(end, 16) for end in pair.groups())
        return low, high
    if pair := _DECIMAL_PAIR.search(text):
        low, high = sorted(map(int, pair.groups()))
        return low, high
    return None


def _wait(text: str) -> float | None:
    match = _SUSPENDED.search(text)
    return float(match[1]) if match else None


def _count(text: str) -> int:
    digits = text.rstrip("k").rstrip(",._").translate(str.maketrans("", "", ",._"))
    return int(digits) * (1000 if text.endswith("k") else 1)
