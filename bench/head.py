"""How far a follow is behind the head of a chain while history uses all that the node allows.

`gapless follow` runs with its default slots. The lag of a new block is the time from the moment
when the node shows it until it is committed to the sink, in block times. In the runs that fail, the
node lies about the receipts of all history, so that every chunk of history fails and is retried.
Runs with one lane show what the priority lane is for (`one_lane`); they have no bounds.

It takes about eleven minutes. HEAD_BLOCKS=10 in the environment measures ten times as many blocks.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

import apsw

from bench.report import Bound, Row, at_most
from bench.runs import NETWORK, room
from gapless.devnode import DevNode, Fault, Faults, Limits, Pace, Parameters, simulated
from gapless.devnode.chain import Move
from gapless.devnode.evm.methods import heights_in
from gapless.devnode.injector import Injector, Lot
from gapless.devnode.limits import FINALITY_DEPTH
from gapless.devnode.view import MethodCall, View
from tests.waiting import eventually

HISTORY = 100_000  # blocks: more than a run can fetch
CALLS_PER_SECOND = 200
WARM_UP = 3  # new blocks, while the follow learns how fast node and chain are
PATIENCE = 5  # block times after the last new block
LOOK_EVERY = 0.01  # seconds
TIMES = int(os.environ.get("HEAD_BLOCKS", "1"))
MEDIAN, P99 = at_most(1), at_most(3)


@dataclass(frozen=True)
class Trial:
    """One run: its chain, and how history and new blocks share the process."""

    block_time: float
    blocks: int
    failing: bool = False
    one_lane: bool = False

    @property
    def name(self) -> str:
        what = "history fails" if self.failing else "history runs"
        return f"head, {self.block_time:g} s, {what}{', one lane' if self.one_lane else ''}"


TRIALS = (
    Trial(3, 36),
    Trial(12, 10),
    Trial(3, 26, failing=True),
    Trial(12, 10, failing=True),
    Trial(3, 8, one_lane=True),
    Trial(3, 8, failing=True, one_lane=True),
)


@dataclass(frozen=True)
class Result:
    """The lags of the new blocks in block times, and how busy the node was meanwhile."""

    lags: Sequence[float]
    late: int  # blocks that were not stored when the run ended
    calls: float  # per second
    history: float  # blocks per second
    failed: int  # runs of chunks


class LyingAboutHistory(Injector):
    """Every answer with the receipts of a block of history lacks some."""

    def __init__(self) -> None:
        super().__init__(Faults())
        self.active = True

    def of_call(self, view: View, call: MethodCall) -> Lot | None:
        if call.method not in ("eth_getBlockReceipts", "eth_getLogs"):
            return None
        heights = heights_in(view, call.method, call.params)
        if heights is None or heights[1] > HISTORY - 2 * FINALITY_DEPTH:
            return None
        return Lot(Fault.NULL if heights[0] // 1000 % 2 else Fault.TRUNCATED, heights[0])


async def measure() -> AsyncIterator[Row]:
    for trial in TRIALS:
        found = await _run(trial)
        busy = f"{found.calls:.0f} calls/s, "
        busy += f"{found.failed} failures" if trial.failing else f"{found.history:.0f} blocks/s"
        yield Row(f"{trial.name}: history", busy)
        yield _lag(trial, found, "median", 0.5, MEDIAN)
        yield _lag(trial, found, "99th percentile", 0.99, P99)


def _lag(trial: Trial, found: Result, what: str, share: float, bound: Bound) -> Row:
    ordered = sorted(found.lags)
    lag = ordered[min(len(ordered) - 1, int(share * len(ordered)))]
    late = f"; {found.late} of {len(ordered)} not stored" if found.late else ""
    figure = f"{lag * trial.block_time:.2f} s{late}"
    return Row(f"{trial.name}: {what}", figure, lag, None if trial.one_lane else bound)


async def _run(trial: Trial) -> Result:
    chain = simulated(Parameters(blocks=HISTORY, txs=2))
    shown: dict[int, float] = {}

    def note(move: Move) -> None:
        shown[move.last] = monotonic()

    chain.listeners.append(note)
    node = DevNode(
        chain,
        limits=Limits(rps=CALLS_PER_SECOND),
        pace=Pace(head_every=trial.block_time, latency=0.02),
    )
    if trial.failing:
        node.injector = LyingAboutHistory()
    with room() as place:
        async with node, _followed(node.url, place.folder, one_lane=trial.one_lane):
            return await _watched(trial, node, shown, place.folder)


async def _watched(trial: Trial, node: DevNode, shown: dict[int, float], folder: Path) -> Result:
    """Looks at the sink until all new blocks are stored, or the patience ends."""
    chain, sink = node.chain, folder / "sink.db"
    await eventually(lambda: sink.exists() and chain.head > HISTORY)
    reader = apsw.Connection(str(sink), flags=apsw.SQLITE_OPEN_READONLY)
    first = chain.head + WARM_UP
    last = first + trial.blocks * TIMES - 1
    stored: dict[int, float] = {}
    end = float("inf")
    began, calls, history = 0.0, 0, 0
    while len(stored) <= last - first and monotonic() < end:
        await asyncio.sleep(LOOK_EVERY)
        for height in _heights(reader, first, last):
            stored.setdefault(height, monotonic())
        if not began and chain.head >= first:
            began, calls, history = monotonic(), node.calls.total(), _stored_history(reader)
        if end == float("inf") and chain.head >= last:
            end = monotonic() + PATIENCE * trial.block_time
    now = monotonic()
    lags = [stored.get(at, now) - shown[at] for at in range(first, last + 1)]
    return Result(
        [lag / trial.block_time for lag in lags],
        len(lags) - len(stored),
        (node.calls.total() - calls) / (now - began),
        (_stored_history(reader) - history) / (now - began),
        _failed_runs(folder / "ledger.db"),
    )


def _heights(reader: apsw.Connection, first: int, last: int) -> list[int]:
    wanted = "SELECT block_number FROM blocks WHERE block_number BETWEEN ? AND ?"
    try:
        return [height for (height,) in reader.execute(wanted, (first, last))]
    except (apsw.SQLError, apsw.BusyError):  # the tables are being created
        return []


def _stored_history(reader: apsw.Connection) -> int:
    return len(_heights(reader, 0, HISTORY))


def _failed_runs(ledger: Path) -> int:
    reader = apsw.Connection(str(ledger), flags=apsw.SQLITE_OPEN_READONLY)
    return int(reader.execute("SELECT count(*) FROM attempts").get)


@asynccontextmanager
async def _followed(url: str, folder: Path, *, one_lane: bool) -> AsyncIterator[None]:
    """A process that follows the chain of a node, from its first block on."""
    (folder / "gapless.toml").write_text(
        f"""
        ledger = "sqlite:///{folder}/ledger.db"
        endpoints.node = {{ url = "{url}", network = "{NETWORK}" }}
        sinks.sink = {{ url = "{folder}/sink.db" }}
        follow.bench = {{ network = "{NETWORK}", from = 0 }}
        """
    )
    module = "bench.one_lane" if one_lane else "gapless"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, "follow", "--quiet"),
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])},
        stderr=asyncio.subprocess.DEVNULL,  # it reports every chunk that fails
    )
    try:
        yield
        assert process.returncode is None, "the follow has ended"
    finally:
        process.send_signal(signal.SIGINT)
        await process.wait()
