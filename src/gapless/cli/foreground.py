"""Running a backfill of any job in the foreground, with its progress and its end."""

from __future__ import annotations

import logging
from contextlib import suppress

import click

from gapless.cli import render
from gapless.cli.display import ProgressDisplay
from gapless.cli.metrics import MetricsPage, metrics_page
from gapless.cli.options import commands, hint, note, opened
from gapless.cli.output import print_json
from gapless.cli.report import exit_code, report
from gapless.cli.watcher import DisplayWatcher
from gapless.core.errors import NotFound, WrongState
from gapless.ledger.records import Backfill, BackfillRequest
from gapless.runtime.engine import Engine
from gapless.runtime.job import Job
from gapless.runtime.process_control import leave_if_stuck, stdout_kept_for_data, working
from gapless.runtime.signals import INTERRUPTED
from gapless.runtime.watching import watch
from gapless.runtime.worker import WorkerOptions
from gapless.telemetry.lines import log_to_stderr
from gapless.views.backfills import backfill_view


async def run(
    ledger_url: str,
    job: Job,
    request: BackfillRequest,
    *,
    as_json: bool,
    metrics_port: int | None = None,
) -> int:
    """Creates a backfill or takes it up, runs it here to its end; returns the exit code."""
    async with metrics_page(metrics_port) as page:
        return await _run(ledger_url, job, request, page, as_json=as_json)


async def _run(
    ledger_url: str, job: Job, request: BackfillRequest, page: MetricsPage, *, as_json: bool
) -> int:
    wanted = await _there_already(ledger_url, job, request) or request
    engine = Engine(
        ledger_url,
        slots={wanted.queue: wanted.max_concurrent_runs},
        options=WorkerOptions(only=request.id),
    )
    with ProgressDisplay() as display, stdout_kept_for_data() as stdout, page.of(engine):
        log_to_stderr(logging.WARNING, as_json=as_json, say=display.write_line)
        async with working(engine) as interrupted:
            handle = await engine.submit(job, request)
            if wanted is not request:  # somebody asks again, and does not want to wait
                await engine.ledger.hasten(handle.id)
            if not as_json:
                click.echo(handle.id, file=stdout)
            display.say(render.plan(backfill_view(await handle.progress())))
            await watch(engine, handle, DisplayWatcher(display), interrupted)
            found = await handle.progress()
    if as_json:
        print_json(backfill_view(found))
    else:
        note(render.outcome(found))
    report(found, engine.ledger.url)
    shown = backfill_view(found)
    if not found.state.ended and render.next_step(shown, (), commands()) is None:
        hint(render.worker_needed(shown, commands()))
    code = exit_code(found) if found.state.ended else INTERRUPTED
    leave_if_stuck(engine, code)
    return code


async def _there_already(ledger_url: str, job: Job, request: BackfillRequest) -> Backfill | None:
    """The backfill of this id if it is there already: it keeps its own queue and numbers."""
    async with opened(ledger_url, create=True) as ledger:
        with suppress(NotFound):
            there = await ledger.backfill(request.id)
            if there.job == job.name and there.job_version != job.version:
                raise WrongState(
                    f"backfill `{there.id}` runs version {there.job_version} of `{job.name}`,"
                    f" but this is version {job.version}",
                    hint="give another id, or run it with that version of the job",
                )
            return there
    return None
