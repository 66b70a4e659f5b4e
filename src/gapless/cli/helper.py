"""A process that helps a command: it claims chunks from the same ledger, as any worker does.

    python -m gapless.cli.helper

Its errand comes on stdin, and with it the secrets that no command line may show. News from the
other processes may follow. It works until its errand is done, or until stdin ends: the command has
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

from gapless.cli import foreground
from gapless.cli.errands import Errand, FetchErrand, News, Report, WorkErrand
from gapless.cli.logs import log_to_stderr
from gapless.cli.signals import ENDING, protect_children
from gapless.config import load
from gapless.core.errors import GaplessError
from gapless.runtime import blocks
from gapless.runtime.blocks_spec import BlocksSpec
from gapless.runtime.counts import Counts
from gapless.runtime.engine import Engine
from gapless.runtime.plane import open_plane
from gapless.runtime.worker import WorkerOptions
from gapless.sources.rpc import Providers
from gapless.telemetry import metrics

REPORT_EVERY = 0.2


Say = Callable[[Report], None]


async def help_out(errand: Errand, providers: Providers, enough: asyncio.Event, say: Say) -> None:
    """Does an errand until there is enough."""
    async with providers:
        if isinstance(errand, FetchErrand):
            await _fetch(errand, providers, enough, say)
        else:
            await _work(errand, providers, enough, say)


async def _fetch(
    errand: FetchErrand, providers: Providers, enough: asyncio.Event, say: Say
) -> None:
    log_to_stderr(logging.WARNING, as_json=errand.as_json)
    spec = msgspec.convert(errand.spec, BlocksSpec)
    options = WorkerOptions(only=errand.backfill)
    async with (
        Engine(errand.ledger, slots=errand.slots, options=options) as engine,
        open_plane(
            spec, errand.config, engine.ledger, providers, max_calls=errand.max_calls
        ) as plane,
        _reporting(lambda: say(_report(engine, providers, plane.counts))),
    ):
        await engine.attach(blocks.job(plane), errand.backfill)
        used_up = asyncio.create_task(plane.used_up.wait())
        used_up.add_done_callback(lambda _: enough.set())
        await foreground.work(engine, enough, until_idle=False)
        used_up.cancel()
        await engine.drain()


async def _work(errand: WorkErrand, providers: Providers, enough: asyncio.Event, say: Say) -> None:
    foreground.import_from_here()
    log_to_stderr(logging.INFO, as_json=errand.as_json, verbose=errand.verbose)
    options = WorkerOptions(poll_seconds=errand.poll, drain_seconds=errand.drain)
    engine = Engine(
        errand.ledger,
        slots=errand.slots,
        importing=True,
        options=options,
        shared={blocks.PROVIDERS: providers},
    )
    async with engine, _reporting(lambda: say(_report(engine, providers))):
        await foreground.work(engine, enough, until_idle=False)
        foreground.Departure().after(errand.drain)
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
    errand = msgspec.json.decode(await reader.readline(), type=Errand)
    enough = asyncio.Event()
    providers = Providers(_workers(errand), share=errand.share)

    async def listen() -> None:
        while line := await reader.readline():
            providers.rest(msgspec.json.decode(line, type=News).rests)
        enough.set()

    listening = asyncio.create_task(listen())
    with foreground.stdout_kept_for_data() as stdout:

        def say(report: Report) -> None:
            with suppress(BrokenPipeError):  # the command is gone; stdin says so too
                stdout.write(msgspec.json.encode(report).decode() + "\n")

        await help_out(errand, providers, enough, say)
    listening.cancel()


def _workers(errand: Errand) -> int:
    return errand.workers if isinstance(errand, FetchErrand) else load().fetch.workers


def main() -> None:
    try:
        asyncio.run(_main())
    except GaplessError as error:
        sys.exit(f"error: {error}; {error.hint}" if error.hint else f"error: {error}")


if __name__ == "__main__":
    main()
