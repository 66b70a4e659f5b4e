"""The benchmark node as a separate process, and what it cost when it ends."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from bench.conditions import ANSWERS_AT_ONCE, Conditions
from bench.rendered import Workload
from bench.report import Row


@dataclass
class NodeProcess:
    """Where it is and, once it has ended, the figures it printed."""

    url: str
    said: str = ""

    @property
    def name(self) -> str:
        """The name that a fetch gives to an endpoint that is a URL."""
        return self.url.removeprefix("http://")

    @property
    def figures(self) -> dict[str, float]:
        """What it did: `cpu_seconds`, `requests`, `calls`, `bytes`, `injected`, `refused`."""
        named = (each.split("=") for each in self.said.split())
        return {name: float(figure) for name, figure in named}

    def row(self, workload: Workload) -> Row:
        return Row(
            f"node, {workload.name}: CPU used",
            f"{self.figures['cpu_seconds']:.2f} s, {self.figures['requests']:.0f} requests",
        )


@asynccontextmanager
async def node(
    workload: Workload, conditions: Conditions = ANSWERS_AT_ONCE, *, prepare: bool = False
) -> AsyncIterator[NodeProcess]:
    """If prepared, every answer is ready before the first call, not only those of a fetch."""
    more = (*conditions.arguments, *(("--prepare",) if prepare else ()))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.node", "--workload", workload.name, *more),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    running = NodeProcess((await process.stdout.readline()).decode().strip())
    try:
        yield running
    finally:
        process.send_signal(signal.SIGTERM)
        running.said = (await process.stdout.read()).decode().strip()
        await process.wait()
