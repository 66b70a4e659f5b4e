"""Who watches a fetch on behalf of a person: the live line, the log, and Ctrl-C."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TextIO

import click

from gapless.blocks.running import FetchRun
from gapless.cli import speech
from gapless.cli.display import ProgressDisplay
from gapless.cli.metrics import MetricsPage
from gapless.cli.progress import FetchLine
from gapless.cli.watcher import DisplayWatcher
from gapless.cli.work import by_process
from gapless.runtime.engine import Engine
from gapless.runtime.process_control import stdout_kept_for_data, working
from gapless.runtime.work import Work
from gapless.telemetry.lines import log_to_stderr


class Foreground(DisplayWatcher):
    """A person at a terminal, or a script that has started the command."""

    def __init__(self, page: MetricsPage, *, quiet: bool, prints_id: bool) -> None:
        super().__init__(ProgressDisplay(quiet=True))  # until there is a fetch to show
        self.json_logs = speech.wants_json()
        self._page, self._quiet, self._prints_id = page, quiet, prints_id
        self._stdout: TextIO | None = None

    @asynccontextmanager
    async def running(self, engine: Engine, run: FetchRun) -> AsyncIterator[asyncio.Event]:
        level = logging.ERROR if self._quiet else logging.WARNING
        with (
            ProgressDisplay(FetchLine(run), quiet=self._quiet) as self._display,
            stdout_kept_for_data() as self._stdout,
        ):
            log_to_stderr(level, as_json=self.json_logs, say=self._display.write_line)
            async with working(engine) as interrupted:
                with self._page.of(engine):
                    yield interrupted

    def started(self, backfill_id: str) -> None:
        if self._prints_id:
            click.echo(backfill_id, file=self._stdout)

    def say(self, line: str) -> None:
        self._display.say(line)

    def out_of_calls(self) -> None:
        self._display.say("stopping: all calls allowed by `--max-requests` are used")

    def ended(self, works: list[Work], seconds: float) -> None:
        for text in by_process(works, seconds):
            self._display.say(text)
