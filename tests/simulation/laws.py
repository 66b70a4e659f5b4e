"""What must hold at every moment of a run, and at its end.

While it runs:

fences      the fence of a height in the sink never falls, and no recorded height vanishes
durable     what the ledger counts as done is recorded in the sink, for every table
leases      nobody begins to write under a lease that has ended, unless it slept through the end

At the end:

rows        the sink holds the rows of the chain, each once, and no others
proof       `verify` finds nothing missing and nothing wrong
ledger      every backfill has ended, and its tables agree with its events
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import msgspec

from gapless.chains import network_of_chain
from gapless.chains.evm.tables import TABLES
from gapless.core.coroutines import run_sync
from gapless.core.ranges import RangeSet, Span
from gapless.core.selector import Selection
from gapless.devnode import Chain
from gapless.ledger import Ledger, views
from gapless.ledger.records import Backfill
from gapless.ledger.sqlite.database import SqliteTransaction
from gapless.sinks import Sink
from gapless.sinks.sink import Batch
from gapless.verification import Verification
from tests.conformance.fetch.stage import truth
from tests.simulation.loop import PROCESS, Process
from tests.simulation.machine import NOON, Machine, Watch

DATASETS = tuple(table.name for table in TABLES)
_CHUNKS = """
SELECT selection, first, last, status, fence, due, last_processed, holes
FROM chunks JOIN backfills ON backfills.id = chunks.backfill_id WHERE job = 'blocks'
"""
_RANGES = "SELECT dataset, first, last, fence, kind FROM _gapless_ranges ORDER BY dataset, first"


class Broken(AssertionError):
    """A law does not hold."""


class Laws(Watch):
    """Looks at the ledger and the sink after every step of anybody."""

    def __init__(
        self, ledger: Path, sink: Path, clock: Callable[[], float], said: Callable[..., None]
    ) -> None:
        self._paths = {"ledger": ledger, "sqlite-sink": sink}
        self._clock = clock
        self._said = said
        self._eyes: dict[str, apsw.Connection] = {}
        self._ranges: list[Any] = []
        self._chunks: list[Any] = []
        self._fences: dict[tuple[str, int], int] = {}
        self._written: dict[str, set[int]] = {dataset: set() for dataset in DATASETS}
        self._selections: dict[str, Selection] = {}
        self._leases: dict[int, tuple[float, float]] = {}  # fence: when renewed, until when
        self._due: dict[int, float] = {}
        self.broken: str | None = None

    def close(self) -> None:
        for connection in self._eyes.values():
            connection.close()

    def begun(self, machine: Machine, thread: str, call: partial[Any]) -> None:
        name, arguments = _unwrapped(call)
        if thread == "sqlite-sink" and name == "_write":
            batch, fence = arguments
            self._require_lease(machine.process, batch, fence)

    def done(self, machine: Machine, thread: str, call: partial[Any], outcome: str) -> None:
        self._said(f"{thread} {_unwrapped(call)[0]} {outcome}", machine.process)
        connection = self._looking(thread)
        if connection is None:
            return
        if thread == "ledger":
            self._look_at_ledger(connection, machine)
        else:
            self._look_at_sink(connection)

    def _looking(self, thread: str) -> apsw.Connection | None:
        path = self._paths.get(thread)
        if path is None or not path.exists():
            return None
        if thread not in self._eyes:
            eyes = _opened(path)
            wanted = "chunks" if thread == "ledger" else "_gapless_ranges"
            found = eyes.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (wanted,)).fetchone()
            if found is None:
                eyes.close()
                return None
            self._eyes[thread] = eyes
        return self._eyes[thread]

    # Fences in the sink

    def _look_at_sink(self, eyes: apsw.Connection) -> None:
        ranges: list[Any] = eyes.execute(_RANGES).fetchall()
        if ranges == self._ranges:
            return
        self._ranges = ranges
        fences: dict[tuple[str, int], int] = {}
        written: dict[str, set[int]] = {dataset: set() for dataset in DATASETS}
        for dataset, first, last, fence, kind in ranges:
            for height in range(first, last + 1):
                fences[dataset, height] = max(fence, fences.get((dataset, height), 0))
            if kind == "written":
                written[dataset].update(range(first, last + 1))
        for (dataset, height), fence in self._fences.items():
            now = fences.get((dataset, height))
            if now is None:
                self._break(f"height {height} of `{dataset}` is not recorded any more")
            elif now < fence:
                self._break(f"the fence of {height} in `{dataset}` fell from {fence} to {now}")
        self._fences, self._written = fences, written

    # Progress and leases in the ledger

    def _look_at_ledger(self, eyes: apsw.Connection, machine: Machine) -> None:
        chunks: list[Any] = eyes.execute(_CHUNKS).fetchall()
        if chunks == self._chunks:
            return
        self._chunks = chunks
        for hash_, first, last, status, fence, due, reached, holes in chunks:
            if status == "RUNNING" and self._due.get(fence) != due:
                self._due[fence] = due
                self._leases[fence] = (self._clock(), due - NOON - machine.offset)
            through = last if status == "COMPLETE" else reached
            if through is not None:
                done = RangeSet.of((first, through)) - _holes(holes)
                self._require_recorded(self._selection(eyes, hash_), done)

    def _require_recorded(self, selection: Selection, done: RangeSet) -> None:
        for position in done:
            height = selection.ordinals.at(position)
            for dataset in DATASETS:
                if height not in self._written[dataset]:
                    self._break(f"{height} of `{dataset}` counts as done, but is not stored")
                    return

    def _selection(self, eyes: apsw.Connection, hash_: str) -> Selection:
        if hash_ not in self._selections:
            tx = SqliteTransaction(eyes, lambda: {"now": 0.0, "actor": "", "shard": 0})
            self._selections[hash_] = run_sync(views.selection(tx, hash_))
        return self._selections[hash_]

    def _require_lease(self, process: Process, batch: Batch, fence: int) -> None:
        renewed_at, until = self._leases.get(fence, (self._clock(), float("inf")))
        late = self._clock() - until
        if late > 0 and process.paused_at < renewed_at:
            self._break(
                f"{process} begins to write {batch.span} under fence {fence}, {late:.3f} s after"
                " its lease ended"
            )

    def _break(self, law: str) -> None:
        self._said(f"BROKEN {law}")
        self.broken = self.broken or law


def _opened(path: Path) -> apsw.Connection:
    """A connection that outlives the process in whose context it is opened."""
    token = PROCESS.set(None)
    try:
        return apsw.Connection(str(path))
    finally:
        PROCESS.reset(token)


def _unwrapped(call: partial[Any]) -> tuple[str, tuple[Any, ...]]:
    """The name and the arguments of what a thread really does."""
    inner = call.args[0] if call.args else None
    if call.func.__name__ == "_steadily" and isinstance(inner, partial):
        return inner.func.__name__, inner.args
    return getattr(call.func, "__name__", "?"), call.args


def _holes(text: str | None) -> RangeSet:
    return RangeSet() if not text else RangeSet(msgspec.json.decode(text))


async def require_rows(sink: Sink, chain: Chain, span: Span) -> None:
    """Compares the sink with the chain itself."""
    expected = truth(chain, span)
    whole = Span(0, 10**6)
    for table in TABLES:
        found = (await sink.read(table, chain.chain_id, whole)).combine_chunks()
        if found != expected[table.name]:
            raise Broken(
                f"`{table.name}` holds {found.num_rows} rows, and not the"
                f" {expected[table.name].num_rows} rows of the chain"
            )


async def require_proof(sink: Sink, chain: Chain) -> None:
    """Has the stored rows prove themselves."""
    facts = network_of_chain(chain.chain_id)
    report = await Verification(sink, chain.chain_id, facts, {}, True).report()
    if report is None or not report.complete:
        raise Broken(f"`verify` finds {report and (report.findings, report.gaps)}")


async def require_sound(ledger: Ledger, backfills: list[Backfill]) -> None:
    """Has the ledger check itself."""
    for each in backfills:
        if not each.state.ended:
            raise Broken(f"backfill `{each.id}` is still {each.state}")
    problems = await ledger.check()
    if problems:
        raise Broken(f"the ledger disagrees with itself: {problems}")
