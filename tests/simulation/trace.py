"""Everything that happens in a run, line by line: the same seed gives the same lines."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.simulation.loop import PROCESS, START, Process


class Trace:
    """Lines with the virtual time, the process, and what it did."""

    def __init__(self, clock: Callable[[], float], folder: str) -> None:
        self.lines: list[str] = []
        self._clock = clock
        self._folder = folder  # differs in each run

    def say(self, what: str, process: Process | None = None) -> None:
        who = process or PROCESS.get() or "-"
        text = what.replace(self._folder, "…")
        self.lines.append(f"{self._clock() - START:.6f} {who} {text}")

    @contextmanager
    def of_log(self) -> Iterator[None]:
        """Sends the log of all processes to the trace, and nowhere else."""
        logger, handler = logging.getLogger("gapless"), _Handler(self)
        level, propagate = logger.level, logger.propagate
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
        try:
            yield
        finally:
            logger.removeHandler(handler)
            logger.setLevel(level)
            logger.propagate = propagate


class _Handler(logging.Handler):
    def __init__(self, trace: Trace) -> None:
        super().__init__()
        self._trace = trace

    def emit(self, record: logging.LogRecord) -> None:
        self._trace.say(record.getMessage())
