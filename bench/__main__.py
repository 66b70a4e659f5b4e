"""Runs the measurements named on the command line, or all; exits with 1 if a bound is missed."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack
from types import ModuleType

from bench import (
    checks,
    claims,
    command,
    concurrency,
    copying,
    creation,
    decode,
    fetching,
    head,
    history,
    idle,
    latency,
    libraries,
    metered,
    pipeline,
    places,
    planning,
    pooling,
    processes,
    publish,
    reading,
    report,
    tron,
    verifying,
    wallets,
    writing,
)
from bench.places import Place
from bench.report import Row, line


def of_real_blocks(module: ModuleType) -> Callable[[], AsyncIterator[Row]]:
    """A measurement on recorded blocks, which may be absent."""

    async def rows() -> AsyncIterator[Row]:
        if not module.BLOCKS.exists():
            yield Row(f"{module.__name__}: no recorded blocks found", "")
            return
        found: Iterator[Row] = module.measure()
        for row in found:
            yield row

    return rows


LEDGER: dict[str, Callable[[Place], AsyncIterator[Row]]] = {
    "claims": claims.measure,
    "idle": idle.measure,
    "planning": planning.measure,
    "concurrency": concurrency.measure,
    "history": history.measure,
    "creation": creation.measure,
    "pooling": pooling.measure,
}
DATA: dict[str, Callable[[], AsyncIterator[Row]]] = {
    "start": command.measure_start,
    "pipeline": pipeline.measure,
    "decode": of_real_blocks(decode),
    "reading": of_real_blocks(reading),
    "checks": of_real_blocks(checks),
    "latency": latency.measure,
    "libraries": libraries.measure,
    "metered": metered.measure,
    "writing": writing.measure,
    "fetching": fetching.measure,
    "copying": copying.measure,
    "processes": processes.measure,
    "verifying": verifying.measure,
    "memory": command.measure_memory,
    "head": head.measure,
    "publish": publish.measure,
    "tron": tron.measure,
    "wallets": wallets.measure,
}


async def measured(names: Sequence[str]) -> AsyncIterator[Row]:
    """The rows of the data plane's measurements, then those of the ledger's in each place."""
    for name in names:
        if name in DATA:
            async for row in DATA[name]():
                yield row
    wanted = [name for name in names if name in LEDGER]
    if wanted:
        with ExitStack() as stack:
            everywhere: list[Place] = [
                stack.enter_context(places.sqlite()),
                stack.enter_context(places.postgres()),
            ]
            for name in wanted:
                for place in everywhere:
                    async for row in LEDGER[name](place):
                        yield row


async def run(names: Sequence[str]) -> bool:
    """Prints each row as it arrives; returns whether all bounds were met."""
    print(report.head())
    ok = True
    async for row in measured(names):
        print(line(row.cells), flush=True)
        ok &= row.ok
    return ok


def main() -> int:
    known = [*DATA, *LEDGER]
    names = sys.argv[1:] or known
    if unknown := [name for name in names if name not in known]:
        print(f"no measurement `{unknown[0]}`; there are: {', '.join(known)}")
        return 2
    started = time.monotonic()
    ok = asyncio.run(run(names))
    print(
        f"\n{'all bounds met' if ok else 'a bound was MISSED'}, {time.monotonic() - started:.0f} s"
    )
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
