"""A child process of a command: it claims chunks from the same ledger, as any worker does.

    python -m gapless.blocks.child

Its task comes on stdin, and with it the secrets that no command line may show. News from the other
processes may follow. It works until its task is done, or until stdin ends, because the command
wants it to stop or was killed; so a killed command leaves no process behind. On stdout it reports
what it has done, a line several times a second; on stderr it logs. It ignores signals: those are
for the command.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import msgspec

from gapless.blocks import job as blocks
from gapless.blocks.block_pipeline import open_pipeline
from gapless.blocks.child_protocol import ChildTask, FetchTask, News, Report, WorkTask
from gapless.blocks.counts import Counts
from gapless.blocks.spec import BlocksSpec
from gapless.core.errors import GaplessError
from gapless.providers import Providers
from gapless.runtime import process_control
from gapless.runtime.engine import Engine
from gapless.runtime.signals import ENDING, protect_children
from gapless.runtime.watching import work
from gapless.runtime.worker import WorkerOptions
from gapless.telemetry import metrics
from gapless.telemetry.lines import log_to_stderr

REPORT_EVERY = 0.2


Say = Callable[[Report], None]


async def carry_out(
    task: ChildTask, providers: Providers, stopped: asyncio.Event, say: Say
) -> None:
    """Carries out a task until it is done, or until it is told to stop."""
    async with providers:
        if isinstance(task, FetchTask):
            await _fetch(task, providers, stopped, say)
        else:
            await _work(task, providers, stopped, say)


async def _fetch(task: FetchTask, providers: Providers, stopped: asyncio.Event, say: Say) -> None:
    log_to_stderr(logging.WARNING, as_json=task.as_json)
    spec = msgspec.convert(task.spec, BlocksSpec)
    options = WorkerOptions(only=task.backfill)
    async with (
        Engine(task.ledger, slots=task.slots, options=options, config=task.config) as engine,
        open_pipeline(
            spec, task.config, engine.ledger, providers, max_calls=task.max_calls
        ) as pipeline,
        _reporting(lambda: say(_report(engine, providers, pipeline.counts))),
    ):
        await engine.attach(blocks.job(pipeline), task.backfill)
        used_up = asyncio.create_task(pipeline.used_up.wait())
        used_up.add_done_callback(lambda _: stopped.set())
        await work(engine, stopped, until_idle=False)
        used_up.cancel()
        await engine.drain()


async def _work(task: WorkTask, providers: Providers, stopped: asyncio.Event, say: Say) -> None:
    process_control.import_from_here()
    log_to_stderr(logging.INFO, as_json=task.as_json, verbose=task.verbose)
    options = WorkerOptions(poll_seconds=task.poll, drain_seconds=task.drain)
    engine = Engine(
        task.ledger,
        slots=task.slots,
        importing=True,
        options=options,
        shared={blocks.PROVIDERS: providers},
        config=task.config,
    )
    async with engine, _reporting(lambda: say(_report(engine, providers))):
        await work(engine, stopped, until_idle=False)
        process_control.Departure().after(task.drain)
        await engine.drain()
    process_control.leave_if_stuck(engine)


def _report(engine: Engine, providers: Providers, counts: Counts | None = None) -> Report:
    ended = dict(engine.worker.ended) if engine.worker is not None else {}
    return Report(counts or Counts(), ended, metrics.snapshot(), providers.rests())


@asynccontextmanager
async def _reporting(report: Callable[[], None]) -> AsyncIterator[None]:
    async def repeat() -> None:
        while True:
            await asyncio.sleep(REPORT_EVERY)
            report()

    reports = asyncio.create_task(repeat())
    try:
        yield
    finally:
        reports.cancel()
        report()


async def _main() -> None:
    protect_children()
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)
    reader = asyncio.StreamReader(limit=1 << 24)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    task = msgspec.json.decode(await reader.readline(), type=ChildTask)
    stopped = asyncio.Event()
    providers = Providers(_workers(task), share=task.share)

    async def listen() -> None:
        while line := await reader.readline():
            providers.rest(msgspec.json.decode(line, type=News).rests)
        stopped.set()

    listening = asyncio.create_task(listen())
    with process_control.stdout_kept_for_data() as stdout:

        def say(report: Report) -> None:
            with suppress(BrokenPipeError):  # the command is gone; stdin says so too
                stdout.write(msgspec.json.encode(report).decode() + "\n")

        await carry_out(task, providers, stopped, say)
    listening.cancel()


def _workers(task: ChildTask) -> int:
    return task.workers if isinstance(task, FetchTask) else task.config.fetch.workers


def main() -> None:
    try:
        asyncio.run(_main())
    except GaplessError as error:
        sys.exit(f"error: {error}; {error.hint}" if error.hint else f"error: {error}")


if __name__ == "__main__":
    main()
