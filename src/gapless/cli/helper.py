"""A process that helps a command: it claims chunks from the same ledger, as any worker does.

    python -m gapless.cli.helper

Its pending comes on stdin, and with it the secrets that no command line may show. News from the
other processes may follow. It works until its pending is done, or until stdin ends: the command has
enough then, or is gone. So nothing is left behind by a command that was killed. On stdout it
reports what it has done, a line every moment; on stderr it logs. Signals are the command's
business.
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
from gapless.blocks.block_pipeline import open_plane
from gapless.blocks.counts import Counts
from gapless.blocks.spec import BlocksSpec
from gapless.cli import foreground
from gapless.cli.errands import FetchErrand, News, PendingAsk, Report, WorkErrand
from gapless.cli.logs import log_to_stderr
from gapless.cli.signals import ENDING, protect_children
from gapless.config import load
from gapless.core.errors import GaplessError
from gapless.providers import Providers
from gapless.runtime.engine import Engine
from gapless.runtime.worker import WorkerOptions
from gapless.telemetry import metrics

REPORT_EVERY = 0.2


Say = Callable[[Report], None]


async def help_out(
    pending: PendingAsk, providers: Providers, enough: asyncio.Event, say: Say
) -> None:
    """Does an pending until there is enough."""
    async with providers:
        if isinstance(pending, FetchErrand):
            await _fetch(pending, providers, enough, say)
        else:
            await _work(pending, providers, enough, say)


async def _fetch(
    pending: FetchErrand, providers: Providers, enough: asyncio.Event, say: Say
) -> None:
    log_to_stderr(logging.WARNING, as_json=pending.as_json)
    spec = msgspec.convert(pending.spec, BlocksSpec)
    options = WorkerOptions(only=pending.backfill)
    async with (
        Engine(pending.ledger, slots=pending.slots, options=options) as engine,
        open_plane(
            spec, pending.config, engine.ledger, providers, max_calls=pending.max_calls
        ) as plane,
        _reporting(lambda: say(_report(engine, providers, plane.counts))),
    ):
        await engine.attach(blocks.job(plane), pending.backfill)
        used_up = asyncio.create_task(plane.used_up.wait())
        used_up.add_done_callback(lambda _: enough.set())
        await foreground.work(engine, enough, until_idle=False)
        used_up.cancel()
        await engine.drain()


async def _work(pending: WorkErrand, providers: Providers, enough: asyncio.Event, say: Say) -> None:
    foreground.import_from_here()
    log_to_stderr(logging.INFO, as_json=pending.as_json, verbose=pending.verbose)
    options = WorkerOptions(poll_seconds=pending.poll, drain_seconds=pending.drain)
    engine = Engine(
        pending.ledger,
        slots=pending.slots,
        importing=True,
        options=options,
        shared={blocks.PROVIDERS: providers},
    )
    async with engine, _reporting(lambda: say(_report(engine, providers))):
        await foreground.work(engine, enough, until_idle=False)
        foreground.Departure().after(pending.drain)
        await engine.drain()
    foreground.leave_if_stuck(engine)


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
    pending = msgspec.json.decode(await reader.readline(), type=PendingAsk)
    enough = asyncio.Event()
    providers = Providers(_workers(pending), share=pending.share)

    async def listen() -> None:
        while line := await reader.readline():
            providers.rest(msgspec.json.decode(line, type=News).rests)
        enough.set()

    listening = asyncio.create_task(listen())
    with foreground.stdout_kept_for_data() as stdout:

        def say(report: Report) -> None:
            with suppress(BrokenPipeError):  # the command is gone; stdin says so too
                stdout.write(msgspec.json.encode(report).decode() + "\n")

        await help_out(pending, providers, enough, say)
    listening.cancel()


def _workers(pending: PendingAsk) -> int:
    return pending.workers if isinstance(pending, FetchErrand) else load().fetch.workers


def main() -> None:
    try:
        asyncio.run(_main())
    except GaplessError as error:
        sys.exit(f"error: {error}; {error.hint}" if error.hint else f"error: {error}")


if __name__ == "__main__":
    main()
