"""Text for people about follows. Pure: nothing here prints, asks or reads a clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gapless.cli.render import table
from gapless.core.text import plain
from gapless.views.figures import counted, cut, duration
from gapless.views.follows import UnreadableFollowView

if TYPE_CHECKING:
    from gapless.cli.waiting import Waiting
    from gapless.following.creation import Created
    from gapless.following.follower import Follower
    from gapless.following.status import FollowStatus
    from gapless.ledger.records import Backfill
    from gapless.publishers.service import PublisherLoop
    from gapless.views.follows import FollowView

HEAD = ("name", "network", "phase", "head", "stored", "history", "gaps", "leader", "sink")

_DAY = 86_400.0  # seconds


def opening(created: Created) -> str:
    """What is about to be followed."""
    spec = created.spec
    text = (
        f"following {spec.network} (chain {spec.chain_id}) as `{spec.name}`: head {created.head:,},"
        f" from block {spec.start:,} → {plain(spec.sink)}"
    )
    if created.changed:
        text += f"\nits endpoints have changed; it now uses {', '.join(spec.endpoints)}"
    return text


def phase(follow: FollowView | FollowStatus) -> str:
    """The phase with its figures: `backfilling 71 %`, `live, lag 1 block (3 s)`."""
    lag = f"lag {counted(follow.lag_blocks, 'block')}"
    if follow.lag_seconds >= 1:
        lag += f" ({duration(follow.lag_seconds)})"
    match follow.phase:
        case "backfilling":
            return f"backfilling {follow.history_pct:.0f} %, {lag}"
        case "live" | "behind" as now:
            return f"{now}, {lag}"
        case other:
            return other


def table_of(follows: Sequence[FollowView | UnreadableFollowView]) -> str:
    return table([HEAD, *map(_row, follows)])


def _row(follow: FollowView | UnreadableFollowView) -> tuple[str, ...]:
    if isinstance(follow, UnreadableFollowView):
        return (follow.name, "", follow.phase, *("" for _ in HEAD[3:]))
    return (
        follow.name,
        follow.network,
        f"{phase(follow)}; {_what(follow.trouble)}" if follow.silent_seconds else phase(follow),
        _height(follow.head),
        _height(follow.stored),
        f"{follow.history_pct:.1f}%",
        str(len(follow.gaps)),
        follow.leader or "none",
        follow.sink,
    )


def page(follow: FollowView) -> str:
    """Everything about one follow."""
    facts = {
        "network": f"{follow.network} (chain {follow.chain_id})",
        "sink": follow.sink,
        "tables": ", ".join(follow.datasets),
        "endpoints": ", ".join(follow.endpoints),
        "from": f"{follow.start:,}",
        "head": _height(follow.head),
        "final": _height(follow.final),
        "stored": _height(follow.stored),
        "history": f"{follow.history_pct:.1f}% of {counted(follow.history_blocks, 'block')}",
        "retrying": counted(follow.retries, "block"),
        "gaps": ", ".join(_span(*each) for each in follow.gaps) or "none",
        "leader": follow.leader or "none",
        "backfill": follow.backfill_id,
    }
    if follow.trouble is not None:
        facts["trouble"] = trouble(follow, follow.trouble)
    if follow.alarm is not None:
        facts["alarm"] = follow.alarm
    width = max(map(len, facts))
    lines = [f"{follow.name}  {phase(follow)}", ""]
    lines += [f"  {name.ljust(width)}  {plain(text)}" for name, text in facts.items()]
    return "\n".join(lines)


def trouble(follow: FollowView, text: str) -> str:
    """`no endpoint answers since 02:13 UTC (3m05s): HTTP 503`."""
    if not (follow.silent_seconds and follow.head_seen_at):
        return text
    clock = "%H:%M UTC" if follow.silent_seconds < _DAY else "%Y-%m-%d %H:%M UTC"
    since = f"{follow.head_seen_at:{clock}} ({duration(follow.silent_seconds)})"
    what = _what(text)
    return f"{what} since {since}{text.removeprefix(what)}"


def _what(trouble: str | None) -> str:
    """The trouble without its reason."""
    return plain((trouble or "").partition(": ")[0])


def next_step(follow: FollowView) -> str | None:
    """What a person can do about a follow that does not go ahead by itself."""
    if follow.alarm is not None:
        return f"decide which branch is right, then `gapless follow rm {follow.name}` and follow it"
    if follow.phase == "paused":
        return f"`gapless follow resume {follow.name}` continues it"
    if follow.leader is None:
        return "nobody leads it: run the same `gapless follow`, or a `gapless worker`"
    return None


@dataclass(frozen=True)
class FollowProgress:
    """How far some follows are."""

    statuses: Sequence[FollowStatus]
    troubles: Mapping[str, str]
    publishers: Sequence[PublisherLoop] = ()

    def text(self, width: int) -> str:
        parts = []
        for each in self.statuses:
            trouble = self.troubles.get(each.name)
            head = f"{each.name}: {phase(each)}, head {_height(each.head)}"
            parts.append(f"{head}; {plain(trouble)}" if trouble else head)
        parts += map(_published, self.publishers)
        return cut(" | ".join(parts), width)

    def fields(self) -> dict[str, Any]:
        return {
            "follows": [
                {
                    "name": each.name,
                    "phase": each.phase,
                    "head": each.head,
                    "stored": each.stored,
                    "lag_blocks": each.lag_blocks,
                    "lag_seconds": round(each.lag_seconds, 3),
                    "history_pct": each.history_pct,
                    "trouble": self.troubles.get(each.name),
                }
                for each in self.statuses
            ],
            "publishers": [
                {
                    "name": each.name,
                    "leads": each.status.leads,
                    "complete_to": each.status.complete_to,
                    "missing": each.status.missing,
                    "trouble": each.status.trouble,
                }
                for each in self.publishers
            ],
        }


@dataclass
class FollowLine:
    """The live line of a process that follows."""

    statuses: Sequence[FollowStatus] = ()
    troubles: Mapping[str, str] = field(default_factory=dict)
    publishers: Sequence[PublisherLoop] = ()

    def update(
        self,
        statuses: Sequence[FollowStatus],
        followers: Mapping[str, Follower],
        publishers: Sequence[PublisherLoop],
    ) -> None:
        self.statuses, self.publishers = statuses, publishers
        known = {name: each.status.trouble for name, each in followers.items()}
        self.troubles = {name: text for name, text in known.items() if text}

    def at(self, backfill: Backfill, now: float, waiting: Waiting | None) -> FollowProgress:
        return FollowProgress(self.statuses, self.troubles, self.publishers)

    def finishing(self) -> str:
        return "storing the blocks that were fetched"


def _published(publisher: PublisherLoop) -> str:
    status = publisher.status
    if status.trouble:
        return f"{publisher.name}: {plain(status.trouble)}"
    if not status.leads:
        return f"{publisher.name}: standing by"
    left = f", {counted(status.missing, 'block')} to publish" if status.missing else ""
    return f"{publisher.name}: published {_height(status.complete_to)}{left}"


def _height(height: int | None) -> str:
    return "none" if height is None else f"{height:,}"


def _span(first: int, last: int) -> str:
    return f"{first:,}" if first == last else f"{first:,}-{last:,}"
