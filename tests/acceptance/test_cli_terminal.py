"""On a terminal: one live line that never wraps, and is cleared at the end."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from tests.acceptance.commands import GAPLESS, PATIENCE, Commands

CLEAR = "\r\x1b[2K"


@pytest.fixture
def gapless(sqlite_gapless: Commands) -> Commands:
    return sqlite_gapless


class Terminal:
    """A command whose stderr is a terminal of some width; its stdout is a pipe."""

    def __init__(self, process: subprocess.Popen[str], screen: int) -> None:
        self.process = process
        self._screen = screen
        self.shown = ""

    def read_until(self, holds: Callable[[str], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not holds(self.shown):
            assert time.monotonic() < deadline, self.shown
            with suppress(BlockingIOError):
                self._read()
            time.sleep(0.01)

    def read_to_the_end(self) -> str:
        """Everything printed once the command has ended, and its stdout."""
        stdout, _ = self.process.communicate(timeout=PATIENCE)
        with suppress(OSError):  # how a terminal says that its last writer has closed it
            while True:
                self._read()
        return stdout

    def _read(self) -> None:
        self.shown += os.read(self._screen, 65536).decode().replace("\r\n", "\n")

    @property
    def live_lines(self) -> list[str]:
        return re.findall(r"\r\x1b\[2K([^\r\n]+)(?=\r)", self.shown)


@contextmanager
def terminal(gapless: Commands, width: int, *arguments: str) -> Iterator[Terminal]:
    screen, line = pty.openpty()
    fcntl.ioctl(line, termios.TIOCSWINSZ, struct.pack("HHHH", 25, width, 0, 0))
    os.set_blocking(screen, False)
    with subprocess.Popen(
        [GAPLESS, *arguments],
        cwd=gapless.folder,
        env=gapless.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=line,
        text=True,
    ) as process:
        os.close(line)
        try:
            yield Terminal(process, screen)
        finally:
            process.kill()
            os.close(screen)


@pytest.mark.parametrize("width", [120, 50, 24])
def test_the_live_line_fits_and_is_cleared(gapless: Commands, width: int) -> None:
    start = ("backfill", "start", "--job", "jobs:held", "--range", "0:39", "--id", "live")
    with terminal(gapless, width, *start, "--max-concurrent", "2") as screen:
        screen.read_until(lambda shown: "0/4" in shown and shown.count(CLEAR) > 3)
        (gapless.folder / "go").touch()
        stdout = screen.read_to_the_end()

    assert stdout == "live\n"
    assert screen.live_lines
    for line in screen.live_lines[1:]:
        assert len(line) < width
        assert line.startswith("live  ")
    assert ("━" in screen.shown or "─" in screen.shown) == (width > 24)
    *_, rest = screen.shown.rpartition(CLEAR)
    assert rest.startswith("live SUCCEEDED in ")


def test_a_log_line_does_not_run_into_the_live_line(gapless: Commands) -> None:
    start = ("backfill", "start", "--job", "jobs:stubborn", "--range", "0:9", "--id", "s")
    with terminal(gapless, 200, *start, "--retry-base", "1h") as screen:
        screen.read_until(lambda shown: "1 retrying" in shown)
        gapless("backfill", "cancel", "s")
        screen.read_to_the_end()

    assert screen.process.returncode == 1
    (warning,) = re.findall(r"[^\n]*chunk_failed[^\n]*\n", screen.shown)
    assert re.search(r"\r\x1b\[2K\d{4}-\d\d-\d\dT[^\r\x1b]*Z WARNING chunk_failed", warning)


def test_a_wait_shows_its_reason(gapless: Commands) -> None:
    gapless.start("copy", "--id", "w")

    with terminal(gapless, 100, "backfill", "wait", "w") as screen:
        screen.read_until(lambda shown: "PENDING  no worker" in shown)
        gapless("backfill", "pause", "w")
        screen.read_until(lambda shown: "PAUSED  paused" in shown)
        gapless("backfill", "cancel", "w")
        stdout = screen.read_to_the_end()

    assert screen.process.returncode == 1
    assert stdout.startswith("w CANCELLED in ")
    assert all(len(line) < 100 for line in screen.live_lines)
