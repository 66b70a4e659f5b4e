"""Text for people about publishers. Pure: nothing here prints, asks or reads a clock."""

from __future__ import annotations

from collections.abc import Sequence

from gapless.cli.render import table
from gapless.core.text import plain
from gapless.views.figures import counted
from gapless.views.publishers import PublisherView

HEAD = (
    "name",
    "network",
    "phase",
    "published to",
    "missing",
    "changes",
    "leader",
    "sink",
    "stream",
)


def table_of(publishers: Sequence[PublisherView]) -> str:
    return table([HEAD, *map(_row, publishers)])


def _row(it: PublisherView) -> tuple[str, ...]:
    return (
        it.name,
        it.network,
        it.phase,
        _height(it.last_synced_block),
        f"{it.missing:,}",
        f"{it.kept_changes:,}",
        it.leader or "none",
        it.sink,
        it.stream,
    )


def page(it: PublisherView) -> str:
    """Everything about one publisher."""
    facts = {
        "network": it.network,
        "sink": it.sink,
        "server": it.server,
        "stream": it.stream,
        "from": _height(it.start),
        "head": _height(it.head),
        "last synced": _height(it.last_synced_block),
        "published": counted(it.published, "block"),
        "missing": counted(it.missing, "block"),
        "changes kept": f"{it.kept_changes:,}",
        "entries": f"{it.entries:,}",
        "leader": it.leader or "none",
    }
    facts |= {f"set aside {blocks}": why for blocks, why in it.set_aside.items()}
    if it.trouble is not None:
        facts["trouble"] = it.trouble
    width = max(map(len, facts))
    lines = [f"{it.name}  {it.phase}", ""]
    lines += [f"  {name.ljust(width)}  {plain(text)}" for name, text in facts.items()]
    return "\n".join(lines)


def next_step(it: PublisherView) -> str | None:
    """What a person can do about a publisher that does not go ahead by itself."""
    if it.phase == "unreachable":
        return "publishers keep trying; start the server, or correct `[publish]` in `gapless.toml`"
    if it.phase == "stopped":
        start = "nobody publishes: run a `gapless worker` or a `gapless follow`"
        remove = f"or `gapless publish rm {it.name}`, so that `{it.sink}` keeps no changes for it"
        return f"{start}, {remove}" if it.kept_changes else start
    return None


def _height(height: int | None) -> str:
    return "none" if height is None else f"{height:,}"
