"""Which endpoint is asked next, and how long to wait for it; or why none will do.

An endpoint that lacks a method or the history is out of the question, and so is one that has said
too often that it lacks this very block. One that is to be avoided is
used only when there is no other. Among the rest, whoever is not behind the height, then whoever
is free first, then whoever has the least to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gapless.core.errors import MissingHistory, Unavailable
from gapless.core.remedies import ExamineEndpoint
from gapless.providers.endpoint import Endpoint
from gapless.providers.pending import PendingAsk
from gapless.providers.provider_errors import Reaction, Refusal
from gapless.providers.refused import Refused

_ELSEWHERE_AT_MOST = 4  # times that each endpoint is asked for a block that it says is gone


class Choice(NamedTuple):
    endpoint: Endpoint
    wait: float  # seconds; then choose again
    fresh: bool  # over a connection of its own


def choose(endpoints: Sequence[Endpoint], pending: PendingAsk, now: float) -> Choice:
    """The endpoint to ask; raises if there is none, or none within the patience."""
    reaching = [each for each in endpoints if _reaches(each, pending, now)]
    able = [each for each in reaching if not each.offer.lacks(pending.methods, now)]
    if not able:  # whoever reaches so far back can still be asked in another way
        raise _no_method(pending) if reaching else _no_history(endpoints, pending, now)
    others = [each for each in able if each.name not in pending.avoid]
    for candidates in filter(None, (others, able)):
        best = min(candidates, key=lambda each: _rank(each, pending, now))
        wait = _wait(best, pending, now)
        if pending.can_wait(wait):
            return Choice(best, wait, best.name in pending.avoid)
    if len(able) < len(reaching):
        raise _no_method(pending)
    raise unavailable(endpoints, pending)


def unavailable(endpoints: Sequence[Endpoint], pending: PendingAsk) -> Unavailable:
    told = ", ".join(f"`{each.name}` ({each.trouble or 'resting'})" for each in endpoints)
    return Unavailable(
        f"no endpoint answers {pending}: {told}",
        remedy=ExamineEndpoint(),
    )


def _reaches(endpoint: Endpoint, pending: PendingAsk, now: float) -> bool:
    if pending.heights is None:
        return True
    if pending.elsewheres[endpoint.name] >= _ELSEWHERE_AT_MOST:
        return False
    return endpoint.offer.earliest(pending.methods, now) <= pending.heights.first


def _rank(
    endpoint: Endpoint, pending: PendingAsk, now: float
) -> tuple[bool, bool, float, int, float]:
    wait = _wait(endpoint, pending, now)
    return (
        not pending.can_wait(wait),
        _doubtful(endpoint, pending, now),
        wait,
        pending.troubles[endpoint.name],
        endpoint.load,
    )


def _doubtful(endpoint: Endpoint, pending: PendingAsk, now: float) -> bool:
    """It may not have what is asked for: known too low a head, or nothing so far below."""
    if pending.heights is None:
        return False
    if endpoint.is_below(pending.heights.last, now) or pending.elsewheres[endpoint.name]:
        return True
    return pending.heights.first < endpoint.offer.doubted_below(now)


def _wait(endpoint: Endpoint, pending: PendingAsk, now: float) -> float:
    return max(0.0, endpoint.ready_at() - now, pending.not_before(endpoint.name) - now)


def _no_method(pending: PendingAsk) -> Refused:
    return Refused(
        f"no endpoint has all of {', '.join(sorted(pending.methods))}",
        Refusal(Reaction.OTHER_METHOD),
    )


def _no_history(endpoints: Sequence[Endpoint], pending: PendingAsk, now: float) -> MissingHistory:
    assert pending.heights is not None
    first = pending.heights.first
    begins = {each.name: each.offer.earliest(pending.methods, now) for each in endpoints}
    height = first if min(begins.values()) > first or pending.gone is None else pending.gone
    told = ", ".join(
        f"`{each.name}` has none below {begins[each.name]:,}"
        if begins[each.name] > first
        else f"`{each.name}` refuses it ({each.trouble})"
        for each in endpoints
    )
    return MissingHistory(
        f"no endpoint has block {height:,}: {told}",
        height=height,
        hint="use an archive endpoint for blocks this old",
    )
