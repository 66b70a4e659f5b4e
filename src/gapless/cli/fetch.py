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

from gapless.checks.levels import Level
from gapless.cli import data, fetching, foreground, render
from gapless.cli.crew import Crew
from gapless.cli.display import Pace, ProgressDisplay
from gapless.cli.errands import FetchErrand
from gapless.cli.logs import log_to_nobody, log_to_stderr
from gapless.cli.metrics import MetricsPage, metrics_option, metrics_page
from gapless.cli.options import anchor_option, common, hint, note, opened, processes_option
from gapless.cli.work import by_process
from gapless.config import Config, load
from gapless.core.backfill import State
from gapless.core.chunk import Order
from gapless.core.errors import UsageError
from gapless.core.retry import RetryKind
from gapless.ledger import redacted
from gapless.ledger.records import Backfill, BackfillRequest
from gapless.runtime.counts import Counts
from gapless.runtime.engine import Engine
from gapless.runtime.fetch import Wish, calls_for
from gapless.runtime.fetching import (
    Fetching,
    FetchResult,
    open_fetch,
    start,
)
from gapless.runtime.finishing import finished_by_workers
from gapless.runtime.plane import Plane, keep_profiles
from gapless.runtime.wishes import FetchOptions, wish_for
from gapless.sources.rpc import Share

_LEVELS = [level.value for level in Level]
_POLICIES = [kind.value for kind in RetryKind]
_ORDERS = [order.value for order in Order]


@click.command()
@click.argument("network")
@click.argument("blocks", required=False, metavar="[A:B]")
@click.option("--rpc", "rpcs", multiple=True, metavar="URL", help="A node; repeat it for failover.")
@click.option(
    "--to", "target", metavar="PATH", help="SQLite `x.db`, DuckDB `x.duckdb`, Parquet `x/`."
)
@click.option("--datasets", metavar="D,D,…", help="Of blocks,transactions,logs,withdrawals.")
@click.option("--workers", type=int, help="Requests in flight, to each node.  [default: 8]")
@click.option("--batch-size", type=int, help="Blocks in a write.  [default: 100]")
@click.option("--chunk-size", type=int, help="Blocks in a chunk.  [default: 1000]")
@click.option("--max-concurrent", type=int, help="Chunks at once.  [default: 4]")
@click.option("--verify", type=click.Choice(_LEVELS), help="How much to prove.  [default: auto]")
@anchor_option
@click.option("--refetch", is_flag=True, help="Fetch and replace what is stored already.")
@click.option("--retry", type=click.Choice(_POLICIES), help="What a failed chunk means.")
@click.option("--rps", type=click.FloatRange(0, min_open=True), help="Calls a second, to each.")
@click.option("--confirmations", type=click.IntRange(0), help="Final is so far below the head.")
@click.option("--max-requests", type=click.IntRange(1), help="Stop after so many calls.")
@click.option("--order", type=click.Choice(_ORDERS), help="Which end to begin at.")
@processes_option
@click.option("--dry-run", is_flag=True, help="Only say what would be done, and its price.")
@click.option("--detach", is_flag=True, help="Only create the backfill; workers run it.")
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
    processes: int,
    dry_run: bool,
    detach: bool,
    metrics_port: int | None,
    **options: Any,
) -> int:
    """Fetch blocks of a network, prove them, store them.

    From A to B, both included, written as `18M:18.005M`, `18000000:+5000`, `18M:latest`,
    `:finalized` or `2024-01-01:2024-01-31`, in UTC. The same command again goes on where it was, or
    finds that nothing is left to do.

    A node or a sink may also be named as in gapless.toml, or as `env:VARIABLE`. URLs hold keys:
    they are never stored or shown.
    """
    processes = min(processes, max_requests or processes)  # each asks at least once
    wanted = FetchOptions(**options)  # type: ignore[typeddict-item]
    wish, places = wish_for(load(), network, blocks, rpcs, target, wanted, processes)
    if detach and not places.shared:
        raise UsageError(
            "`--detach` needs endpoints and a sink that workers know by name",
            hint="name them in `gapless.toml`, or give `env:VARIABLE`: URLs are never stored",
        )
    max_calls = max_requests and max_requests // processes
    opening = opened_fetch(wish, places.config, ledger_url, max_calls=max_calls, create=not dry_run)
    serving = metrics_page(metrics_port, works=not (dry_run or detach))
    async with serving as page, opening as fetch:
        note(fetching.where(fetch))
        note(fetching.plan(fetch))
        if dry_run:
            return _dry_run(fetch, as_json=as_json)
        if detach and fetch.missing:
            return await _leave_to_workers(fetch, as_json=as_json)
        run = Run(fetch, places.config, max_calls)
        result = await (run(page, as_json=as_json) if fetch.missing else fetch.result())
    if as_json:
        click.echo(data.to_json(fetching.result_json(result, ledger_url)))
    note(fetching.summary(result))
    return _conclude(result, ledger_url, places.config.sink(wish.sink))


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
            note(f"warning: {absent}. {absent.hint}" if absent.hint else f"warning: {absent}")
        yield fetch


def _dry_run(fetch: Fetching, *, as_json: bool) -> int:
    if as_json:
        weak = len(fetch.held.weak & fetch.missing)
        count = len(fetch.missing) - weak
        found = {"first": fetch.span.first, "last": fetch.span.last, "missing": count}
        found |= {"to_prove_again": weak}
        click.echo(data.to_json({**found, "calls": calls_for(count, fetch.spec)}))
    return 0


async def _leave_to_workers(fetch: Fetching, *, as_json: bool) -> int:
    async with opened(fetch.ledger_url, create=True) as ledger:
        found = await fetch.wanted(ledger)
        if isinstance(found, BackfillRequest):
            found = await ledger.create(finished_by_workers(found))
    click.echo(data.to_json(data.backfill_json(found)) if as_json else found.id)
    hint(render.worker_needed(found))
    return 0


@dataclass(frozen=True)
class Run:
    """A fetch that runs here, and in as many helpers as are wished for."""

    fetch: Fetching
    config: Config
    max_calls: int | None  # of each process

    async def __call__(self, page: MetricsPage, *, as_json: bool) -> FetchResult:
        """Runs it to its end, or until someone interrupts it."""
        began = time.monotonic()
        fetch = self.fetch
        with fetch.plane() as plane:
            engine, wanted = await fetch.engine()
            line = FetchLine(fetch, plane)
            with ProgressDisplay(line) as display, foreground.stdout_kept_for_data() as stdout:
                log_to_stderr(logging.WARNING, say=display.say)
                async with foreground.working(engine, page) as interrupted:
                    handle = await start(engine, plane, wanted)
                    if not as_json:
                        click.echo(handle.id, file=stdout)
                    enough = asyncio.create_task(_stop_when_used_up(plane, interrupted, display))
                    async with self._crew(engine, handle.id, display) as crew:
                        line.crew = crew
                        await foreground.run_to_the_end(engine, handle, display, interrupted)
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
            )
            for share in Share(0, fetch.wish.processes).others()
        ]
        return Crew(errands, display.say, engine.free_dead, fetch.providers)


async def _stop_when_used_up(
    plane: Plane, interrupted: asyncio.Event, display: ProgressDisplay
) -> None:
    await plane.used_up.wait()
    display.say("all calls that `--max-requests` allows are used up")
    interrupted.set()


def _conclude(result: FetchResult, ledger_url: str, target: str) -> int:
    """Says what to do next; the exit code says the same."""
    if result.id is not None:
        note(f"ledger: {redacted(ledger_url)}")
    if not result.state.ended:
        hint("the same command goes on where it was")
        return foreground.INTERRUPTED
    if result.gaps:
        note(f"error: {fetching.gaps_error(result)}")
        hint("the same command tries them again; one more `--rpc` gives a second opinion")
        return 1
    note(f"\ntry: {fetching.query(target, result.span)}")
    return 0 if result.state is State.SUCCEEDED else 1


class FetchLine:
    """The live line of a fetch: blocks and calls a second, not chunks."""

    def __init__(self, fetch: Fetching, plane: Plane) -> None:
        self._fetch, self._plane = fetch, plane
        self._blocks, self._calls = Pace(), Pace()
        self.crew: Crew | None = None

    @property
    def counts(self) -> Counts:
        """What all processes have done."""
        own = self._plane.counts
        return own if self.crew is None else own + self.crew.counts

    def __call__(self, backfill: Backfill, now: float, width: int) -> str:
        fetch, counts, total = self._fetch, self.counts, self._fetch.span.size
        standing = fetching.Standing(
            network=fetch.spec.network,
            total=total,
            done=min(total, total - len(fetch.missing) + counts.blocks + counts.reproven),
            blocks_per_second=self._blocks.after(now, counts.blocks),
            calls_per_second=self._calls.after(now, sum(counts.calls.values())),
            retries=counts.retries,
            refused=counts.refused,
            waiting=backfill.chunks.failed,
            endpoints=counts.endpoints,
        )
        return fetching.progress_line(standing, width)
