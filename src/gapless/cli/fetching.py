"""What `gapless fetch` says: where it stands, its plan, its progress, what came of it. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gapless.cli.figures import counted, cut, duration, short
from gapless.cli.render import BAR, bar
from gapless.core.heights import Heights, Tip
from gapless.core.ranges import RangeSet, Span
from gapless.networks import Network
from gapless.runtime.fetch import calls_for
from gapless.runtime.plane import BlocksSpec


def spans_text(spans: Iterable[Span], most: int = 3) -> str:
    """Spans for people: `0-99, 200-299 and 4 more`."""
    listed = list(spans)
    texts = [f"{first:,}-{last:,}" if first < last else f"{first:,}" for first, last in listed]
    more = f" and {len(listed) - most:,} more" if len(listed) > most else ""
    return ", ".join(texts[:most]) + more


def where(network: Network, chain_id: int, heights: Heights, span: Span, tip: Tip) -> str:
    """The chain, and what of the wish is final."""
    rule = "by depth, for the node tells of none" if tip.by_depth else "by the node's word"
    text = f"{network.name} (chain {chain_id}): head {tip.head:,}, final {tip.final:,} {rule}"
    if heights.last != span.last and isinstance(heights.last, int):
        text += f"\nblocks after {span.last:,} are not final yet, and left out"
    return text


def plan(spec: BlocksSpec, span: Span, missing: RangeSet) -> str:
    """What is going to be done, and what it costs."""
    text = f"blocks {span.first:,} to {span.last:,} ({counted(span.size, 'block')})"
    text += f" of {', '.join(spec.datasets)} to {spec.sink}, verify {spec.verify}"
    if not missing:
        return f"{text}\nall of them are stored as asked for: nothing to fetch"
    if len(missing) < span.size:
        text += f"\n{counted(span.size - len(missing), 'block')} stored already"
    calls = ", ".join(f"{count:,} {name}" for name, count in calls_for(len(missing), spec).items())
    return f"{text}\nto fetch: {counted(len(missing), 'block')}, at least {calls}"


@dataclass(frozen=True)
class Standing:
    """How far a fetch is."""

    network: str
    total: int
    done: int
    blocks_per_second: float
    calls_per_second: float
    retries: int
    refused: int
    waiting: int  # chunks in backoff


def progress_line(at: Standing, width: int = 120) -> str:
    """One line that fits the width: bar, blocks, pace, time left, trouble."""
    share = at.done / at.total
    parts = [f"{100 * share:.1f}%", f"{short(at.done)}/{short(at.total)} blocks"]
    if at.blocks_per_second:
        parts.append(f"{short(at.blocks_per_second)}/s")
        parts.append(f"{short(at.calls_per_second)} calls/s")
        parts.append(f"eta {duration((at.total - at.done) / at.blocks_per_second)}")
    troubles = ((at.retries, "retried"), (at.refused, "refused"), (at.waiting, "chunks waiting"))
    parts += [f"{short(count)} {what}" for count, what in troubles if count]
    room = width - len("  ".join([at.network, *parts])) - 2
    drawn = [bar(share, min(room, BAR))] if room >= BAR // 3 else []
    return cut("  ".join([at.network, *drawn, *parts]), width)


@dataclass(frozen=True)
class Summary:
    """What came of a fetch."""

    id: str | None
    state: str
    spec: BlocksSpec
    span: Span
    fetched: int
    seconds: float
    rows: Mapping[str, int]
    gaps: RangeSet
    unproven: frozenset[str]
    calls: Mapping[str, int]
    requests: int
    retries: int
    refused: int
    ledger: str | None

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "state": self.state,
            "network": self.spec.network,
            "chain_id": self.spec.chain_id,
            "first": self.span.first,
            "last": self.span.last,
            "blocks": self.span.size,
            "fetched": self.fetched,
            "rows": dict(self.rows),
            "gaps": [list(span) for span in self.gaps.spans],
            "verify": self.spec.verify,
            "unproven": sorted(self.unproven),
            "seconds": round(self.seconds, 3),
            "blocks_per_second": round(self.fetched / self.seconds, 1) if self.seconds else 0.0,
            "calls": dict(sorted(self.calls.items())),
            "requests": self.requests,
            "retries": self.retries,
            "refused": self.refused,
            "sink": self.spec.sink,
            "ledger": self.ledger,
        }

    def text(self) -> str:
        blocks = f"{self.span.first:,} to {self.span.last:,}"
        lines = [f"{self.state.lower()}: {self.spec.network} {blocks}"]
        lines[0] += f", {counted(self.fetched, 'block')} fetched"
        if self.fetched:
            pace = short(self.fetched / self.seconds)
            lines[0] += f" in {duration(self.seconds)}, {pace} blocks/s"
        lines.append(
            "stored: " + ", ".join(f"{count:,} {name}" for name, count in self.rows.items())
        )
        if self.calls:
            calls = ", ".join(f"{count:,} {name}" for name, count in sorted(self.calls.items()))
            lines.append(f"calls: {calls}, in {counted(self.requests, 'request')}")
        troubles = ((self.retries, "calls sent again"), (self.refused, "answers refused"))
        if any(count for count, _ in troubles):
            lines[-1] += "; " + ", ".join(f"{count:,} {what}" for count, what in troubles if count)
        if self.unproven:
            lines.append(f"unproven: {', '.join(sorted(self.unproven))}")
        if self.ledger:
            lines.append(f"ledger: {self.ledger}")
        return "\n".join(lines)


def gaps_error(gaps: RangeSet) -> str:
    return f"{counted(len(gaps), 'block')} missing: {spans_text(gaps.spans)}"


def query(target: str, span: Span) -> str:
    """A command that shows what was stored."""
    if target.endswith("/"):
        statement = f"FROM '{target}**/blocks/*.parquet' ORDER BY block_number LIMIT 5"
        return f"duckdb -c {_quoted(statement)}"
    path = target.removeprefix("sqlite:///").partition("?")[0]
    words = "SELECT block_number, block_time, transaction_count, hash FROM blocks_hex"
    statement = f"{words} WHERE block_number >= {span.first} LIMIT 5"
    return f"sqlite3 -header -column {shlex.quote(path)} {_quoted(statement)}"


def _quoted(statement: str) -> str:
    """A statement as one word of a shell, readable where that is safe."""
    return shlex.quote(statement) if set(statement) & set('"$`!\\') else f'"{statement}"'
