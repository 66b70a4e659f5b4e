"""The pages of the documentation, and how their examples run.

The words after the language of a fenced block say what a test does with it:

    ```python file=jobs.py    written to that file
    ```sh run                 run by bash, with exit code 0 or the one of `exit=1`
    ```sh background          started by bash, ready after its first line, ended with the page
    ```sh node                the node that all pages call `ETH_RPC`; all pages share one
    ```python run             run as a script
    ```text output            what the previous block printed, except ids, times and pids

All blocks of a page share one folder and run in order. Pages write the port of `ETH_RPC` as 8545,
those of nodes that they start as 8546 and so on, and that of Redis as 6379. Free ports replace
them, so that pages can run in parallel.
"""

from __future__ import annotations

import atexit
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

from tests import forks

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])
POSTGRES_PAGES = [
    ROOT / "docs/how-to/fill-postgresql.md",
    ROOT / "docs/how-to/run-on-postgresql.md",
]

NODE = "gapless devnode"
"""What a person starts in order to follow a page."""
_BLOCK = re.compile(r"^```([^\n`]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_PORT = re.compile(r"\b(?:854\d|6379)\b")
_VARYING = {
    r"^\S+ +([━╸─]{8,}|[\d.]+%).*\n": "",  # progress, which only a slow run prints
    r"^[\d,]+ rows read in .*\n": "",  # likewise
    r"\bbf_[a-z2-7]{10}\b": "ID",
    r"\d{4}-\d\d-\d\d(T|\s)\d\d:\d\d:\d\d(Z|,\d{3})": "TIME",
    r"^TIME WARNING endpoint_distrusted .*\n": "",  # which answer is refused first is random
    r"^endpoint \S+: [\d,]+ answers? refused$": "REFUSED",
    r"^calls: .*$": "CALLS",
    r"^written: .*$": "WRITTEN",
    r"\bseconds=[\d.]+": "SECONDS",
    r"\b((?:\d+m)?\d+(\.\d)?s|\d+h\d\dm)\b": "SECONDS",
    r'"(seconds|partitions_per_second)": [\d.]+': r'"\1": NUMBER',
    r"[\d.]+[kM]? (blocks|calls|partitions)/s": r"PACE \1/s",
    r"calls for this +[\d,]+": "CALLS",
    r"^decoder +.*$": "DECODER",  # compiled where cargo is installed
    r"\S+:\d+:[0-9a-f]{6}\b": "WORKER",
    r'File "\S+/': 'File "/',
    r"fence=\d+": "FENCE",
    r"retry_in=[\d.]+": "DELAY",
    r"[ \t]+": " ",
}


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the words after it, its text."""

    language: str
    words: tuple[str, ...]
    text: str
    line: int
    before: str  # the paragraph before it

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
        Block(
            *_info(found[1]),
            found[2],
            text.count("\n", 0, found.start()) + 1,
            text[: found.start()].rstrip().rpartition("\n\n")[2],
        )
        for found in _BLOCK.finditer(text)
    ]


def links(page: Path) -> list[str]:
    return _LINK.findall(_BLOCK.sub("", page.read_text()))


def anchors(page: Path) -> set[str]:
    """The anchors that a renderer makes from a page's headings."""
    headings = _HEADING.findall(_BLOCK.sub("", page.read_text()))
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in plain}


def normal(output: str) -> list[str]:
    """The lines of an output without what differs from run to run."""
    for pattern, stands_for in _VARYING.items():
        output = re.sub(pattern, stands_for, output, flags=re.MULTILINE)
    return [line.strip() for line in output.strip().splitlines()]


@contextmanager
def honest_node() -> Iterator[str]:
    """The node that pages call `ETH_RPC`; yields its port."""
    with _started(f"{NODE} --port 0", Path.cwd(), {**os.environ, "PATH": _path()}) as url:
        yield url.rpartition(":")[2]


class Runner:
    """Runs the blocks of one page in a folder; exiting ends everything that runs."""

    def __init__(self, folder: Path, node_port: str, **environment: str) -> None:
        self._folder = folder
        self._ports = {"8545": node_port}
        self._stack = ExitStack()
        kept = {name: value for name, value in os.environ.items() if name != "GAPLESS_LEDGER"}
        self._environment = {
            **kept,
            "PATH": _path(),
            "PYTHONPATH": str(folder),
            "ETH_RPC": f"http://127.0.0.1:{node_port}",
            **environment,
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

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
            # The real process dies a moment after the shim that stands for it (see `forks`).
            text = block.text.replace("kill -9 $!\n", "kill -9 $!\nsleep 1\n")
            printed, _ = process.communicate(self._with_real_ports(text), timeout=60)
        finally:
            _kill(process)  # nothing that it started outlives it
        wanted = int(block.word("exit") or 0)
        assert process.returncode == wanted, f"line {block.line}: {printed}"
        for shown, real in self._ports.items():
            printed = printed.replace(f":{real}", f":{shown}")
        return printed

    def start(self, block: Block) -> None:
        """Starts one block, and waits for its first line."""
        command = self._with_real_ports(block.text)
        self._stack.enter_context(_started(command, self._folder, self._environment))

    def write(self, block: Block, file: str) -> None:
        (self._folder / file).write_text(self._with_real_ports(block.text))

    def results(self, page: Path) -> Iterator[tuple[Block, str]]:
        """Runs a page; yields each block of output with what was really printed."""
        printed: str | None = None
        for block in blocks(page):
            if file := block.word("file"):
                self.write(block, file)
            elif "background" in block.words:
                self.start(block)
            elif block.runs:
                printed = self.run(block)
            elif "output" in block.words:
                assert printed is not None, f"line {block.line}: nothing has run yet"
                yield block, printed

    def _with_real_ports(self, text: str) -> str:
        for shown in _PORT.findall(text):
            self._ports.setdefault(shown, _free_port())
        return _PORT.sub(lambda found: self._ports[found[0]], text)


@contextmanager
def _started(command: str, folder: Path, environment: dict[str, str]) -> Iterator[str]:
    """A command in the background; yields its first line."""
    process = subprocess.Popen(
        ["bash", "-c", command],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=folder,
        env=environment,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        first = process.stdout.readline().strip()
        assert first, f"it ended: {command}"
        yield first
    finally:
        _kill(process)
        process.communicate()


def _kill(process: subprocess.Popen[str]) -> None:
    """Ends a process and everything it started; it has its own group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@cache
def _path() -> str:
    """`gapless` first, then the folder of the Python that runs this."""
    shims = tempfile.TemporaryDirectory(prefix="gapless-shim-")
    atexit.register(shims.cleanup)
    forks.shim(Path(shims.name))
    return os.pathsep.join([shims.name, str(Path(sys.executable).parent), os.environ["PATH"]])


def _free_port() -> str:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return str(found.getsockname()[1])


def _info(text: str) -> tuple[str, tuple[str, ...]]:
    language, *words = text.split()
    return language, tuple(words)
