"""One cell of the tables: a tool does the job with a new node, and its rows are counted.

A process that takes too long is killed with all that it started.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path

from bench.conditions import ANSWERS_AT_ONCE, Conditions
from bench.node_process import node
from bench.peers.counting import Count, Key, counted
from bench.peers.tools import Job, Tool
from bench.rendered import Workload


@dataclass(frozen=True)
class Task:
    """A number of blocks of a workload, and the rows that they contain."""

    workload: Workload
    blocks: int
    rows: Mapping[str, frozenset[Key]]


@dataclass(frozen=True)
class Ran:
    """The result of a job."""

    seconds: float
    code: int | None  # the exit code; None if it was killed at the time limit
    count: Count
    injected: int  # faults
    requests: int  # within the rate limit
    calls: int  # in these requests
    refused: int  # requests above the rate limit
    cpu_seconds: float  # processor time of all its processes
    node_seconds: float  # processor time of the node

    @property
    def complete(self) -> bool:
        return self.count == Count() and self.code == 0

    @property
    def silent(self) -> bool:
        """Whether rows are missing or duplicated although the tool reports success."""
        return self.count != Count() and self.code == 0


async def run(
    tool: Tool, task: Task, conditions: Conditions = ANSWERS_AT_ONCE, *, limit: float = 120
) -> Ran:
    """Lets a tool do the job within `limit` seconds."""
    with tempfile.TemporaryDirectory(prefix="gapless-peers-") as place:
        folder = Path(place)
        async with node(task.workload, conditions, prepare=True) as running:
            job = Job(running.url, folder, 1, task.blocks)
            started, used = time.perf_counter(), _cpu_seconds()
            code = await finished(tool.commands(job), tool.environment, folder, limit)
            seconds, used = time.perf_counter() - started, _cpu_seconds() - used
        counts = counted(folder, tool.outputs, task.rows)
    figures = running.figures
    return Ran(
        seconds,
        code,
        reduce(add, counts.values()),
        int(figures["injected"]),
        int(figures["requests"]),
        int(figures["calls"]),
        int(figures["refused"]),
        used,
        figures["cpu_seconds"],
    )


def _cpu_seconds() -> float:
    """Of all processes that have ended: the node, which still runs, is not included."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


async def finished(
    commands: Sequence[Sequence[str]], environment: Mapping[str, str], folder: Path, limit: float
) -> int | None:
    """The exit code of the first command that fails, or 0; None if the time is over before."""
    try:
        async with asyncio.timeout(limit):
            for command in commands:
                if code := await _run(command, environment, folder):
                    return code
    except TimeoutError:
        return None
    return 0


async def _run(command: Sequence[str], environment: Mapping[str, str], folder: Path) -> int:
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env={**os.environ, **environment},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return await process.wait()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
