"""A process that writes to a sink until it is killed.

It is forked from a process that has all modules and blocks loaded, because starting would otherwise
take most of its life. Fences rise with the clock: a later write has a higher one.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

import duckdb  # noqa: F401 - before the fork

from gapless.chains.opening import open_sink
from gapless.core.errors import SinkError
from gapless.core.ranges import Span
from tests.conformance.sink.stage import CHAIN_ID, EVERYTHING, HEAD, HEADERS, batch, branches

branches()  # before the fork
_context = get_context("forkserver")
_context.set_forkserver_preload([__name__])
PATIENCE = 30.0


@dataclass(frozen=True)
class Writer:
    """A writer as seen from outside."""

    process: BaseProcess
    words: Connection

    def said(self) -> str:
        """The next thing it reports: `open`, the fence of a confirmed change, or a refusal."""
        assert self.words.poll(PATIENCE)
        answer: str = self.words.recv()
        return answer

    def die(self, within: float = 0.0) -> None:
        """Kills it, after a delay if requested."""
        self.process.join(within)
        self.process.kill()
        self.process.join()


@contextmanager
def writer(target: str, seed: int) -> Iterator[Writer]:
    ours, theirs = _context.Pipe(duplex=False)
    process = _context.Process(target=_write, args=(target, seed, theirs), daemon=True)
    process.start()
    theirs.close()
    found = Writer(process, ours)
    try:
        yield found
    finally:
        found.die()
        ours.close()


def _write(target: str, seed: int, words: Connection) -> None:
    asyncio.run(_write_for_ever(target, random.Random(seed), words))


async def _write_for_ever(target: str, chance: random.Random, words: Connection) -> None:
    async with await open_sink(target) as sink:
        words.send("open")
        while True:
            first = chance.randrange(HEAD)
            span = Span(first, min(first + chance.randrange(12), HEAD))
            tables = chance.choice([EVERYTHING, EVERYTHING, HEADERS])
            fence = time.monotonic_ns()
            try:
                if chance.random() < 0.2:
                    await sink.retract(CHAIN_ID, span, fence)
                else:
                    await sink.write(batch(*span, tables=tables), fence)
            except SinkError as error:
                words.send(f"refused: {error}")
            else:
                words.send(str(fence))
