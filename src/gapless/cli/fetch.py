"""`gapless fetch`: blocks of a network into a sink, in the foreground or left to workers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import click

from gapless.blocks.plan import FetchRequest
from gapless.blocks.request import FetchOptions, build_request
from gapless.blocks.running import run_fetch
from gapless.blocks.session import FetchSession, open_fetch
from gapless.chains import Level
from gapless.cli import render, render_fetch
from gapless.cli.fetch_observer import Foreground
from gapless.cli.metrics import metrics_option, metrics_page
from gapless.cli.options import (
    anchor_option,
    commands,
    common,
    complain,
    hint,
    note,
    processes_option,
    warn,
)
from gapless.cli.output import print_json
from gapless.cli.suggestions import same_command
from gapless.config import Config, load
from gapless.core.chunk import Order
from gapless.core.errors import UsageError
from gapless.core.retry import RetryKind
from gapless.runtime.signals import INTERRUPTED
from gapless.telemetry.lines import log_to_nobody
from gapless.views.backfills import backfill_view
from gapless.views.fetch import FetchView, fetch_plan_view, fetch_view

_LEVELS = [level.value for level in Level]
_POLICIES = [kind.value for kind in RetryKind]
_ORDERS = [order.value for order in Order]


@click.command()
@click.argument("network")
@click.argument("blocks", required=False, metavar="[A:B]")
@click.option(
    "--rpc", "rpcs", multiple=True, metavar="URL", help="Node to fetch from. Repeat for failover."
)
@click.option(
    "--to",
    "target",
    metavar="PATH",
    help="Sink: `x.db` (SQLite), `x.duckdb`, `x/` (Parquet) or a URL.",
)
@click.option(
    "--datasets",
    metavar="D,D,…",
    help="Tables: blocks,transactions,logs,withdrawals, and transfers if you list it.",
)
@click.option("--workers", type=int, help="Concurrent requests to each node.  [default: 8]")
@click.option("--batch-size", type=int, help="Blocks per write.  [default: 100]")
@click.option("--chunk-size", type=int, help="Blocks per chunk.  [default: 1000]")
@click.option("--max-concurrent", type=int, help="Concurrent chunks.  [default: 4]")
@click.option(
    "--verify", type=click.Choice(_LEVELS), help="Level of verification.  [default: auto]"
)
@anchor_option
@click.option("--refetch", is_flag=True, help="Fetch blocks again even if they are stored.")
@click.option("--retry", type=click.Choice(_POLICIES), help="Retry policy for failed chunks.")
@click.option(
    "--rps", type=click.FloatRange(0, min_open=True), help="Maximum calls per second to each node."
)
@click.option(
    "--confirmations",
    type=click.IntRange(0),
    metavar="N",
    help="Treat blocks at least N below the head as final.",
)
@click.option("--max-requests", type=click.IntRange(1), help="Stop after this many calls.")
@click.option("--order", type=click.Choice(_ORDERS), help="Which blocks to fetch first.")
@click.option(
    "--allow-partial",
    is_flag=True,
    help="Exit with 0 even if the end of the range is not final yet.",
)
@processes_option
@click.option("--dry-run", is_flag=True, help="Print the plan and the number of calls, then exit.")
@click.option("--detach", is_flag=True, help="Create the backfill and leave it to workers.")
@click.option("-q", "--quiet", is_flag=True, help="Print only errors and the summary.")
@metrics_option
@common
async def fetch(
    ledger_url: str,
    as_json: bool,
    network: str,
    blocks: str | None,
    rpcs: tuple[str, ...],
    target: str | None,
    max_requests: int | None,
    allow_partial: bool,
    processes: int,
    dry_run: bool,
    detach: bool,
    quiet: bool,
    metrics_port: int | None,
    **options: Any,
) -> int:
    """Fetch, verify and store blocks of a network.

    A:B is a range with both ends included, such as `18M:18.005M`, `18000000:+5000`, `18M:latest`,
    `:finalized` or `2024-01-01:2024-01-31` (UTC). Run the same command again to resume it. Blocks
    that are not final yet are left out, and the exit code is 1 unless --allow-partial is given.

    Ctrl-C or SIGTERM stores the blocks fetched so far and exits with 130. With --json, each line
    on stderr is a JSON object.

    Nodes and sinks can be given as URLs, as names from gapless.toml, or as `env:VARIABLE`. URLs may
    contain API keys, so they are never stored or shown.
    """
    processes = min(processes, max_requests or processes)  # each asks at least once
    wanted = FetchOptions(**options)  # type: ignore[typeddict-item]
    request, targets = build_request(
        load(), network, blocks, rpcs, target, wanted, processes, detached=detach
    )
    if detach and not targets.shared:
        raise UsageError(
            "`--detach` needs endpoints and a sink that workers can look up by name",
            hint="name them in `gapless.toml`, or give `env:VARIABLE`; URLs are never stored",
        )
    max_calls = max_requests and max_requests // processes
    opening = opened_fetch(
        request, targets.config, ledger_url, max_calls=max_calls, create=not dry_run
    )
    serving = metrics_page(metrics_port, works=not (dry_run or detach))
    async with serving as page, opening as session:
        if not quiet or dry_run:
            note(render_fetch.where(session))
            note(render_fetch.plan(session))
        for unchecked in render_fetch.unchecked_anchors(session):
            warn(unchecked)
        if dry_run:
            return _dry_run(session, as_json=as_json)
        if detach and session.missing:
            return await _leave_to_workers(session, as_json=as_json, allow_partial=allow_partial)
        result = await run_fetch(session, Foreground(page, quiet=quiet, prints_id=not as_json))
    shown = fetch_view(result, ledger_url, allow_partial=allow_partial)
    if as_json:
        print_json(shown)
    note(render_fetch.summary(shown))
    if not quiet and shown.id is not None:
        note(f"ledger: {shown.ledger}")
    query = render_fetch.query(targets.config.sink(request.sink), session.anchor, session.span)
    return _conclude(shown, query, quiet=quiet)


@asynccontextmanager
async def opened_fetch(
    request: FetchRequest,
    config: Config,
    ledger_url: str,
    *,
    max_calls: int | None = None,
    create: bool = True,
) -> AsyncIterator[FetchSession]:
    """An open fetch; names the endpoints that cannot be used."""
    log_to_nobody()
    opening = open_fetch(request, config, ledger_url, max_calls=max_calls, create=create)
    async with opening as session:
        for absent in session.absent:
            warn(f"{absent}. {absent.hint}" if absent.hint else f"{absent}")
        yield session


def _dry_run(session: FetchSession, *, as_json: bool) -> int:
    if as_json:
        print_json(fetch_plan_view(session))
    return 0


async def _leave_to_workers(session: FetchSession, *, as_json: bool, allow_partial: bool) -> int:
    shown = backfill_view(await session.leave_to_workers())
    if as_json:
        print_json(shown)
    else:
        click.echo(shown.id)
    hint(render.worker_needed(shown, commands()))
    if allow_partial or not (left_out := render_fetch.left_out(session)):
        return 0
    complain(left_out, render_fetch.IF_NOT_FINAL)
    return 1


def _conclude(fetch: FetchView, query: str, *, quiet: bool) -> int:
    """Says what to do next; the exit code says the same."""
    remedy = render_fetch.remedy(fetch, same_command())
    if fetch.interrupted:
        hint(remedy)
        return INTERRUPTED
    if failure := render_fetch.failure(fetch):
        complain(failure, remedy)
        return 1
    if not quiet:
        note(f"\ntry: {query}")
    return 0
