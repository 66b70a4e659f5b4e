"""What `gapless fetch` says: where it stands, its plan, its progress, what came of it. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from gapless.cli.figures import counted, cut, duration, moment, plain, short
from gapless.core.backfill import State
from gapless.core.errors import SinkError
from gapless.core.heights import Tag
from gapless.core.ranges import RangeSet, Span
from gapless.ledger import redacted
from gapless.postgres.url import split
from gapless.runtime.fetch import calls_for
from gapless.runtime.fetching import Fetching, FetchResult
from gapless.runtime.places import USUAL, USUAL_VARIABLE
from gapless.schema.ddl import quoted
from gapless.sinks.location import kind_of
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
    if wish.heights.last is Tag.FINALIZED:
        text += f"\nfinalized = {fetch.span.last:,}"
    elif wish.heights.last is Tag.LATEST:
        text += f"\nlatest = {tip.head:,}; blocks up to {fetch.span.last:,} are final"
    elif left_out_text := left_out(fetch):
        text += f"\n{left_out_text}"
    if USUAL in wish.endpoints:
        text += f"\nendpoint `{USUAL_VARIABLE}`, from the environment"
    return text


def unchecked_anchors(fetch: Fetching) -> list[str]:
    """What is not compared with the anchors that a person gave."""
    found = []
    for height in fetch.unchecked_anchors:
        if height > fetch.tip.final:
            why = f"it is above the last final block, {fetch.tip.final:,}"
        else:
            why = "it is outside the range, so only the endpoints are compared with it"
        found.append(f"the anchor at {height:,} is not checked: {why}")
    return found


def left_out(fetch: Fetching) -> str | None:
    """What was asked for and is not going to be fetched, because it is not final yet."""
    if fetch.requested.last <= fetch.span.last:
        return None
    return _not_final_text(Span(fetch.tip.final + 1, fetch.requested.last))


def _not_final_text(span: Span) -> str:
    blocks = f"block {span.first:,} is" if span.size == 1 else f"blocks {_heights(span)} are"
    return f"{blocks} not final yet, and left out"


def _heights(span: Span) -> str:
    return f"{span.first:,} to {span.last:,}"


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


INTERRUPTED, PARTIAL = "INTERRUPTED", "PARTIAL"
IF_NOT_FINAL = "run it again later, or give `--allow-partial` if what is final is enough"


def state(result: FetchResult, *, allow_partial: bool = False) -> str:
    """What became of a fetch: how its backfill stands, unless that is not all there is to say."""
    if result.interrupted:
        return INTERRUPTED
    if result.state is State.SUCCEEDED and result.not_final and not allow_partial:
        return PARTIAL
    return result.state


def result_json(
    result: FetchResult, ledger_url: str, *, allow_partial: bool = False
) -> dict[str, Any]:
    return {
        "id": result.id,
        "state": state(result, allow_partial=allow_partial),
        "error": result.error,
        "network": result.spec.network,
        "chain_id": result.spec.chain_id,
        "first": result.span.first,
        "last": result.span.last,
        "blocks": result.span.size,
        "requested": result.requested,
        "final": result.final,
        "stored": result.stored.spans,
        "fetched": result.fetched,
        "batches": result.batches,
        "rows": dict(result.rows),
        "gaps": result.gaps.spans,
        "unproven": result.unproven.spans,
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


def summary(result: FetchResult, *, allow_partial: bool = False) -> str:
    """What came of a fetch, in a few lines."""
    outcome = state(result, allow_partial=allow_partial)
    shown = outcome if result.interrupted else outcome.lower()
    line = f"{shown}: {result.spec.network} {_heights(result.span)}"
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


def failure(result: FetchResult, *, allow_partial: bool = False) -> str | None:
    """What is not as it was asked for, and why if that is known; None if all is."""
    parts = []
    if result.gaps:
        parts.append(f"{counted(len(result.gaps), 'block')} missing: {_spans(result.gaps)}")
    if result.unproven:
        count = counted(len(result.unproven), "block")
        parts.append(f"{count} stored, but not proven as asked: {_spans(result.unproven)}")
    if not parts and result.state is State.SUCCEEDED:
        if result.not_final is None or allow_partial:
            return None
        return _not_final_text(result.not_final)
    reason = f" ({plain(result.error)})" if result.error else ""
    return ("; ".join(parts) or f"the backfill is {result.state}") + reason


def _spans(heights: RangeSet) -> str:
    return spans_text(heights.spans)


def remedy(result: FetchResult, command: str) -> str:
    """What to do about a fetch that has not brought all that was asked for."""
    if result.interrupted:
        return f"resume with `{command}`"
    if result.gaps or result.unproven or result.state is not State.SUCCEEDED:
        if (result.error or "").startswith(SinkError.__name__):
            return f"check the disk and the sink, then `{command}` tries again"
        return f"`{command}` tries again; one more `--rpc` gives a second opinion"
    return IF_NOT_FINAL


def query(target: str, span: Span) -> str:
    """A command that shows what was stored."""
    words = "SELECT block_number, block_time, transaction_count, hash FROM"
    where = f"WHERE block_number >= {span.first} LIMIT 5"
    statement = f"{words} blocks_hex {where}"
    kind, path = kind_of(target)
    if kind == "postgresql":
        schema = split(target, ["schema"])[1].get("schema", "public")
        statement = f"{words} {quoted(schema)}.blocks_hex {where}"
        return f"psql {shlex.quote(redacted(target))} -c {_quoted(statement)}"
    if kind == "parquet":
        statement = f"FROM '{path}/**/blocks/*.parquet' ORDER BY block_number LIMIT 5"
        return f"duckdb -c {_quoted(statement)}"
    if kind == "duckdb":
        return f"duckdb -readonly {shlex.quote(str(path))} {_quoted(statement)}"
    return f"sqlite3 -header -column {shlex.quote(str(path))} {_quoted(statement)}"


def _quoted(statement: str) -> str:
    """A statement as one word of a shell, readable where that is safe."""
    return shlex.quote(statement) if set(statement) & set('"$`!\\') else f'"{statement}"'
