"""`gapless fetch`: blocks of a network into a sink, in the foreground or left to workers."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import click
import msgspec

from gapless.blocks.block_pipeline import Plane, keep_profiles
from gapless.blocks.finish_job import finished_by_workers
from gapless.blocks.plan import Wish
from gapless.blocks.request import FetchOptions, wish_for
from gapless.blocks.session import Fetching, FetchResult, open_fetch, start
from gapless.chains import Level
from gapless.cli import foreground, render, render_fetch, speech
from gapless.cli.app import INTERRUPTED
from gapless.cli.crew import Crew
from gapless.cli.display import ProgressDisplay
from gapless.cli.errands import FetchErrand
from gapless.cli.logs import log_to_nobody, log_to_stderr
from gapless.cli.metrics import MetricsPage, metrics_option, metrics_page
from gapless.cli.options import (
    anchor_option,
    commands,
    common,
    complain,
    hint,
    note,
    opened,
    processes_option,
    warn,
)
from gapless.cli.output import print_json
from gapless.cli.progress import FetchLine
from gapless.cli.suggestions import same_command
from gapless.cli.work import by_process
from gapless.config import Config, load
from gapless.core.chunk import Order
from gapless.core.errors import UsageError
from gapless.core.ranges import Span
from gapless.core.retry import RetryKind
from gapless.ledger.records import BackfillRequest
from gapless.providers import Share
from gapless.runtime.engine import Engine
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
@click.option("--datasets", metavar="D,D,…", help="Tables: blocks,transactions,logs,withdrawals.")
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
    wish, places = wish_for(
        load(), network, blocks, rpcs, target, wanted, processes, detached=detach
    )
    if detach and not places.shared:
        raise UsageError(
            "`--detach` needs endpoints and a sink that workers can look up by name",
            hint="name them in `gapless.toml`, or give `env:VARIABLE`; URLs are never stored",
        )
    max_calls = max_requests and max_requests // processes
    opening = opened_fetch(wish, places.config, ledger_url, max_calls=max_calls, create=not dry_run)
    serving = metrics_page(metrics_port, works=not (dry_run or detach))
    async with serving as page, opening as fetch:
        if not quiet or dry_run:
            note(render_fetch.where(fetch))
            note(render_fetch.plan(fetch))
        for unchecked in render_fetch.unchecked_anchors(fetch):
            warn(unchecked)
        if dry_run:
            return _dry_run(fetch, as_json=as_json)
        if detach and fetch.missing:
            return await _leave_to_workers(fetch, as_json=as_json, allow_partial=allow_partial)
        run = Run(fetch, places.config, max_calls, quiet=quiet)
        result = await (run(page, as_json=as_json) if fetch.missing else fetch.result())
    shown = fetch_view(result, ledger_url, allow_partial=allow_partial)
    if as_json:
        print_json(shown)
    note(render_fetch.summary(shown))
    if not quiet and shown.id is not None:
        note(f"ledger: {shown.ledger}")
    return _conclude(shown, places.config.sink(wish.sink), quiet=quiet)


@asynccontextmanager
async def opened_fetch(
    wish: Wish,
    config: Config,
    ledger_url: str,
    *,
    max_calls: int | None = None,
    create: bool = True,
) -> AsyncIterator[Fetching]:
    """An open fetch; names the endpoints that cannot be used."""
    log_to_nobody()
    async with open_fetch(wish, config, ledger_url, max_calls=max_calls, create=create) as fetch:
        for absent in fetch.absent:
            warn(f"{absent}. {absent.hint}" if absent.hint else f"{absent}")
        yield fetch


def _dry_run(fetch: Fetching, *, as_json: bool) -> int:
    if as_json:
        print_json(fetch_plan_view(fetch))
    return 0


async def _leave_to_workers(fetch: Fetching, *, as_json: bool, allow_partial: bool) -> int:
    async with opened(fetch.ledger_url, create=True) as ledger:
        found = await fetch.wanted(ledger)
        if isinstance(found, BackfillRequest):
            found = await ledger.create(finished_by_workers(found))
    shown = backfill_view(found)
    if as_json:
        print_json(shown)
    else:
        click.echo(shown.id)
    hint(render.worker_needed(shown, commands()))
    if allow_partial or not (left_out := render_fetch.left_out(fetch)):
        return 0
    complain(left_out, render_fetch.IF_NOT_FINAL)
    return 1


@dataclass(frozen=True)
class Run:
    """A fetch that runs in this process and in its helpers."""

    fetch: Fetching
    config: Config
    max_calls: int | None  # of each process
    quiet: bool = False

    async def __call__(self, page: MetricsPage, *, as_json: bool) -> FetchResult:
        """Runs it to its end, or until someone interrupts it."""
        began = time.monotonic()
        fetch = self.fetch
        with fetch.plane() as plane:
            engine, wanted = await fetch.engine()
            line = FetchLine(fetch, plane)
            with (
                ProgressDisplay(line, quiet=self.quiet) as display,
                foreground.stdout_kept_for_data() as stdout,
            ):
                level = logging.ERROR if self.quiet else logging.WARNING
                log_to_stderr(level, as_json=speech.wants_json(), say=display.write_line)
                async with foreground.working(engine, page) as interrupted:
                    handle = await start(engine, plane, wanted)
                    if not as_json:
                        click.echo(handle.id, file=stdout)
                    enough = asyncio.create_task(_stop_when_used_up(plane, interrupted, display))
                    async with self._crew(engine, handle.id, display) as crew:
                        line.crew = crew
                        leaving = asyncio.create_task(_dismiss_when(interrupted, crew))
                        await foreground.run_to_the_end(engine, handle, display, interrupted)
                    leaving.cancel()
                    enough.cancel()
                    assert engine.worker is not None
                    works = crew.works(engine.worker.ended)
                    for text in by_process(works, time.monotonic() - began):
                        display.say(text)
                    ended = await handle.progress()
                    await keep_profiles(engine.ledger, fetch.spec.network, fetch.pool)
            return await fetch.result(line.counts, ended, time.monotonic() - began)

    def _crew(self, engine: Engine, backfill_id: str, display: ProgressDisplay) -> Crew:
        """The other processes; each has the same share of everything as this one."""
        assert engine.worker is not None
        fetch = self.fetch
        errands = [
            FetchErrand(
                ledger=fetch.ledger_url,
                backfill=backfill_id,
                slots=dict(engine.worker.slots),
                spec=msgspec.to_builtins(fetch.spec),
                config=self.config,
                workers=fetch.wish.numbers.workers,
                share=share,
                max_calls=self.max_calls,
                as_json=speech.wants_json(),
            )
            for share in Share(0, fetch.wish.processes).others()
        ]
        return Crew(errands, display.say, engine.free_dead, fetch.providers)


async def _stop_when_used_up(
    plane: Plane, interrupted: asyncio.Event, display: ProgressDisplay
) -> None:
    await plane.used_up.wait()
    display.say("stopping: all calls allowed by `--max-requests` are used")
    interrupted.set()


async def _dismiss_when(interrupted: asyncio.Event, crew: Crew) -> None:
    """Lets all processes stop at the same time."""
    await interrupted.wait()
    crew.dismiss()


def _conclude(fetch: FetchView, target: str, *, quiet: bool) -> int:
    """Says what to do next; the exit code says the same."""
    remedy = render_fetch.remedy(fetch, same_command())
    if fetch.interrupted:
        hint(remedy)
        return INTERRUPTED
    if failure := render_fetch.failure(fetch):
        complain(failure, remedy)
        return 1
    if not quiet:
        note(f"\ntry: {render_fetch.query(target, Span(fetch.first, fetch.last))}")
    return 0
