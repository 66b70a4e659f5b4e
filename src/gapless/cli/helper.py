"""A process that helps a command: it claims chunks from the same ledger, as any worker does.

    python -m gapless.cli.helper

Its errand comes on stdin, and with it the secrets that no command line may show. It works until
that is done, or until stdin ends: the command has enough then, or is gone. So nothing is left
behind by a command that was killed. On stdout it reports what it has done, a line every moment; on
stderr it logs. Signals are the command's business.
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
from gapless.cli.errands import Errand, FetchErrand, Report, WorkErrand
from gapless.cli.logs import log_to_stderr
from gapless.core.errors import GaplessError
from gapless.runtime import blocks
from gapless.runtime.counts import Counts
from gapless.runtime.engine import Engine
from gapless.runtime.plane import BlocksSpec, open_plane
from gapless.runtime.worker import WorkerOptions
from gapless.telemetry import metrics

REPORT_EVERY = 0.2


async def help_out(errand: Errand, enough: asyncio.Event, say: Callable[[Report], None]) -> None:
    """Does an errand until there is enough."""
    if isinstance(errand, FetchErrand):
        await _fetch(errand, enough, say)
    else:
        await _work(errand, enough, say)


async def _fetch(errand: FetchErrand, enough: asyncio.Event, say: Callable[[Report], None]) -> None:
    log_to_stderr(logging.WARNING)
    spec = msgspec.convert(errand.spec, BlocksSpec)
    options = WorkerOptions(only=errand.backfill)
    async with (
        Engine(errand.ledger, slots=errand.slots, options=options) as engine,
        open_plane(spec, errand.config, engine.ledger, max_calls=errand.max_calls) as plane,
        _reporting(lambda: say(_report(engine, plane.counts))),
    ):
        await engine.attach(blocks.job(plane), errand.backfill)
        used_up = asyncio.create_task(plane.used_up.wait())
        used_up.add_done_callback(lambda _: enough.set())
        await foreground.work(engine, enough, until_idle=False)
        used_up.cancel()
        await engine.drain()


async def _work(errand: WorkErrand, enough: asyncio.Event, say: Callable[[Report], None]) -> None:
    foreground.import_from_here()
    log_to_stderr(logging.INFO, as_json=errand.as_json, verbose=errand.verbose)
    options = WorkerOptions(poll_seconds=errand.poll, drain_seconds=errand.drain)
    engine = Engine(errand.ledger, slots=errand.slots, importing=True, options=options)
    async with engine, _reporting(lambda: say(_report(engine))):
        await foreground.work(engine, enough, until_idle=False)
        await engine.drain()
    foreground.leave_if_stuck(engine)


def _report(engine: Engine, counts: Counts = Counts()) -> Report:  # noqa: B008 - frozen
    ended = dict(engine.worker.ended) if engine.worker is not None else {}
    return Report(counts, ended, metrics.snapshot())


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
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    reader = asyncio.StreamReader(limit=1 << 24)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    errand = msgspec.json.decode(await reader.readline(), type=Errand)
    enough = asyncio.Event()

    async def listen() -> None:
        await reader.read()
        enough.set()

    listening = asyncio.create_task(listen())
    with foreground.stdout_kept_for_data() as stdout:

        def say(report: Report) -> None:
            with suppress(BrokenPipeError):  # the command is gone; stdin says so too
                stdout.write(msgspec.json.encode(report).decode() + "\n")

        await help_out(errand, enough, say)
    listening.cancel()


def main() -> None:
    try:
        asyncio.run(_main())
    except GaplessError as error:
        sys.exit(f"error: {error}; {error.hint}" if error.hint else f"error: {error}")


if __name__ == "__main__":
    main()
