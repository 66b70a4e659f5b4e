"""What `gapless fetch` says: where it stands, its plan, its progress, what came of it. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from gapless.blocks.session import Fetching
from gapless.blocks.targets import usual_endpoints
from gapless.core.backfill import State
from gapless.core.errors import SinkError
from gapless.core.heights import Tag
from gapless.core.ranges import RangeSet, Span
from gapless.ledger import redacted
from gapless.postgres.url import split
from gapless.schema import Table
from gapless.schema.ddl import quoted
from gapless.sinks.location import kind_of
from gapless.views.fetch import PARTIAL, EndpointView, FetchView
from gapless.views.figures import counted, cut, duration, plain, short, spans_text, time_text

_TROUBLE = 60  # characters
IF_NOT_FINAL = "run it again later, or give `--allow-partial` if what is final is enough"


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
    if wish.endpoints == usual_endpoints(wish.network):
        text += f"\nendpoint `{wish.network.variable}`, from the environment"
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
        prices = spec.family.calls(left, spec.datasets)
        calls = ", ".join(f"{count:,} {name}" for name, count in prices.items())
        text += f"\nto fetch: {counted(left, 'block')}, at least {calls}"
    return text


def endpoint_troubles(endpoints: Iterable[EndpointView]) -> list[tuple[str, str]]:
    """The endpoints that are down, or whose answers failed the checks, and what is wrong."""
    found = []
    for each in endpoints:
        refused = f"{counted(each.refused, 'answer')} refused" if each.refused else ""
        trouble = "" if each.usable else cut(plain(each.trouble or ""), _TROUBLE)
        if said := ", ".join(filter(None, (trouble, refused))):
            found.append((each.name, said))
    return found


def summary(fetch: FetchView) -> str:
    """What came of a fetch, in a few lines."""
    shown = fetch.state if fetch.interrupted else fetch.state.lower()
    line = f"{shown}: {fetch.network} {_heights(Span(fetch.first, fetch.last))}"
    line += f", {counted(fetch.fetched, 'block')} fetched"
    if fetch.fetched:
        line += f" in {duration(fetch.seconds)}, {short(fetch.blocks_per_second)} blocks/s"
    rows = ", ".join(f"{count:,} {name}" for name, count in fetch.rows.items())
    calls = ", ".join(f"{count:,} {name}" for name, count in fetch.calls.items())
    lines = [line]
    if fetch.reproven:
        lines.append(f"proven again from stored rows: {counted(fetch.reproven, 'block')}")
    if fetch.fetched:
        times = f"from {time_text(fetch.started_at)} to {time_text(fetch.ended_at)}"
        lines.append(f"written: {counted(fetch.batches, 'batch', 'batches')} {times}")
    lines.append(f"stored: {rows or 'nothing'}")
    lines.append(f"calls: {calls}, in {counted(fetch.requests, 'request')}")
    if fetch.retries:
        lines[-1] += f"; {counted(fetch.retries, 'call')} sent again"
    if fetch.refused:
        lines[-1] += f"; {counted(fetch.refused, 'answer')} refused"
    for name, trouble in endpoint_troubles(fetch.endpoints):
        lines.append(f"endpoint {name}: {trouble}")
    if fetch.not_proven and fetch.rows:
        lines.append(f"not proven: {', '.join(fetch.not_proven)}")
    return "\n".join(lines)


def failure(fetch: FetchView) -> str | None:
    """What differs from what was asked for, and why if that is known; None if nothing does."""
    parts = []
    if fetch.gaps:
        count = counted(len(RangeSet(fetch.gaps)), "block")
        parts.append(f"{count} missing: {spans_text(fetch.gaps)}")
    if fetch.unproven:
        count = counted(len(RangeSet(fetch.unproven)), "block")
        parts.append(f"{count} stored, but not proven as asked: {spans_text(fetch.unproven)}")
    if not parts:
        if fetch.state == State.SUCCEEDED:
            return None
        if fetch.state == PARTIAL and fetch.not_final is not None:
            return _not_final_text(fetch.not_final)
    reason = f" ({plain(fetch.error)})" if fetch.error else ""
    return ("; ".join(parts) or f"the backfill is {fetch.state}") + reason


def remedy(fetch: FetchView, command: str) -> str:
    """What to do about a fetch that has not brought all that was asked for."""
    if fetch.interrupted:
        return f"resume with `{command}`"
    if fetch.gaps or fetch.unproven or fetch.state not in (State.SUCCEEDED, PARTIAL):
        if (fetch.error or "").startswith(SinkError.__name__):
            return f"check the disk and the sink, then `{command}` tries again"
        return f"`{command}` tries again; one more `--rpc` gives a second opinion"
    return IF_NOT_FINAL


def query(target: str, anchor: Table, span: Span) -> str:
    """A command that shows what was stored."""
    columns = ("block_number", "block_time", *[*anchor.counts.values()][:1], anchor.links.hash)
    words = f"SELECT {', '.join(columns)} FROM"
    where = f"WHERE block_number >= {span.first} LIMIT 5"
    statement = f"{words} {anchor.name}_hex {where}"
    kind, path = kind_of(target)
    if kind == "postgresql":
        schema = split(target, ["schema"])[1].get("schema", "public")
        statement = f"{words} {quoted(schema)}.{anchor.name}_hex {where}"
        return f"psql {shlex.quote(redacted(target))} -c {_quoted(statement)}"
    if kind == "parquet":
        statement = f"FROM '{path}/**/{anchor.name}/*.parquet' ORDER BY block_number LIMIT 5"
        return f"duckdb -c {_quoted(statement)}"
    if kind == "duckdb":
        return f"duckdb -readonly {shlex.quote(str(path))} {_quoted(statement)}"
    return f"sqlite3 -header -column {shlex.quote(str(path))} {_quoted(statement)}"


def _quoted(statement: str) -> str:
    """A statement as one word of a shell, readable where that is safe."""
    return shlex.quote(statement) if set(statement) & set('"$`!\\') else f'"{statement}"'
