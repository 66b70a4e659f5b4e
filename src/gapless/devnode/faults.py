"""Injected faults, by chance or by plan; the same seed gives the same faults.

    429=0.05,null=0.01      by chance: the share of requests, calls or notices that are affected
    call-500=0.03           by chance of each call, and then its whole batch fails
    truncated@17            by plan: the first call about block 17
    drop@17*3               the first three of them
    reorg@120               once block 120 was answered, it and all above are replaced
    ws-drop@120             when subscribers are told of block 120

Chance does not depend on the order in which calls arrive: a call's fault is drawn from the seed,
the call itself and how often it was made. So a run with many workers has reproducible faults.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from gapless.core.errors import UsageError
from gapless.core.similar import known_names


class Fault(StrEnum):
    """A kind of fault."""

    # A whole request, be it a call or a batch.
    LIMITED = "429"  # with Retry-After
    LIMITED_BARE = "429-bare"  # without
    BROKEN = "500"
    TIMEOUT = "timeout"  # no answer at all
    DROP = "drop"  # the connection is closed, before the answer or within it
    MALFORMED = "malformed"  # invalid or truncated JSON
    LONE_ERROR = "lone-error"  # one error object for a whole batch
    OMIT = "omit"  # one answer of a batch is missing
    SHUFFLE = "shuffle"  # the answers of a batch in another order
    # A single call, whose whole request then fails.
    CALL_LIMITED = "call-429"  # without Retry-After
    CALL_BROKEN = "call-500"
    CALL_DROP = "call-drop"
    CALL_MALFORMED = "call-malformed"
    # A single call.
    LIMITED_INSIDE = "limited"  # a rate limit in the envelope, with HTTP 200
    GONE = "gone"  # an error that reports missing history
    NULL = "null"
    EMPTY = "empty"  # [] instead of receipts or logs
    TRUNCATED = "truncated"  # the last log, receipt or transaction is lost
    WRONG_BLOCK = "wrong-block"  # the answer of a neighbour
    STALE_HEAD = "stale-head"  # from a node that lags behind
    WRONG_CHAIN = "wrong-chain"
    REORG = "reorg"  # the last blocks are replaced
    # A notice to a subscriber.
    WS_DROP = "ws-drop"  # the WebSocket connection is closed instead
    WS_SILENT = "ws-silent"  # it stays open, but no notice comes any more


# Drawn for each call; what then happens to the whole request.
SPREADING = {
    Fault.CALL_LIMITED: Fault.LIMITED_BARE,
    Fault.CALL_BROKEN: Fault.BROKEN,
    Fault.CALL_DROP: Fault.DROP,
    Fault.CALL_MALFORMED: Fault.MALFORMED,
}
OF_BATCHES = frozenset({Fault.LONE_ERROR, Fault.OMIT, Fault.SHUFFLE})
OF_REQUESTS = OF_BATCHES | {
    *(Fault.LIMITED, Fault.LIMITED_BARE, Fault.BROKEN),
    *(Fault.TIMEOUT, Fault.DROP, Fault.MALFORMED),
}
OF_NOTICES = frozenset({Fault.WS_DROP, Fault.WS_SILENT})
OF_CALLS = frozenset(Fault) - OF_REQUESTS - OF_NOTICES - SPREADING.keys()


@dataclass(frozen=True, slots=True)
class Planned:
    """A fault of the first `times` calls about the block at a height."""

    fault: Fault
    height: int
    times: int = 1


@dataclass(frozen=True, slots=True)
class Faults:
    """The faults to inject, by chance and by plan."""

    chances: Mapping[Fault, float] = field(default_factory=lambda: MappingProxyType({}))
    plan: tuple[Planned, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        scopes = (
            ("requests", OF_REQUESTS),
            ("notices", OF_NOTICES),
            ("calls", OF_CALLS | SPREADING.keys()),
        )
        for what, scope in scopes:
            total = sum(chance for fault, chance in self.chances.items() if fault in scope)
            if total > 1:
                raise UsageError(
                    f"the faults of {what} add up to {total:g}", hint="chances are at most 1 in all"
                )


_ITEM = re.compile(r"(?P<name>[\w-]+)(?:=(?P<chance>[^@*]+)|@(?P<height>\d+)(?:\*(?P<times>\d+))?)")


def parse_faults(text: str, seed: int = 0) -> Faults:
    """Parses faults such as `429=0.05,truncated@17*2`."""
    chances: dict[Fault, float] = {}
    plan = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        match = _ITEM.fullmatch(item)
        if match is None:
            raise UsageError(
                f"`{item}` is not a fault", hint="write `null=0.01`, `null@17` or `null@17*3`"
            )
        fault = _fault(match["name"])
        if match["height"] is not None:
            plan.append(Planned(fault, int(match["height"]), int(match["times"] or 1)))
        elif fault in chances:
            raise UsageError(f"`{fault}` has two chances", hint="name it once")
        else:
            chances[fault] = _chance(match["chance"], item)
    return Faults(MappingProxyType(chances), tuple(plan), seed)


def _fault(name: str) -> Fault:
    try:
        return Fault(name.lower().replace("_", "-"))
    except ValueError:
        raise UsageError(f"there is no fault `{name}`", hint=known_names(name, Fault)) from None


def _chance(text: str, item: str) -> float:
    percent = text.endswith("%")
    try:
        chance = float(text.rstrip("%")) / (100 if percent else 1)
    except ValueError:
        chance = -1.0
    if not 0 <= chance <= 1:
        raise UsageError(f"`{item}`: `{text}` is not a chance", hint="it is between 0 and 1")
    return chance
