"""Follows: `follow ls` and `follow show`."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from gapless.core.backfill import State
from gapless.following.status import FollowStatus, UnreadableFollow
from gapless.views.moments import utc_or_none


class FollowView(Struct, frozen=True, kw_only=True):
    """A follow: what it is, and how far it is."""

    name: str
    backfill_id: str
    network: str
    chain_id: int
    sink: str
    datasets: tuple[str, ...]
    endpoints: tuple[str, ...]
    state: State
    phase: str
    leader: str | None
    start: int
    head: int | None
    final: int | None
    stored: int | None
    lag_blocks: int
    lag_seconds: float
    head_seen_at: datetime | None
    head_time: datetime | None
    trouble: str | None
    silent_seconds: float
    history_blocks: int
    history_pct: float
    retries: int
    gaps: tuple[tuple[int, int], ...]
    alarm: str | None


class UnreadableFollowView(Struct, frozen=True, kw_only=True):
    """A follow whose rows in the ledger are damaged."""

    name: str
    backfill_id: str
    phase: str
    problem: str


def listed_view(found: FollowStatus | UnreadableFollow) -> FollowView | UnreadableFollowView:
    """A follow as it is listed, even if it is damaged."""
    if isinstance(found, FollowStatus):
        return follow_view(found)
    return UnreadableFollowView(
        name=found.name, backfill_id=found.backfill.id, phase="unreadable", problem=found.problem
    )


def follow_view(status: FollowStatus) -> FollowView:
    spec, state = status.spec, status.state
    return FollowView(
        name=status.name,
        backfill_id=status.backfill.id,
        network=spec.network,
        chain_id=spec.chain_id,
        sink=spec.sink,
        datasets=spec.datasets,
        endpoints=spec.endpoints,
        state=status.backfill.state,
        phase=status.phase,
        leader=status.leader,
        start=state.start,
        head=status.head,
        final=state.final if state.final >= 0 else None,
        stored=status.stored,
        lag_blocks=status.lag_blocks,
        lag_seconds=round(status.lag_seconds, 3),
        head_seen_at=utc_or_none(status.head_seen_at),
        head_time=utc_or_none(status.head_time),
        trouble=status.trouble,
        silent_seconds=round(status.silent_seconds, 3),
        history_blocks=status.history_blocks,
        history_pct=status.history_pct,
        retries=status.backfill.chunks.failed,
        gaps=tuple((first, last) for first, last in status.gaps.spans),
        alarm=state.alarm,
    )
