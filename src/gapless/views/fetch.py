"""A fetch: what it is going to do, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from msgspec import Struct

from gapless.blocks.result import FetchResult
from gapless.blocks.session import FetchSession
from gapless.chains import Level
from gapless.core.backfill import State
from gapless.core.ranges import Span
from gapless.ledger import redacted
from gapless.providers import Served
from gapless.views.moments import utc

INTERRUPTED = "INTERRUPTED"
"""The state of a fetch that was stopped: the same fetch again resumes it."""
PARTIAL = "PARTIAL"
"""The state of a fetch that has stored all that is final, but not all that was requested."""


class EndpointView(Struct, frozen=True, kw_only=True):
    """What an endpoint has done for a fetch, and whether it can be used."""

    name: str
    calls: int
    refused: int
    trouble: str | None
    resting: bool
    usable: bool


class FetchView(Struct, frozen=True, kw_only=True):
    """What came of a fetch; `state` is that of its backfill, `INTERRUPTED` or `PARTIAL`."""

    id: str | None
    state: str
    error: str | None
    network: str
    chain_id: int
    first: int
    last: int
    blocks: int
    requested: Span
    final: int
    stored: tuple[Span, ...]
    fetched: int
    batches: int
    rows: dict[str, int]
    gaps: tuple[Span, ...]
    unproven: tuple[Span, ...]
    verify: Level
    not_proven: tuple[str, ...]
    reproven: int
    started_at: datetime
    ended_at: datetime
    seconds: float
    blocks_per_second: float
    calls: dict[str, int]
    requests: int
    retries: int
    refused: int
    endpoints: tuple[EndpointView, ...]
    sink: str
    ledger: str

    @property
    def interrupted(self) -> bool:
        return self.state == INTERRUPTED

    @property
    def not_final(self) -> Span | None:
        """What was requested and is not final yet, so that it was left out."""
        first = max(self.requested.first, self.final + 1)
        return Span(first, self.requested.last) if first <= self.requested.last else None


class FetchPlanView(Struct, frozen=True, kw_only=True):
    """What a fetch would do, and which calls that takes if nothing goes wrong."""

    first: int
    last: int
    requested: Span
    final: int
    missing: int
    to_prove_again: int
    to_derive: int
    calls: dict[str, int]
    seconds: float | None  # that these calls take at least, at the configured rates
    days: float | None  # that these calls take at least, by the configured daily quota


def fetch_view(result: FetchResult, ledger_url: str, *, allow_partial: bool = False) -> FetchView:
    return FetchView(
        id=result.id,
        state=_state(result, allow_partial=allow_partial),
        error=result.error,
        network=result.spec.network,
        chain_id=result.spec.chain_id,
        first=result.span.first,
        last=result.span.last,
        blocks=result.span.size,
        requested=result.requested,
        final=result.final,
        stored=tuple(result.stored.spans),
        fetched=result.fetched,
        batches=result.batches,
        rows=dict(result.rows),
        gaps=tuple(result.gaps.spans),
        unproven=tuple(result.unproven.spans),
        verify=result.spec.verify,
        not_proven=tuple(sorted(result.not_proven)),
        reproven=result.reproven,
        started_at=utc(result.started_at),
        ended_at=utc(result.ended_at),
        seconds=round(result.seconds, 3),
        blocks_per_second=round(result.blocks_per_second, 1),
        calls=dict(sorted(result.calls.items())),
        requests=result.requests,
        retries=result.retries,
        refused=result.refused,
        endpoints=endpoint_views(result.endpoints),
        sink=result.spec.sink,
        ledger=redacted(ledger_url),
    )


def fetch_plan_view(fetch: FetchSession) -> FetchPlanView:
    weak = len(fetch.held.weak & fetch.missing)
    derivable = len(fetch.held.derivable & fetch.missing)
    count = len(fetch.missing) - weak - derivable
    calls = fetch.spec.family.calls(count, fetch.spec.datasets)
    budget = budget_of(fetch)
    return FetchPlanView(
        first=fetch.span.first,
        last=fetch.span.last,
        requested=fetch.requested,
        final=fetch.tip.final,
        missing=count,
        to_prove_again=weak,
        to_derive=derivable,
        calls=calls,
        seconds=budget.seconds(sum(calls.values())),
        days=budget.days(sum(calls.values())),
    )


class CallBudget(NamedTuple):
    """What the configuration says about the calls that the endpoints of a fetch allow."""

    per_second: float | None  # None: at least one of them has no limit that is known
    per_day: int | None

    def seconds(self, calls: int) -> float | None:
        return None if self.per_second is None else round(calls / self.per_second, 1)

    def days(self, calls: int) -> float | None:
        return None if self.per_day is None else round(calls / self.per_day, 2)


def budget_of(fetch: FetchSession) -> CallBudget:
    found = [fetch.config.endpoints.get(name) for name in fetch.spec.endpoints]
    rates = [each.rps for each in found if each is not None and each.rps is not None]
    quotas = [each.daily_calls for each in found if each is not None and each.daily_calls]
    return CallBudget(
        sum(rates) if len(rates) == len(found) else None,
        sum(quotas) if len(quotas) == len(found) else None,
    )


def endpoint_views(endpoints: Mapping[str, Served]) -> tuple[EndpointView, ...]:
    return tuple(
        EndpointView(
            name=name,
            calls=served.calls,
            refused=served.refused,
            trouble=served.trouble or None,
            resting=served.resting,
            usable=not served.down,
        )
        for name, served in endpoints.items()
    )


def _state(result: FetchResult, *, allow_partial: bool) -> str:
    """How the backfill stands, unless that is not all there is to say."""
    if result.interrupted:
        return INTERRUPTED
    if result.state is State.SUCCEEDED and result.not_final and not allow_partial:
        return PARTIAL
    return result.state
