"""What `gapless fetch` says: where it stands, its plan, its progress, what came of it. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gapless.cli.figures import counted, cut, duration, moment, plain, short
from gapless.cli.render import BAR, bar
from gapless.core.ranges import RangeSet, Span
from gapless.ledger import redacted
from gapless.postgres.url import split
from gapless.runtime.fetch import calls_for
from gapless.runtime.fetching import Fetching, FetchResult
from gapless.runtime.places import USUAL, USUAL_VARIABLE
from gapless.schema.ddl import quoted
from gapless.sources.rpc import Served

_TROUBLE = 60  # characters


def spans_text(spans: Iterable[Span], most: int = 3) -> str:
    """Spans for people: `0-99, 200-299 and 4 more`."""
    listed = list(spans)
    texts = [f"{first:,}-{last:,}" if first < last else f"{first:,}" for first, last in listed]
    more = f" and {len(listed) - most:,} more" if len(listed) > most else ""
    return ", ".join(texts[:most]) + more


def where(fetch: Fetching) -> str:
    """The chain, and what of the wish is final."""
    wish, tip = fetch.wish, fetch.tip
    rule = "by depth, for the node tells of none" if tip.by_depth else "by the node's word"
    if wish.confirmations is not None:
        rule = f"with {counted(wish.confirmations, 'confirmation')}"
    chain = f"{wish.network.name} (chain {fetch.spec.chain_id})"
    text = f"{chain}: head {tip.head:,}, final {tip.final:,} {rule}"
    if isinstance(wish.heights.last, int) and wish.heights.last > fetch.span.last:
        text += f"\nblocks after {fetch.span.last:,} are not final yet, and left out"
    if USUAL in wish.endpoints:
        text += f"\nendpoint `{USUAL_VARIABLE}`, from the environment"
    return text


def plan(fetch: Fetching) -> str:
    """What is going to be done, and what it costs."""
    spec, span, missing = fetch.spec, fetch.span, fetch.missing
    text = f"blocks {span.first:,} to {span.last:,} ({counted(span.size, 'block')})"
    text += f" of {', '.join(spec.datasets)} to {spec.sink}, verify {spec.verify}"
    if not missing:
        return f"{text}\nall of them are stored as asked for: nothing to fetch"
    if len(missing) < span.size:
        text += f"\n{counted(span.size - len(missing), 'block')} stored already"
    if damaged := fetch.held.damaged & missing:
        text += f"\ndamaged: {counted(len(damaged), 'block')} cannot be read and are fetched again"
    weak = RangeSet() if spec.refetch else fetch.held.weak & missing
    if weak:
        text += f"\nto prove again from stored rows: {counted(len(weak), 'block')}"
    if left := len(missing) - len(weak):
        calls = ", ".join(f"{count:,} {name}" for name, count in calls_for(left, spec).items())
        text += f"\nto fetch: {counted(left, 'block')}, at least {calls}"
    return text


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
    endpoints: Mapping[str, Served] = field(default_factory=dict)


def progress_line(at: Standing, width: int = 120) -> str:
    """One line that fits the width: bar, blocks, pace, time left, trouble."""
    share = at.done / at.total
    parts = [f"{100 * share:.1f}%", f"{short(at.done)}/{short(at.total)} blocks"]
    if at.blocks_per_second:
        parts.append(f"{short(at.blocks_per_second)}/s")
        parts.append(f"{short(at.calls_per_second)} calls/s")
        parts.append(f"eta {duration((at.total - at.done) / at.blocks_per_second)}")
    waiting = "chunk waiting" if at.waiting == 1 else "chunks waiting"
    troubles = ((at.retries, "retried"), (at.refused, "refused"), (at.waiting, waiting))
    parts += [f"{short(count)} {what}" for count, what in troubles if count]
    parts += [f"{name}: {trouble}" for name, trouble in endpoint_troubles(at.endpoints)]
    room = width - len("  ".join([at.network, *parts])) - 2
    drawn = [bar(share, min(room, BAR))] if room >= BAR // 3 else []
    return cut("  ".join([at.network, *drawn, *parts]), width)


def result_json(result: FetchResult, ledger_url: str) -> dict[str, Any]:
    return {
        "id": result.id,
        "state": result.state,
        "error": result.error,
        "network": result.spec.network,
        "chain_id": result.spec.chain_id,
        "first": result.span.first,
        "last": result.span.last,
        "blocks": result.span.size,
        "fetched": result.fetched,
        "batches": result.batches,
        "rows": dict(result.rows),
        "gaps": [list(span) for span in result.gaps.spans],
        "verify": result.spec.verify,
        "not_proven": sorted(result.not_proven),
        "reproven": result.reproven,
        "started_at": moment(result.started_at),
        "ended_at": moment(result.ended_at),
        "seconds": round(result.seconds, 3),
        "blocks_per_second": round(result.blocks_per_second, 1),
        "calls": dict(sorted(result.calls.items())),
        "requests": result.requests,
        "retries": result.retries,
        "refused": result.refused,
        "endpoints": [_endpoint_json(name, it) for name, it in result.endpoints.items()],
        "sink": result.spec.sink,
        "ledger": redacted(ledger_url),
    }


def _endpoint_json(name: str, served: Served) -> dict[str, Any]:
    return {
        "name": name,
        "calls": served.calls,
        "refused": served.refused,
        "trouble": served.trouble or None,
        "resting": served.resting,
        "usable": not served.down,
    }


def endpoint_troubles(endpoints: Mapping[str, Served]) -> list[tuple[str, str]]:
    """The endpoints that are down, or whose answers did not hold, and what is wrong with them."""
    found = []
    for name, served in endpoints.items():
        refused = f"{counted(served.refused, 'answer')} refused" if served.refused else ""
        trouble = cut(plain(served.trouble), _TROUBLE) if served.down else ""
        if said := ", ".join(filter(None, (trouble, refused))):
            found.append((name, said))
    return found


def summary(result: FetchResult) -> str:
    """What came of a fetch, in a few lines."""
    heights = f"{result.span.first:,} to {result.span.last:,}"
    line = f"{result.state.lower()}: {result.spec.network} {heights}"
    line += f", {counted(result.fetched, 'block')} fetched"
    if result.fetched:
        line += f" in {duration(result.seconds)}, {short(result.blocks_per_second)} blocks/s"
    rows = ", ".join(f"{count:,} {name}" for name, count in result.rows.items())
    calls = ", ".join(f"{count:,} {name}" for name, count in sorted(result.calls.items()))
    lines = [line]
    if result.reproven:
        lines.append(f"proven again from stored rows: {counted(result.reproven, 'block')}")
    if result.fetched:
        times = f"from {moment(result.started_at)} to {moment(result.ended_at)}"
        lines.append(f"written: {counted(result.batches, 'batch', 'batches')} {times}")
    lines.append(f"stored: {rows or 'nothing'}")
    lines.append(f"calls: {calls}, in {counted(result.requests, 'request')}")
    if result.retries:
        lines[-1] += f"; {counted(result.retries, 'call')} sent again"
    if result.refused:
        lines[-1] += f"; {counted(result.refused, 'answer')} refused"
    for name, trouble in endpoint_troubles(result.endpoints):
        lines.append(f"endpoint {name}: {trouble}")
    if result.not_proven and result.rows:
        lines.append(f"not proven: {', '.join(sorted(result.not_proven))}")
    return "\n".join(lines)


def gaps_error(result: FetchResult) -> str:
    """What is missing, and why if that is known."""
    text = f"{counted(len(result.gaps), 'block')} missing: {spans_text(result.gaps.spans)}"
    return f"{text} ({plain(result.error)})" if result.error else text


def query(target: str, span: Span) -> str:
    """A command that shows what was stored."""
    if target.endswith("/"):
        statement = f"FROM '{target}**/blocks/*.parquet' ORDER BY block_number LIMIT 5"
        return f"duckdb -c {_quoted(statement)}"
    words = "SELECT block_number, block_time, transaction_count, hash FROM"
    where = f"WHERE block_number >= {span.first} LIMIT 5"
    statement = f"{words} blocks_hex {where}"
    if target.startswith(("postgresql:", "postgres:")):
        schema = split(target, ["schema"])[1].get("schema", "public")
        statement = f"{words} {quoted(schema)}.blocks_hex {where}"
        return f"psql {shlex.quote(redacted(target))} -c {_quoted(statement)}"
    if target.startswith("duckdb:") or target.endswith(".duckdb"):
        path = target.removeprefix("duckdb:").removeprefix("///")
        return f"duckdb -readonly {shlex.quote(path)} {_quoted(statement)}"
    path = target.removeprefix("sqlite:///").partition("?")[0]
    return f"sqlite3 -header -column {shlex.quote(path)} {_quoted(statement)}"


def _quoted(statement: str) -> str:
    """A statement as one word of a shell, readable where that is safe."""
    return shlex.quote(statement) if set(statement) & set('"$`!\\') else f'"{statement}"'
