"""More processes for a command whose node is faster than one core.

Each helper is a worker of its own on the same ledger: it claims chunks under fences, and if it dies
its chunks are claimed by the others. The command tells it what to do and adds up what it did. What
a provider asked one process to wait for is passed on to all others.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import reduce
from typing import Self

import msgspec

from gapless.blocks.child_protocol import ChildTask, News, Report
from gapless.blocks.counts import Counts
from gapless.core.redaction import redact
from gapless.providers.registry import Providers, Rests
from gapless.runtime.work import Work
from gapless.telemetry import metrics

_LONGEST_LINE = 1 << 24
_NEWS_EVERY = 0.1  # seconds


class ChildProcesses:
    """Child processes at work on a task each, from entering to leaving."""

    def __init__(
        self,
        todo: Sequence[ChildTask],
        say: Callable[[str], None],
        warn: Callable[[str], None],
        on_loss: Callable[[], Awaitable[object]],
        providers: Providers,
    ) -> None:
        self._todo = todo
        self._say, self._warn = say, warn
        self._on_loss = on_loss
        self._providers = providers
        self._reports = [Report() for _ in todo]
        self._tasks: list[asyncio.Task[None]] = []
        self._processes: list[Process] = []
        self._telling: asyncio.Task[None] | None = None

    @property
    def counts(self) -> Counts:
        return reduce(Counts.__add__, (report.counts for report in self._reports), Counts())

    @property
    def ended(self) -> Counter[str]:
        """How their runs ended."""
        return sum((Counter(report.ended) for report in self._reports), Counter())

    def works(self, ended_here: Counter[str]) -> list[Work]:
        """What each process has done: the command itself, then its children."""
        children = [Work.of(report.ended, report.metrics) for report in self._reports]
        all_of_them = Work.of(ended_here + self.ended, metrics.snapshot())
        return [all_of_them.without(Work.total(children)), *children]

    async def __aenter__(self) -> Self:
        for at, task in enumerate(self._todo):
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", "gapless.blocks.child"),
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                limit=_LONGEST_LINE,
                start_new_session=True,  # signals of a terminal are for the command alone
            )
            assert process.stdin is not None
            process.stdin.write(msgspec.json.encode(task) + b"\n")
            self._processes.append(process)
            self._tasks.append(asyncio.create_task(self._attend(at, process)))
        if self._processes:
            self._telling = asyncio.create_task(self._tell())
        return self

    async def __aexit__(self, *error: object) -> None:
        """Has them drain, and waits until they have."""
        self.dismiss()
        await asyncio.gather(*self._tasks)

    def dismiss(self) -> None:
        """Tells them that there is enough."""
        if self._telling is not None:
            self._telling.cancel()
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.close()

    async def _tell(self) -> None:
        """Passes on every new rest, also to the process that reported it, which is harmless."""
        reported: Rests = {}
        while True:
            await asyncio.sleep(_NEWS_EVERY)
            rests = self._providers.rests()
            if rests.items() <= reported.items():
                continue
            reported = rests
            for process in self._processes:
                assert process.stdin is not None
                if process.returncode is not None:
                    continue
                process.stdin.write(msgspec.json.encode(News(rests)) + b"\n")

    async def _attend(self, at: int, process: Process) -> None:
        assert process.stdout is not None
        saying = asyncio.create_task(self._repeat(process))
        async for line in process.stdout:
            report = msgspec.json.decode(line, type=Report)
            metrics.absorb(report.metrics, self._reports[at].metrics)
            self._reports[at] = report
            self._providers.rest(report.rests)
        await saying
        if await process.wait() != 0:
            code = process.returncode
            self._warn(f"a child process ended with code {code}; the others continue")
            await self._on_loss()

    async def _repeat(self, process: Process) -> None:
        assert process.stderr is not None
        async for line in process.stderr:
            self._say(redact(line.decode(errors="replace").rstrip("\n")))
