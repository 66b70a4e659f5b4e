"""A follow over many new blocks: nothing grows with the chain.

    python -m tests.soak.head --blocks 100000

A node in another process adds a block whenever it is asked for the latest one, and the follower
asks as fast as it can. Rows of the ledger, records of the sink, memory and time per block are
compared: those of the last tenth of the run with those of the second one.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import fmean, median
from time import perf_counter

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
MOST_UNFINISHED = 8  # planned blocks, before the follower waits
MOST_GROWTH = 1.05
LEDGER = ("chunks", "events", "attempts", "counts", "backfills", "selections")
SINK = ("_gapless_ranges", "_gapless_requests")
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


@dataclass(frozen=True)
class Sample:
    """What there was after a number of blocks."""

    blocks: int
    at: float  # seconds
    figures: Mapping[str, int]


class Soak:
    """One follow, looked at again and again."""

    def __init__(self, folder: Path, blocks: int) -> None:
        self._ledger, self._sink = folder / "ledger.db", folder / "sink.db"
        self._blocks = blocks
        self._readers: dict[Path, apsw.Connection] = {}
        self.samples: list[Sample] = []

    async def run(self, url: str) -> None:
        engine = gapless.Engine(f"sqlite:///{self._ledger}", slots=gapless.FOLLOW_SLOTS)
        async with (
            engine,
            gapless.follow(engine, "custom", rpc=url, to=self._sink, verify="links"),
        ):
            assert engine.worker is not None
            for wanted in range(BLOCKS_PER_SAMPLE, self._blocks + 1, BLOCKS_PER_SAMPLE):
                await _completed(engine.worker, wanted)
                self.samples.append(self._sample(wanted))
            assert not engine.worker.ended["failure"]
        async with gapless.Engine(f"sqlite:///{self._ledger}", slots=None) as looking:
            assert await looking.ledger.check() == []

    def _sample(self, blocks: int) -> Sample:
        at = perf_counter()
        figures = {
            f"{path.stem}: {table}": self._rows(path, table)
            for path, tables in ((self._ledger, LEDGER), (self._sink, SINK))
            for table in tables
        }
        figures["memory, KiB"] = _resident()
        return Sample(blocks, at, figures)

    def _rows(self, path: Path, table: str) -> int:
        if path not in self._readers:
            self._readers[path] = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        return int(self._readers[path].execute(f"SELECT count(*) FROM {table}").get)


async def _completed(worker: Worker, blocks: int) -> None:
    while True:
        if worker.ended["completed"] >= blocks:
            return
        await asyncio.sleep(0.001)


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() // 1024


def compared(samples: Sequence[Sample]) -> list[tuple[str, float, float]]:
    """Each figure's name, and what it was in the second and in the last tenth."""
    tenth = len(samples) // 10
    second, last = samples[tenth : 2 * tenth], samples[-tenth:]
    found = [
        (name, fmean(it.figures[name] for it in second), fmean(it.figures[name] for it in last))
        for name in samples[0].figures
    ]
    return [*found, ("milliseconds per block", _pace(second), _pace(last))]


def _pace(samples: Sequence[Sample]) -> float:
    slices = pairwise(samples[::SAMPLES_PER_SLICE])
    return median(1000 * (b.at - a.at) / (b.blocks - a.blocks) for a, b in slices)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=100_000)
    options = parser.parse_args()
    vars(service)["Follower"] = HastyFollower
    with _node() as url, tempfile.TemporaryDirectory(dir=room_in_memory()) as folder:
        soak = Soak(Path(folder), options.blocks)
        asyncio.run(soak.run(url))
    flat = True
    print(f"{'':24} {'second tenth':>14} {'last tenth':>14} {'ratio':>7}")
    for name, before, after in compared(soak.samples):
        ratio = after / before if before else float(after > 0)
        flat &= ratio <= MOST_GROWTH
        print(f"{name:24} {before:14,.2f} {after:14,.2f} {ratio:7.2f}")
    print("flat" if flat else "GROWS")
    return 0 if flat else 1


if __name__ == "__main__":
    sys.exit(main())
