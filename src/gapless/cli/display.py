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
ELSEWHERE = 120  # columns, where there is no terminal to ask
CLEAR = "\r\x1b[2K"


class Pace:
    """How many a second, over the last half minute."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def after(self, now: float, complete: int) -> float:
        """The rate, given how many there are by now."""
        self._seen.append((now, complete))
        while now - self._seen[0][0] > PACE_OVER:
            self._seen.popleft()
        then, before = self._seen[0]
        return (complete - before) / (now - then) if now > then else 0.0


Line = Callable[[Backfill, float, int], str]
"""What is shown of a backfill, at a moment of the clock, in so many columns."""


class ChunkLine:
    """A backfill by its chunks; `why` says what it waits for."""

    def __init__(self) -> None:
        self.why = ""
        self._pace = Pace()

    def __call__(self, backfill: Backfill, now: float, width: int) -> str:
        rate = self._pace.after(now, backfill.chunks.complete)
        return render.progress_line(backfill, rate, self.why, width)


class ProgressDisplay:
    """Shows a backfill again and again; a line said in between does not break it."""

    def __init__(
        self,
        line: Line | None = None,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._line = line or ChunkLine()
        self._stream = stream or sys.stderr
        self._clock = clock
        self._live = self._stream.isatty()
        self._written_at = clock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._write(CLEAR if self._live else "")

    def show(self, backfill: Backfill) -> None:
        now = self._clock()
        line = self._line(backfill, now, self._columns() - 1 if self._live else ELSEWHERE)
        if self._live:
            self._write(f"{CLEAR}{line}")
        elif now - self._written_at >= LINE_EVERY:
            self._written_at = now
            self._write(f"{line}\n")

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
