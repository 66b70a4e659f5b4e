"""More processes for a command whose node is faster than one core.

Each helper is a worker of its own on the same ledger: it claims chunks under fences, and if it dies
its chunks are claimed by the others. The command tells it what to do and adds up what it did.
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

from gapless.cli.errands import Errand, Report
from gapless.core.redaction import redact
from gapless.runtime.counts import Counts
from gapless.telemetry import metrics

_LONGEST_LINE = 1 << 24


class Crew:
    """Helpers at work on an errand each, from entering to leaving."""

    def __init__(
        self,
        errands: Sequence[Errand],
        say: Callable[[str], None],
        on_loss: Callable[[], Awaitable[object]],
    ) -> None:
        self._errands = errands
        self._say = say
        self._on_loss = on_loss
        self._reports = [Report() for _ in errands]
        self._tasks: list[asyncio.Task[None]] = []
        self._processes: list[Process] = []

    @property
    def counts(self) -> Counts:
        return reduce(Counts.__add__, (report.counts for report in self._reports), Counts())

    @property
    def ended(self) -> Counter[str]:
        """How their runs ended."""
        return sum((Counter(report.ended) for report in self._reports), Counter())

    async def __aenter__(self) -> Self:
        for at, errand in enumerate(self._errands):
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", "gapless.cli.helper"),
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                limit=_LONGEST_LINE,
                start_new_session=True,  # signals of a terminal are for the command alone
            )
            assert process.stdin is not None
            process.stdin.write(msgspec.json.encode(errand) + b"\n")
            self._processes.append(process)
            self._tasks.append(asyncio.create_task(self._attend(at, process)))
        return self

    async def __aexit__(self, *error: object) -> None:
        """Has them drain, and waits until they have."""
        self.dismiss()
        await asyncio.gather(*self._tasks)

    def dismiss(self) -> None:
        """Tells them that there is enough."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.close()

    async def _attend(self, at: int, process: Process) -> None:
        assert process.stdout is not None
        saying = asyncio.create_task(self._repeat(process))
        async for line in process.stdout:
            report = msgspec.json.decode(line, type=Report)
            metrics.absorb(report.metrics, self._reports[at].metrics)
            self._reports[at] = report
        await saying
        if await process.wait() != 0:
            code = process.returncode
            self._say(f"warning: a helper process ended with code {code}; the others go on")
            await self._on_loss()

    async def _repeat(self, process: Process) -> None:
        assert process.stderr is not None
        async for line in process.stderr:
            self._say(redact(line.decode(errors="replace").rstrip("\n")))
