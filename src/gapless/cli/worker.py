"""`gapless worker`: run the backfills of a ledger."""

from __future__ import annotations

import logging
import time

import click

from gapless.blocks.child_protocol import WorkTask
from gapless.blocks.job import PROVIDERS
from gapless.blocks.processes import ChildProcesses
from gapless.cli import work
from gapless.cli.metrics import metrics_option, metrics_page
from gapless.cli.options import Duration, common, note, processes_option, warn
from gapless.cli.output import print_json
from gapless.config import load
from gapless.following.service import following
from gapless.providers import Providers, Share
from gapless.publishers.service import publishing
from gapless.runtime import process_control
from gapless.runtime.engine import Engine
from gapless.runtime.signals import INTERRUPTED
from gapless.runtime.slots import parse_slots
from gapless.runtime.supervisor import supervised
from gapless.runtime.watching import work as work_until
from gapless.runtime.work import Work
from gapless.runtime.worker import WorkerOptions
from gapless.telemetry.lines import log_to_stderr
from gapless.views.worker import worker_view


@click.command()
@click.option(
    "--slots",
    metavar="QUEUE=N,…",
    show_default="default=4",
    help="Concurrent chunks by queue; every slot prefers the queue `priority`.",
)
@click.option("--until-idle", is_flag=True, help="Stop when there is nothing left to run.")
@click.option(
    "--poll",
    type=Duration(at_least=0.01),
    default="1s",
    show_default=True,
    help="Longest time between two looks for work.",
)
@click.option(
    "--drain",
    type=Duration(),
    default="30s",
    show_default=True,
    help="Time for running chunks to finish after SIGTERM or Ctrl-C.",
)
@processes_option
@click.option("-v", "--verbose", is_flag=True, help="Log every completed chunk.")
@metrics_option
@common
async def worker(
    ledger_url: str,
    as_json: bool,
    slots: str | None,
    until_idle: bool,
    poll: float,
    drain: float,
    processes: int,
    verbose: bool,
    metrics_port: int | None,
) -> int:
    """Run the backfills of a ledger.

    Jobs are imported when a backfill needs them, from the current folder or the environment. On
    SIGTERM or Ctrl-C the worker lets running chunks finish, and gives back those that do not.

    The log goes to stderr. With --json it is JSON, and a summary is printed to stdout at the end.
    Under systemd the worker reports when it is ready, what it is doing, and that it is alive.
    """
    config = load()
    parsed = parse_slots(config.slots if slots is None else slots)
    share = Share(0, processes)
    tasks = [
        WorkTask(ledger_url, parsed, config, poll, drain, as_json, verbose, each)
        for each in share.others()
    ]
    providers = Providers(config.fetch.workers, share=share)
    engine = Engine(
        ledger_url,
        slots=parsed,
        importing=True,
        options=WorkerOptions(poll_seconds=poll, drain_seconds=drain),
        shared={PROVIDERS: providers},
        config=config,
    )
    process_control.import_from_here()
    began = time.monotonic()
    with process_control.stdout_kept_for_data():
        log_to_stderr(logging.INFO, as_json=as_json, verbose=verbose)
        async with (
            metrics_page(metrics_port) as page,
            providers,
            process_control.working(engine) as stopped,
            ChildProcesses(tasks, note, warn, engine.free_dead, providers) as children,
            supervised(engine) as supervisor,
            following(engine) as followers,
            publishing(config) as publishers,
        ):
            with page.of(engine):
                await work_until(engine, stopped, until_idle=until_idle)
            supervisor.stopping()
            followers.stop()
            publishers.stop()
            children.dismiss()
            await engine.drain()
    _conclude(engine, children, time.monotonic() - began, as_json=as_json)
    assert engine.worker is not None
    code = INTERRUPTED if engine.worker.left_behind else 0
    process_control.leave_if_stuck(engine, code)
    return code


def _conclude(engine: Engine, children: ChildProcesses, seconds: float, *, as_json: bool) -> None:
    """Says what all processes have done."""
    assert engine.worker is not None
    ended, works = engine.worker.ended + children.ended, children.works(engine.worker.ended)
    done = Work.total(works)
    shown = worker_view(ended, done.partitions, done.blocks, done.batches, seconds)
    if as_json:
        print_json(shown)
        return
    for line in (*work.by_process(works, seconds), work.summary(shown)):
        note(line)
