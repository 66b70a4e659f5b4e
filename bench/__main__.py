"""Runs the measurements named on the command line, or all; exits with 1 if a bound is missed."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack

from bench import claims, concurrency, creation, history, idle, places, planning, pooling
from bench.places import Place
from bench.report import Row, head, line

MEASUREMENTS: dict[str, Callable[[Place], AsyncIterator[Row]]] = {
    "claims": claims.measure,
    "idle": idle.measure,
    "planning": planning.measure,
    "concurrency": concurrency.measure,
    "history": history.measure,
    "creation": creation.measure,
    "pooling": pooling.measure,
}


async def run(names: list[str]) -> bool:
    """Prints each row as it comes; says whether all bounds held."""
    print(head())
    ok = True
    with ExitStack() as stack:
        everywhere: list[Place] = [
            stack.enter_context(places.sqlite()),
            stack.enter_context(places.postgres()),
        ]
        for name in names:
            for place in everywhere:
                async for row in MEASUREMENTS[name](place):
                    print(line(row.cells), flush=True)
                    ok &= row.ok
    return ok


def main() -> int:
    names = sys.argv[1:] or list(MEASUREMENTS)
    if unknown := [name for name in names if name not in MEASUREMENTS]:
        print(f"no measurement `{unknown[0]}`; there are: {', '.join(MEASUREMENTS)}")
        return 2
    started = time.monotonic()
    ok = asyncio.run(run(names))
    print(
        f"\n{'all bounds held' if ok else 'a bound was MISSED'}, {time.monotonic() - started:.0f} s"
    )
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
