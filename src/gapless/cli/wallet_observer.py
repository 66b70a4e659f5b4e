"""Who watches wallets on behalf of a person: the live line, the log, and Ctrl-C."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from gapless.cli import speech
from gapless.cli.display import STOP_NOW, ProgressDisplay
from gapless.cli.metrics import MetricsPage
from gapless.cli.render_wallet import SyncSnapshot
from gapless.ledger.syncs import Sync
from gapless.runtime.engine import Engine
from gapless.runtime.process_control import stdout_kept_for_data, working
from gapless.telemetry.lines import log_to_stderr


class WalletForeground:
    """A person at a terminal, or a script that has started the command."""

    def __init__(self, page: MetricsPage, *, quiet: bool) -> None:
        self._page, self._quiet = page, quiet
        self._display = ProgressDisplay(quiet=True)  # until there is something to show
        self.engine: Engine | None = None
        self.is_interrupted = False

    @asynccontextmanager
    async def running(self, engine: Engine) -> AsyncIterator[asyncio.Event]:
        self.engine = engine
        level = logging.ERROR if self._quiet else logging.WARNING
        with ProgressDisplay(quiet=self._quiet) as self._display, stdout_kept_for_data():
            log_to_stderr(level, as_json=speech.wants_json(), say=self._display.write_line)
            async with working(engine) as interrupted:
                finishing = asyncio.create_task(self._say_finishing(interrupted))
                try:
                    with self._page.of(engine):
                        yield interrupted
                finally:
                    finishing.cancel()
                    self.is_interrupted = interrupted.is_set()

    def show(self, syncs: Sequence[Sync]) -> None:
        self._display.show_snapshot(SyncSnapshot(syncs))

    def warn(self, message: str) -> None:
        self._display.write_line(speech.spoken(message, "warning"))

    async def _say_finishing(self, interrupted: asyncio.Event) -> None:
        await interrupted.wait()
        self._display.say(f"finishing running segments; {STOP_NOW}")
