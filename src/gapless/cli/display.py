"""The progress of a backfill while someone waits: one live line, or a line now and then.

On a terminal the line is rewritten in place and never wraps. Elsewhere a whole line is written
every ten seconds, without a control character; with `--json` it is a JSON object. All of it goes to
stderr.
"""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from math import exp
from types import TracebackType
from typing import Any, Protocol, Self, TextIO

from gapless.cli import render, speech
from gapless.cli.waiting import Waiting
from gapless.ledger.records import Backfill
from gapless.views.figures import counted, cut

LINE_EVERY = 10.0
ELSEWHERE = 120  # columns, where there is no terminal to ask
CLEAR = "\r\x1b[2K"
STOP_NOW = "press Ctrl-C again to stop now"


class RecentRate:
    """The rate over the last few seconds."""

    def __init__(self, over: float = 10.0) -> None:
        self._over = over
        self._seen: deque[tuple[float, int]] = deque()

    def after(self, now: float, complete: int) -> float:
        """Return the rate per second, given the count by now."""
        self._seen.append((now, complete))
        while now - self._seen[0][0] > self._over:
            self._seen.popleft()
        then, before = self._seen[0]
        return (complete - before) / (now - then) if now > then else 0.0


class Smoothed:
    """A rate that follows another slowly, so that a time computed from it does not jump.

    It has no past to cling to at first, and follows faster.
    """

    def __init__(self, seconds: float = 20.0) -> None:
        self._seconds = seconds
        self._rate = 0.0
        self._since = self._at = float("inf")

    def after(self, now: float, rate: float) -> float:
        if not self._rate:
            self._rate, self._since = rate, now
        elif now > self._at:
            inertia = min(self._seconds, now - self._since)
            self._rate += (1 - exp((self._at - now) / inertia)) * (rate - self._rate)
        self._at = now
        return self._rate


class ProgressSnapshot(Protocol):
    """How far a backfill is."""

    def text(self, width: int) -> str:
        """One line that fits the width."""

    def fields(self) -> dict[str, Any]:
        """The same for programs."""


class Line(Protocol):
    """What is shown of a backfill."""

    def at(self, backfill: Backfill, now: float, waiting: Waiting | None) -> ProgressSnapshot: ...

    def finishing(self) -> str:
        """What is left to do before a command that was interrupted can end."""


@dataclass(frozen=True)
class ChunkSnapshot:
    """How far a backfill is, by its chunks."""

    backfill: Backfill
    rate: float  # chunks a second
    why: str

    def text(self, width: int) -> str:
        return render.progress_line(self.backfill, self.rate, self.why, width)

    def fields(self) -> dict[str, Any]:
        chunks = self.backfill.chunks
        return {
            "backfill": self.backfill.id,
            "complete": chunks.complete,
            "total": chunks.total,
            "failed": chunks.failed,
            "abandoned": chunks.abandoned,
            "chunks_per_second": round(self.rate, 3),
            "waiting": self.why or None,
        }


class ChunkLine:
    """A backfill by its chunks; `why` says what it waits for."""

    def __init__(self) -> None:
        self.why = ""
        self._rate = RecentRate(over=30.0)
        self._running = 0

    def at(self, backfill: Backfill, now: float, waiting: Waiting | None) -> ChunkSnapshot:
        self._running = backfill.chunks.running
        rate = self._rate.after(now, backfill.chunks.complete)
        return ChunkSnapshot(backfill, rate, self.why if waiting is None else str(waiting))

    def finishing(self) -> str:
        return f"finishing {counted(self._running, 'running chunk')}"


class ProgressDisplay:
    """Shows a backfill again and again; a line said in between does not break it."""

    def __init__(
        self,
        line: Line | None = None,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
        *,
        quiet: bool = False,
    ) -> None:
        self._line: Line = line or ChunkLine()
        self._stream = stream or sys.stderr
        self._clock = clock
        self._quiet = quiet
        self._live = self._stream.isatty() and not speech.wants_json() and not quiet
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

    def show(self, backfill: Backfill, waiting: Waiting | None = None) -> None:
        self.show_snapshot(self._line.at(backfill, self._clock(), waiting))

    def show_snapshot(self, snapshot: ProgressSnapshot) -> None:
        now = self._clock()
        if self._live:
            self._write(f"{CLEAR}{snapshot.text(self._columns())}")
        elif self._is_due(now):
            if speech.wants_json():
                self._write(f"{speech.json_line('info', action='progress', **snapshot.fields())}\n")
            else:
                self._write(f"{snapshot.text(ELSEWHERE)}\n")

    def show_finishing(self, *, first: bool) -> None:
        """What an interrupted command still waits for."""
        text = f"{self._line.finishing()}; {STOP_NOW}"
        if self._live:
            self._write(CLEAR + cut(text, self._columns()))
        elif first or self._is_due(self._clock()):
            self.say(text)

    def say(self, text: str) -> None:
        """A line of its own; the live line comes back with the next `show`."""
        if not self._quiet:
            self.write_line(speech.spoken(text))

    def write_line(self, text: str) -> None:
        """A line as it is, also if everything else is to be quiet."""
        self._write(f"{CLEAR if self._live else ''}{text}\n")

    def _is_due(self, now: float) -> bool:
        if self._quiet or now - self._written_at < LINE_EVERY:
            return False
        self._written_at = now
        return True

    def _columns(self) -> int:
        """How wide a line may be: the terminal echoes a `^C` behind it, and must not wrap."""
        try:
            columns = os.get_terminal_size(self._stream.fileno()).columns or 80
        except OSError:
            columns = 80
        return columns - len("^C") - 1

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
