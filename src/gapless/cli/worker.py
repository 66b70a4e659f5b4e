"""`gapless worker`: run chunks of whatever the ledger has."""

from __future__ import annotations

import asyncio
import logging

import click

from gapless.cli import foreground, render
from gapless.cli.options import Duration, common
from gapless.runtime.engine import Engine
from gapless.runtime.slots import parse_slots
from gapless.runtime.worker import WorkerOptions


@click.command()
@click.option("--slots", default="default=4", show_default=True, metavar="QUEUE=N,…")
@click.option("--until-idle", is_flag=True, help="Stop when no backfill is left to run.")
@click.option("--poll", type=Duration(), default=1.0, show_default=True, help="Look this often.")
@click.option(
    "--drain", type=Duration(), default=30.0, show_default=True, help="Time to finish on SIGTERM."
)
@click.option("-v", "--verbose", is_flag=True, help="Log every completed chunk.")
@common
async def worker(
    ledger_url: str,
    as_json: bool,
    slots: str,
    until_idle: bool,
    poll: float,
    drain: float,
    verbose: bool,
) -> int:
    """Run chunks until SIGTERM, which finishes or gives back what runs.

    Jobs are imported as backfills ask for them, from the current folder or the environment.
    """
    foreground.log_to_stderr(logging.DEBUG if verbose else logging.INFO)
    foreground.import_from_here()
    engine = Engine(
        ledger_url,
        slots=parse_slots(slots),
        importing=True,
        options=WorkerOptions(poll_seconds=poll, drain_seconds=drain),
    )
    stopped = asyncio.Event()
    async with engine:
        with foreground.on_signals(stopped.set):
            while not stopped.is_set():
                await engine.something_settled()
                if until_idle and await engine.is_idle():
                    break
            await engine.drain()
        counts = engine.worker.ended if engine.worker else {}
    if as_json:
        click.echo(render.to_json(counts))
    foreground.leave_if_stuck(engine)
    return 0
