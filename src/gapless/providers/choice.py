"""Choose the endpoint to ask next and how long to wait for it, or report why none is usable.

An endpoint is not eligible if it lacks a method or the history, or has reported this block missing
too often. An endpoint to avoid is used only when there is no other. Among the others, the order is:
those that have reached the height, then those that are free first, then the least loaded.
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

_ELSEWHERE_AT_MOST = 4  # how often each endpoint is asked for a block that it reports missing


class Choice(NamedTuple):
    endpoint: Endpoint
    wait: float  # seconds; then choose again
    fresh: bool  # whether to use a new connection


def choose(endpoints: Sequence[Endpoint], pending: PendingAsk, now: float) -> Choice:
    """Return the endpoint to ask; raise if there is none, or none within the patience."""
    reaching = [each for each in endpoints if _reaches(each, pending, now)]
    able = [each for each in reaching if not each.offer.lacks(pending.methods, now)]
    if not able:  # endpoints that have the history can still be asked with another method
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
    reasons = ", ".join(f"`{each.name}` ({each.trouble or 'resting'})" for each in endpoints)
    return Unavailable(
        f"no endpoint answers {pending}: {reasons}",
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
    """Whether it may lack the blocks: its head is too low, or it had nothing this far back."""
    if pending.heights is None:
        return False
    if endpoint.is_below(pending.heights.last, now) or pending.elsewheres[endpoint.name]:
        return True
    return pending.heights.first < endpoint.offer.doubted_below(now)


def _wait(endpoint: Endpoint, pending: PendingAsk, now: float) -> float:
    return max(0.0, endpoint.ready_at() - now, pending.not_before(endpoint.name) - now)


def _no_method(pending: PendingAsk) -> Refused:
    return Refused(
        f"no endpoint supports all of {', '.join(sorted(pending.methods))}",
        Refusal(Reaction.OTHER_METHOD),
    )


def _no_history(endpoints: Sequence[Endpoint], pending: PendingAsk, now: float) -> MissingHistory:
    assert pending.heights is not None
    first = pending.heights.first
    begins = {each.name: each.offer.earliest(pending.methods, now) for each in endpoints}
    height = first if min(begins.values()) > first or pending.gone is None else pending.gone
    reasons = ", ".join(
        f"`{each.name}` has no blocks below {begins[each.name]:,}"
        if begins[each.name] > first
        else f"`{each.name}` refuses it ({each.trouble})"
        for each in endpoints
    )
    return MissingHistory(
        f"no endpoint has block {height:,}: {reasons}",
        height=height,
        hint="use an archive endpoint for blocks this old",
    )
