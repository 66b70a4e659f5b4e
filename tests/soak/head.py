"""A follow over many new blocks: nothing grows with the chain.

    python -m tests.soak.head --blocks 100000

A node in another process adds a block whenever it is asked for the latest one, and the follower
asks as fast as it can. Rows of the ledger, records of the sink, memory and time per block are
compared: those of the last tenth of the run with those of the second one. The time is that of the
processor, divided by what a fixed computation takes at the same moment: other processes slow both.
Old blocks keep a record per table and a thousand blocks, so only the records of the newest thousand
blocks are compared.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import sys
import tempfile
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import fmean, median
from time import process_time, thread_time

import apsw

import gapless
from gapless.devnode import DevNode, Limits, Parameters, simulated
from gapless.devnode.wire import HttpRequest, Reply
from gapless.following import service
from gapless.following.follower import Follower
from gapless.runtime.worker import Worker
from tests.servers import room_in_memory

START = 20  # blocks of the chain before it is followed
FINALITY_DEPTH = 4
BLOCKS_PER_SAMPLE = 10  # few, because the rows depend on what was folded last
SAMPLES_PER_SLICE = 10  # enough to include the time for folding
FEWEST = 2 * 10 * BLOCKS_PER_SAMPLE * SAMPLES_PER_SLICE  # two slices in each tenth
MOST_UNFINISHED = 8  # planned blocks, before the follower waits
MOST_GROWTH = 1.05
LEDGER = ("chunks", "events", "attempts", "counts", "backfills", "selections")
NEWEST = """
SELECT count(*) FROM _gapless_ranges
WHERE last > (SELECT max(last) FROM _gapless_ranges) - 1000
"""
_context = get_context("forkserver")


class GrowingNode(DevNode):
    """A node with a new block in each answer about the latest one."""

    def respond(self, request: HttpRequest) -> Reply:
        if b'"latest"' in request.body:
            self.advance()
        return super().respond(request)


def _serve(replies: Connection) -> None:
    async def serve() -> None:
        chain = simulated(Parameters(blocks=START, txs=1))
        async with GrowingNode(chain, limits=Limits(finality_depth=FINALITY_DEPTH)) as node:
            replies.send(node.url)
            await asyncio.Event().wait()

    asyncio.run(serve())


@contextmanager
def _node() -> Iterator[str]:
    ours, theirs = _context.Pipe(duplex=False)
    process = _context.Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    theirs.close()
    try:
        yield ours.recv()
    finally:
        process.kill()
        process.join()


class HastyFollower(Follower):
    """A follower that does not pause between blocks."""

    async def _sleep(self) -> None:
        assert isinstance(self._host, gapless.Engine)
        assert self._host.worker is not None
        planned = self.status.state.last - START if self.status.state else 0
        await _completed(self._host.worker, planned - MOST_UNFINISHED)


class Soak:
    """One follow, looked at again and again; of each figure, all values are kept."""

    def __init__(self, folder: Path, blocks: int) -> None:
        self._ledger, self._sink = folder / "ledger.db", folder / "sink.db"
        self._blocks = blocks
        self._looking = 0.0  # seconds of the processor, which do not count
        self.times = array("d")
        self.units = array("d")  # what the fixed computation took
        self.figures: dict[str, array[float]] = {}

    async def run(self, url: str) -> None:
        engine = gapless.Engine(f"sqlite:///{self._ledger}", slots=gapless.FOLLOW_SLOTS)
        async with (
            engine,
            gapless.follow(engine, "custom", rpc=url, to=self._sink, verify="links"),
        ):
            assert engine.worker is not None
            ledger, sink = _reader(self._ledger), _reader(self._sink)
            for wanted in range(BLOCKS_PER_SAMPLE, self._blocks + 1, BLOCKS_PER_SAMPLE):
                await _completed(engine.worker, wanted)
                self._sample(ledger, sink)
            assert not engine.worker.ended["failure"]
        async with gapless.Engine(f"sqlite:///{self._ledger}", slots=None) as looking:
            assert await looking.ledger.check() == []

    def _sample(self, ledger: apsw.Connection, sink: apsw.Connection) -> None:
        began = thread_time()
        self.times.append(process_time() - self._looking)
        self.units.append(_unit())
        for table in LEDGER:
            rows = ledger.execute(f"SELECT count(*) FROM {table}").get
            self._keep(f"ledger: {table}", rows)
        self._keep("sink: newest records", sink.execute(NEWEST).get)
        self._keep("memory, KiB", _resident())
        self._looking += thread_time() - began

    def _keep(self, name: str, figure: int) -> None:
        self.figures.setdefault(name, array("d")).append(figure)

    def compared(self) -> list[tuple[str, float, float]]:
        """Each figure's name, and what it was in the second and in the last tenth."""
        tenth = len(self.times) // 10
        found = [
            (name, fmean(values[tenth : 2 * tenth]), fmean(values[-tenth:]))
            for name, values in self.figures.items()
        ]
        return [*found, ("time per block", self._pace(tenth, 2), self._pace(9 * tenth, 10))]

    def _pace(self, first: int, tenths: int) -> float:
        """The time of a block between two samples, relative to the fixed computation."""
        times, units = self.times[first : tenths * len(self.times) // 10], self.units[first:]
        slices = pairwise(range(0, len(times), SAMPLES_PER_SLICE))
        blocks = BLOCKS_PER_SAMPLE * SAMPLES_PER_SLICE
        return median((times[b] - times[a]) / blocks / fmean(units[a:b]) for a, b in slices)


async def _completed(worker: Worker, blocks: int) -> None:
    while True:
        if worker.ended["completed"] >= blocks:
            return
        await asyncio.sleep(0.01)


def _reader(path: Path) -> apsw.Connection:
    return apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() // 1024


def _unit() -> float:
    """Seconds of the processor that a fixed computation takes now."""
    began = thread_time()
    for _ in range(100):
        json.loads(json.dumps({str(n): [n, hex(n)] for n in range(20)}))
    return thread_time() - began


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=100_000)
    options = parser.parse_args()
    if options.blocks < FEWEST:
        parser.error(f"fewer than {FEWEST:,} blocks cannot be compared")
    vars(service)["Follower"] = HastyFollower
    with _node() as url, tempfile.TemporaryDirectory(dir=room_in_memory()) as folder:
        soak = Soak(Path(folder), options.blocks)
        asyncio.run(soak.run(url))
    flat = True
    print(f"{'':26} {'second tenth':>14} {'last tenth':>14} {'ratio':>7}")
    for name, before, after in soak.compared():
        ratio = after / before if before else float(after > 0)
        flat &= ratio <= MOST_GROWTH
        print(f"{name:26} {before:14,.2f} {after:14,.2f} {ratio:7.2f}")
    print("flat" if flat else "GROWS")
    return 0 if flat else 1


if __name__ == "__main__":
    sys.exit(main())
