"""The processes of one test: `gapless` commands that can be killed, stopped and woken.

Invariant: no process outlives its fleet, however the test ends. All of them are in the process
group of a small shell, the keeper, which reads from a pipe that only the test can write to. When
the pipe ends, even because the test process was killed, the keeper kills its group, including
stopped processes.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

from tests import forks
from tests.forks import Forked

ROOT = Path(__file__).parents[2]
PATIENCE = 120.0

_KEEPER = "read -r _; kill -KILL 0"


async def until(
    condition: Callable[[], bool | Awaitable[bool]], what: str, *, seconds: float = PATIENCE
) -> None:
    """Returns once the condition holds; if it does not in time, fails and says what was missing."""
    deadline = time.monotonic() + seconds
    while True:
        held = condition()
        if await held if inspect.isawaitable(held) else held:
            return
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        await asyncio.sleep(0.02)


def heeds(pid: int, number: signal.Signals) -> bool:
    """Whether a process has a handler for a signal, according to the kernel."""
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        return True
    caught = re.search(r"^SigCgt:\s*(\w+)", status.read_text(), re.MULTILINE)
    return caught is not None and bool(int(caught[1], 16) >> (number - 1) & 1)


class Process:
    """One command, with its standard error in a file."""

    def __init__(self, forked: Forked, log: Path) -> None:
        self.forked = forked
        self.pid = forked.pid
        self._log = log

    @property
    def running(self) -> bool:
        return self.forked.poll() is None

    def send(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        self.forked.wait()

    def kill_unseen(self) -> None:
        """Kills it, but leaves a zombie in the process table, as a careless parent would."""
        self.send(signal.SIGKILL)
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)

    def stop(self) -> None:
        """Suspends it, and returns once it is suspended."""
        self.send(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def wake(self) -> None:
        self.send(signal.SIGCONT)

    async def exit_code(self) -> int:
        await until(lambda: not self.running, f"the end of process {self.pid}")
        return self.forked.wait()

    async def drained(self) -> int:
        """Asks it to stop; returns its exit code."""
        self.send(signal.SIGTERM)
        return await self.exit_code()

    def __str__(self) -> str:
        return f"process {self.pid}, which said:\n{self._log.read_text()[-2000:]}"


class WorkerProcess(Process):
    """`gapless worker`, which logs as JSON."""

    def logged(self, action: str) -> list[dict[str, Any]]:
        """Every line with this action."""
        whole = self._log.read_text().rpartition("\n")[0]  # the rest is still being written
        lines = [json.loads(line) for line in whole.splitlines() if line.startswith("{")]
        return [line for line in lines if line.get("action") == action]

    async def says(self, action: str, **fields: Any) -> None:
        """Waits for a line with this action and these fields."""

        def said() -> bool:
            return any(fields.items() <= line.items() for line in self.logged(action))

        await until(said, f"`{action}` {fields} of process {self.pid}")

    async def started(self) -> Self:
        await until(lambda: self.is_up or not self.running, f"the start of process {self.pid}")
        assert self.running, f"ended with {self.forked.returncode}: {self}"
        return self

    @property
    def is_up(self) -> bool:
        """Whether it is at work, and would drain if asked to."""
        return bool(self.id) and heeds(self.pid, signal.SIGTERM)

    @property
    def id(self) -> str:
        """Its id in the ledger, empty until it has one."""
        return next((line["worker"] for line in self.logged("worker_started")), "")

    @property
    def freed(self) -> int:
        """How many leases of dead workers it freed when it started."""
        return int(self.logged("worker_started")[0]["freed"])


class Fleet:
    """All processes on one ledger, and the flags between their jobs and a test."""

    def __init__(self, ledger_url: str, folder: Path) -> None:
        self._ledger_url = ledger_url
        self._folder = folder
        self._processes: list[Process] = []
        self._keeper = subprocess.Popen(
            ["/bin/sh", "-c", _KEEPER],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=0,
        )

    @classmethod
    @asynccontextmanager
    async def at(cls, ledger_url: str, folder: Path) -> AsyncIterator[Self]:
        """A fleet on a ledger that must pass `gapless ledger check` in the end."""
        fleet = cls(ledger_url, folder)
        try:
            yield fleet
            await fleet.succeeds("ledger", "check")
        finally:
            fleet.close()
            print(fleet)  # which is shown if the test has failed

    def close(self) -> None:
        self._keeper.communicate()
        for process in self._processes:
            process.forked.communicate()  # the keeper has killed it: this reaps it

    def worker(self, *arguments: str, slots: int = 2, prelude: str = "") -> WorkerProcess:
        """Starts a worker, after the Python code of `prelude`."""
        command = ["worker", "--json", "--poll", "200ms", "--slots", f"default={slots}"]
        worker = WorkerProcess(*self._spawn(*command, *arguments, prelude=prelude))
        self._processes.append(worker)
        return worker

    async def started_worker(self, *arguments: str, slots: int = 2) -> WorkerProcess:
        return await self.worker(*arguments, slots=slots).started()

    def start(self, *arguments: str) -> Process:
        process = Process(*self._spawn(*arguments))
        self._processes.append(process)
        return process

    async def succeeds(self, *arguments: str) -> None:
        process = self.start(*arguments)
        said = await asyncio.to_thread(process.forked.communicate)
        assert process.forked.returncode == 0, f"{process}\n{said}"

    def _spawn(self, *arguments: str, prelude: str = "") -> tuple[Forked, Path]:
        log = self._folder / f"log-{len(self._processes)}"
        with log.open("w") as stderr:
            forked = forks.start(
                [*arguments, "--ledger", self._ledger_url],
                cwd=ROOT,  # jobs are imported from here
                env={**os.environ, "GAPLESS_TEST_FOLDER": str(self._folder)},
                stderr=stderr,
                group=self._keeper.pid,
                prelude=prelude,
            )
        return forked, log

    # Flags

    def raised(self, name: str) -> bool:
        return (self._folder / name).exists()

    def raise_flag(self, name: str) -> None:
        (self._folder / name).touch()

    async def flag(self, name: str) -> Any:
        """Waits for a flag; returns its contents."""
        await until(lambda: self.raised(name), f"flag `{name}`")
        return json.loads((self._folder / name).read_text())

    def __str__(self) -> str:
        return "\n".join(map(str, self._processes))
