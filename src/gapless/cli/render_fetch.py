"""The text of `gapless fetch`: the chain, the plan, the summary. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from gapless.blocks.session import FetchSession
from gapless.core.backfill import State
from gapless.core.errors import SinkError
from gapless.core.heights import Tag
from gapless.core.ranges import RangeSet, Span
from gapless.core.text import plain
from gapless.ledger import redacted
from gapless.postgres.url import split
from gapless.schema import Table
from gapless.schema.ddl import quoted
from gapless.sinks.location import kind_of
from gapless.views.fetch import PARTIAL, CallBudget, EndpointView, FetchView, budget_of
from gapless.views.figures import counted, cut, duration, short, spans_text, time_text

_TROUBLE = 60  # characters
IF_NOT_FINAL = "run it again later, or give `--allow-partial` to accept the final blocks alone"


def where(fetch: FetchSession) -> str:
    """The chain, and which of the requested blocks are final."""
    request, tip = fetch.request, fetch.tip
    rule = "by depth: the node reports none" if tip.by_depth else "reported by the node"
    if request.confirmations is not None:
        rule = counted(request.confirmations, "confirmation")
    chain = f"{request.network.name} (chain {fetch.spec.chain_id})"
    text = f"{chain}: head {tip.head:,}, finalized block {tip.final:,} ({rule})"
    if request.heights.last is Tag.FINALIZED:
        text += f"\n`finalized` is block {fetch.span.last:,}"
    elif request.heights.last is Tag.LATEST:
        text += f"\n`latest` is block {tip.head:,}; blocks up to {fetch.span.last:,} are final"
    elif left_out_text := left_out(fetch):
        text += f"\n{left_out_text}"
    for name in request.endpoints:
        if name.startswith("env:"):
            variable = name.removeprefix("env:")
            text += f"\nusing the endpoint in the environment variable `{variable}`"
    return text


def unchecked_anchors(fetch: FetchSession) -> list[str]:
    """The anchors given by a person that no block of the range is compared with."""
    found = []
    for height in fetch.unchecked_anchors:
        if height > fetch.tip.final:
            why = f"it is above the latest final block, {fetch.tip.final:,}"
        else:
            why = "it is outside the range, so only the endpoints are compared with it"
        found.append(f"the anchor at {height:,} is not checked: {why}")
    return found


def left_out(fetch: FetchSession) -> str | None:
    """The requested blocks that are not fetched because they are not final yet."""
    if fetch.requested.last <= fetch.span.last:
        return None
    return _not_final_text(Span(fetch.tip.final + 1, fetch.requested.last))


def _not_final_text(span: Span) -> str:
    blocks = f"block {span.first:,} is" if span.size == 1 else f"blocks {_heights(span)} are"
    return f"{blocks} not final yet and {'is' if span.size == 1 else 'are'} left out"


def _heights(span: Span) -> str:
    return f"{span.first:,} to {span.last:,}"


def plan(fetch: FetchSession) -> str:
    """What is going to be done, and how many calls it takes."""
    spec, span, missing = fetch.spec, fetch.span, fetch.missing
    text = f"blocks {span.first:,} to {span.last:,} ({counted(span.size, 'block')})"
    text += f": {', '.join(spec.datasets)} to {spec.sink}, verification `{spec.verify}`"
    if not missing:
        return f"{text}\nnothing to fetch: all of them are stored"
    if len(missing) < span.size:
        text += f"\nalready stored: {counted(span.size - len(missing), 'block')}"
    if damaged := fetch.held.damaged & missing:
        text += f"\ndamaged, to fetch again: {counted(len(damaged), 'block')}"
    weak = RangeSet() if spec.refetch else fetch.held.weak & missing
    if weak:
        text += f"\nto prove again from stored rows: {counted(len(weak), 'block')}"
    derivable = RangeSet() if spec.refetch else fetch.held.derivable & missing
    if derivable:
        names = ", ".join(table.name for table in spec.derived)
        text += f"\nto derive from stored rows: {names} of {counted(len(derivable), 'block')}"
    if left := len(missing) - len(weak) - len(derivable):
        prices = spec.family.calls(left, spec.datasets)
        calls = ", ".join(f"{count:,} {name}" for name, count in prices.items())
        text += f"\nto fetch: {counted(left, 'block')}, at least {calls}"
        text += _budget_text(budget_of(fetch), sum(prices.values()))
    return text


def _budget_text(budget: CallBudget, calls: int) -> str:
    """How long so many calls take at least, as far as rates and quotas are configured."""
    seconds, days, text = budget.seconds(calls), budget.days(calls), ""
    if seconds is not None and budget.per_second is not None:
        rate = f"{short(budget.per_second)} calls/s"
        text += f"\nat {rate}: {counted(calls, 'call')} take at least {duration(seconds)}"
    if days is not None and budget.per_day is not None:
        quota = f"{budget.per_day:,} calls a day"
        text += f"\nwith {quota}: {counted(calls, 'call')} take at least {days:,.1f} days"
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
    """What differs from the request, and why if that is known; None if nothing does."""
    parts = []
    if fetch.gaps:
        count = counted(len(RangeSet(fetch.gaps)), "block")
        parts.append(f"{count} missing: {spans_text(fetch.gaps)}")
    if fetch.unproven:
        count = counted(len(RangeSet(fetch.unproven)), "block")
        parts.append(f"{count} stored but not proven as requested: {spans_text(fetch.unproven)}")
    if not parts:
        if fetch.state == State.SUCCEEDED:
            return None
        if fetch.state == PARTIAL and fetch.not_final is not None:
            return _not_final_text(fetch.not_final)
    reason = f" ({plain(fetch.error)})" if fetch.error else ""
    return ("; ".join(parts) or f"the backfill is {fetch.state}") + reason


def remedy(fetch: FetchView, command: str) -> str:
    """What to do about a fetch that has not stored everything that was requested."""
    if fetch.interrupted:
        return f"resume with `{command}`"
    if fetch.gaps or fetch.unproven or fetch.state not in (State.SUCCEEDED, PARTIAL):
        if (fetch.error or "").startswith(SinkError.__name__):
            return f"check the disk and the sink, then run `{command}` to retry"
        return f"run `{command}` to retry; one more `--rpc` gives a second opinion"
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
