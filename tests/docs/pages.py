"""The pages of the documentation, and what of them can be run.

A fenced block says after its language what a test does with it:

    ```python file=jobs.py    written to that file
    ```sh run                 run by bash, with exit code 0 or the one of `exit=1`
    ```python run             run as a script
    ```text output            what the block before has printed, ids, times and pids aside

All blocks of a page share one folder, and run in their order.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])
POSTGRES_PAGE = ROOT / "docs/how-to/run-on-postgresql.md"

_BLOCK = re.compile(r"^```([^\n`]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_VARYING = {
    r"\bbf_[a-z2-7]{10}\b": "ID",
    r"\d{4}-\d\d-\d\d(T|\s)\d\d:\d\d:\d\d(Z|,\d{3})": "TIME",
    r"\b\d+(\.\d)?s\b": "SECONDS",
    r"\S+:\d+:[0-9a-f]{6}\b": "WORKER",
    r"fence=\d+": "FENCE",
    r"retry_in=[\d.]+": "DELAY",
    r"[ \t]+": " ",
}


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the words behind it, its text."""

    language: str
    words: tuple[str, ...]
    text: str
    line: int

    def word(self, name: str) -> str | None:
        """The value of `name=value`."""
        return dict(word.partition("=")[::2] for word in self.words).get(name)

    @property
    def runs(self) -> bool:
        return "run" in self.words


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    return [
        Block(*_info(found[1]), found[2], text.count("\n", 0, found.start()) + 1)
        for found in _BLOCK.finditer(text)
    ]


def links(page: Path) -> list[str]:
    return _LINK.findall(_BLOCK.sub("", page.read_text()))


def anchors(page: Path) -> set[str]:
    """The anchors that a renderer makes of a page's headings."""
    headings = _HEADING.findall(_BLOCK.sub("", page.read_text()))
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in plain}


def normal(output: str) -> list[str]:
    """The lines of an output without what differs from run to run."""
    for pattern, stands_for in _VARYING.items():
        output = re.sub(pattern, stands_for, output)
    return [line.strip() for line in output.strip().splitlines()]


class Runner:
    """Runs the blocks of one page in a folder of their own."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self._folder = folder
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        kept = {name: value for name, value in os.environ.items() if name != "GAPLESS_LEDGER"}
        self._environment = {**kept, "PATH": path, "PYTHONPATH": str(folder), **environment}

    def run(self, block: Block) -> str:
        """Runs one block, and returns all that it prints."""
        program = ["bash", "-e"] if block.language == "sh" else [sys.executable, "-"]
        process = subprocess.Popen(
            program,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self._folder,
            env=self._environment,
            start_new_session=True,
        )
        try:
            printed, _ = process.communicate(block.text, timeout=60)
        finally:
            with suppress(ProcessLookupError):  # nothing that it started outlives it
                os.killpg(process.pid, signal.SIGKILL)
        wanted = int(block.word("exit") or 0)
        assert process.returncode == wanted, f"line {block.line}: {printed}"
        return printed

    def write(self, block: Block, file: str) -> None:
        (self._folder / file).write_text(block.text)

    def results(self, page: Path) -> Iterator[tuple[Block, str]]:
        """Runs a page; yields each block of output with what was really printed."""
        printed: str | None = None
        for block in blocks(page):
            if file := block.word("file"):
                self.write(block, file)
            elif block.runs:
                printed = self.run(block)
            elif "output" in block.words:
                assert printed is not None, f"line {block.line}: nothing has run yet"
                yield block, printed


def _info(text: str) -> tuple[str, tuple[str, ...]]:
    language, *words = text.split()
    return language, tuple(words)
