"""The progress of a backfill while someone waits: one live line, or a line now and then.

On a terminal the line is rewritten in place and never wraps. Elsewhere a whole line is written
every ten seconds, without a control character. All of it goes to stderr.
"""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Self, TextIO

from gapless.cli import render
from gapless.ledger.records import Backfill

LINE_EVERY = 10.0
PACE_OVER = 30.0
CLEAR = "\r\x1b[2K"


class Pace:
    """Chunks a second, over the last half minute."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def after(self, now: float, complete: int) -> float:
        """The rate, given how many are complete by now."""
        self._seen.append((now, complete))
        while now - self._seen[0][0] > PACE_OVER:
            self._seen.popleft()
        then, before = self._seen[0]
        return (complete - before) / (now - then) if now > then else 0.0


class ProgressDisplay:
    """Shows a backfill again and again; a line said in between does not break it."""

    def __init__(
        self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream = stream or sys.stderr
        self._clock = clock
        self._live = self._stream.isatty()
        self._written_at = clock()
        self._pace = Pace()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._write(CLEAR if self._live else "")

    def show(self, backfill: Backfill, why: str = "") -> None:
        now = self._clock()
        rate = self._pace.after(now, backfill.chunks.complete)
        if self._live:
            line = render.progress_line(backfill, rate, why, self._columns() - 1)
            self._write(f"{CLEAR}{line}")
        elif now - self._written_at >= LINE_EVERY:
            self._written_at = now
            self._write(f"{render.progress_line(backfill, rate, why)}\n")

    def say(self, text: str) -> None:
        """A line of its own; the live line comes back with the next `show`."""
        self._write(f"{CLEAR if self._live else ''}{text}\n")

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or 80
        except OSError:
            return 80

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
