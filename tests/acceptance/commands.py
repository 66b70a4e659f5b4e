"""The command line as a person uses it: a folder with jobs, a ledger, and `gapless`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import forks
from tests.support import Home

GAPLESS = Path(sys.executable).parent / "gapless"
PATIENCE = 30.0


@dataclass(frozen=True)
class Answer:
    """What a command printed, and how it ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        """The data; nothing else may be printed with it."""
        return json.loads(self.stdout)

    @property
    def line(self) -> str:
        """The one line of data."""
        (only,) = self.stdout.splitlines()
        return only


class Commands:
    """Runs `gapless` in its own folder, on one ledger by default."""

    def __init__(self, folder: Path, home: Home) -> None:
        self.folder = folder
        self.home = home
        shutil.copy(Path(__file__).with_name("cli_jobs.py"), folder / "jobs.py")

    def __call__(
        self, *arguments: str, code: int = 0, env: Mapping[str, str] | None = None
    ) -> Answer:
        """Runs a command to its end, and checks its exit code."""
        done = forks.run(arguments, cwd=self.folder, env=self.environment(env), timeout=PATIENCE)
        answer = Answer(done.returncode, done.stdout, done.stderr)
        assert answer.code == code, answer
        assert "Traceback" not in answer.stderr, answer
        assert "\x1b" not in done.stdout + done.stderr, "control characters without a terminal"
        return answer

    def json(self, *arguments: str, code: int = 0) -> Any:
        return self(*arguments, "--json", code=code).json

    def refused(self, *arguments: str, env: Mapping[str, str] | None = None) -> str:
        """Runs a command that must be refused in the house style; returns its error."""
        answer = self(*arguments, code=2, env=env)
        assert answer.stdout == ""
        error, blank, hint = answer.stderr.splitlines()
        assert error.startswith("error: "), answer
        assert blank == ""
        assert hint.startswith("hint: "), answer
        for line in (error, hint):
            assert not line.endswith("."), line
        return answer.stderr

    @contextmanager
    def running(
        self, *arguments: str, command: Path | None = None, env: Mapping[str, str] | None = None
    ) -> Iterator[subprocess.Popen[str]]:
        """A command in the background, which does not outlive the test.

        It runs behind a shim, unless `command` is given: then the process is a child of the test.
        """
        if command is None:
            forks.shim(self.folder)
            command = self.folder / "gapless"
        with (
            (self.folder / "stderr").open("w") as stderr,
            subprocess.Popen(
                [command, *arguments],
                cwd=self.folder,
                env=self.environment(env),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            ) as process,
        ):
            try:
                yield process
            finally:
                process.kill()

    def stderr(self) -> str:
        """What the command in the background has printed so far."""
        return (self.folder / "stderr").read_text()

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        dropped = ("COLUMNS", "ETH_RPC_URL", "PYTHONDONTWRITEBYTECODE")
        return {
            **{name: value for name, value in os.environ.items() if name not in dropped},
            "GAPLESS_LEDGER": self.home.url,
            "PYTHONPYCACHEPREFIX": str(self.folder.parent / "pycache"),  # compiled once for all
            **(more or {}),
        }

    def ran(self) -> list[str]:
        """What the jobs have recorded, in order."""
        log = self.folder / "ran.log"
        return log.read_text().splitlines() if log.exists() else []

    def start(self, job: str, *arguments: str) -> str:
        """Starts a detached backfill with ten blocks per chunk; returns its id."""
        wanted = arguments if "--range" in arguments else ("--range", "0:49", *arguments)
        return self("backfill", "start", "--job", f"jobs:{job}", "--detach", *wanted).line

    def show(self, backfill_id: str, *arguments: str) -> Any:
        return self.json("backfill", "show", backfill_id, *arguments)

    async def rows(self) -> dict[str, int]:
        """How many rows each table of the ledger has."""
        tables = ("backfills", "selections", "chunks", "events", "counts", "groups", "workers")
        return {
            table: (await self.home.run(f"SELECT count(*) FROM {table}"))[0][0] for table in tables
        }
