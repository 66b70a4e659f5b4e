"""Child processes of a command, for nodes that outpace one CPU core.

Each child is an independent worker on the same ledger: it claims chunks under fences, and if it
dies, the others claim its chunks. The command sends each child its task and adds up the reports.
When a provider asks one process to wait, the others are told too.
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

from gapless.blocks.child_protocol import ChildReport, ChildTask, News
from gapless.blocks.counts import Counts
from gapless.core.redaction import redact
from gapless.providers.registry import Providers, Rests
from gapless.runtime.work import Work
from gapless.telemetry import metrics

_LONGEST_LINE = 1 << 24
_NEWS_EVERY = 0.1  # seconds


class ChildProcesses:
    """Child processes that run a task each while the context is entered."""

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
        self._reports = [ChildReport() for _ in todo]
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
        """The work of each process: the command itself, then its children."""
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
                start_new_session=True,  # terminal signals reach only the command
            )
            assert process.stdin is not None
            process.stdin.write(msgspec.json.encode(task) + b"\n")
            self._processes.append(process)
            self._tasks.append(asyncio.create_task(self._attend(at, process)))
        if self._processes:
            self._telling = asyncio.create_task(self._tell())
        return self

    async def __aexit__(self, *error: object) -> None:
        """Asks the children to drain and waits for them."""
        self.dismiss()
        await asyncio.gather(*self._tasks)

    def dismiss(self) -> None:
        """Asks the children to stop."""
        if self._telling is not None:
            self._telling.cancel()
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.close()

    async def _tell(self) -> None:
        """Forwards every new wait to all children; a repeat to the reporting one is harmless."""
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
            report = msgspec.json.decode(line, type=ChildReport)
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
