"""Who watches a backfill on behalf of a person: the progress display."""

from __future__ import annotations

from gapless.cli import speech
from gapless.cli.display import ProgressDisplay
from gapless.cli.waiting import standstill
from gapless.ledger.records import Backfill
from gapless.runtime.engine import Engine


class DisplayWatcher:
    """Shows on a display how a backfill goes."""

    def __init__(self, display: ProgressDisplay) -> None:
        self._display = display

    async def show(self, engine: Engine, backfill: Backfill) -> None:
        self._display.show(backfill, await standstill(engine.ledger, backfill))

    def show_finishing(self, *, first: bool) -> None:
        self._display.show_finishing(first=first)

    def warn(self, message: str) -> None:
        self._display.write_line(speech.spoken(message, "warning"))
