"""What must hold at every moment of a run, and at its end.

While it runs:

fences      the fence of a height in the sink never falls, and no recorded height vanishes
durable     what the ledger records as done is recorded in the sink, for every table
leases      no write starts under an expired lease, unless its process was paused when it expired

At the end:

rows        the sink contains exactly the rows of the chain, each once
proof       `verify` finds nothing missing and nothing wrong
ledger      every backfill has ended, and its tables agree with its events
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import msgspec

from gapless.chains import network_of_chain
from gapless.core.ranges import RangeSet, Span
from gapless.core.selector import Selection
from gapless.devnode import Chain
from gapless.ledger import Ledger
from gapless.ledger.records import Backfill
from gapless.sinks import Sink
from gapless.sinks.sink import Batch
from gapless.verification import Verification
from tests.conformance.fetch.stage import truth_of
from tests.simulation.loop import Process
from tests.simulation.machine import NOON, Machine, Watch, unwrapped
from tests.simulation.observed import ChunkSeen, LedgerSeen, RangeSeen, SinkSeen
from tests.simulation.subjects import Subject


class Broken(AssertionError):
    """A law does not hold."""


class Laws(Watch):
    """Examines the ledger and the sink after every step of any process."""

    def __init__(
        self,
        ledger: LedgerSeen,
        sink: SinkSeen,
        datasets: Collection[str],
        clock: Callable[[], float],
        say: Callable[..., None],
    ) -> None:
        self._ledger = ledger
        self._sink = sink
        self._datasets = datasets
        self._clock = clock
        self._say = say
        self._ranges: list[RangeSeen] = []
        self._chunks: list[ChunkSeen] = []
        self._fences: dict[tuple[str, int], int] = {}
        self._written: dict[str, set[int]] = {dataset: set() for dataset in self._datasets}
        self._leases: dict[int, tuple[float, float]] = {}  # fence: when renewed, until when
        self._due: dict[int, float] = {}

    def close(self) -> None:
        self._ledger.close()
        self._sink.close()

    def begun(self, machine: Machine, thread: str, call: partial[Any]) -> None:
        name, arguments = unwrapped(call)
        if thread.endswith("sink") and name == "_write":
            batch, fence = arguments
            self._require_lease(machine.process, batch, fence)

    def done(self, machine: Machine, thread: str, call: partial[Any], outcome: str) -> None:
        self._say(f"{thread} {unwrapped(call)[0]} {outcome}", machine.process)
        if thread == "ledger":
            self._look_at_ledger(machine)
        else:
            self._look_at_sink()

    # Fences in the sink

    def _look_at_sink(self) -> None:
        ranges = self._sink.ranges()
        if ranges == self._ranges:
            return
        self._ranges = ranges
        fences: dict[tuple[str, int], int] = {}
        written: dict[str, set[int]] = {dataset: set() for dataset in self._datasets}
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

    def _look_at_ledger(self, machine: Machine) -> None:
        chunks = self._ledger.chunks()
        if chunks == self._chunks:
            return
        self._chunks = chunks
        for chunk in chunks:
            fence, due = chunk.fence, chunk.due
            if chunk.status == "RUNNING" and fence and due and self._due.get(fence) != due:
                self._due[fence] = due
                self._leases[fence] = (self._clock(), due - NOON - machine.offset)
            through = chunk.last if chunk.status == "COMPLETE" else chunk.last_processed
            if through is not None:
                done = RangeSet.of((chunk.first, through)) - _holes(chunk.holes)
                self._require_recorded(self._ledger.selection(chunk.selection), done)

    def _require_recorded(self, selection: Selection, done: RangeSet) -> None:
        for position in done:
            height = selection.ordinals.at(position)
            for dataset in self._datasets:
                if height not in self._written[dataset]:
                    self._break(f"{height} of `{dataset}` counts as done, but is not stored")
                    return

    def _require_lease(self, process: Process, batch: Batch, fence: int) -> None:
        renewed_at, until = self._leases.get(fence, (self._clock(), float("inf")))
        late = self._clock() - until
        if late > 0 and process.woke_at < renewed_at:
            self._break(
                f"{process} begins to write {batch.span} under fence {fence}, {late:.3f} s after"
                " its lease ended"
            )

    def _break(self, law: str) -> None:
        self._say(f"BROKEN {law}")
        self.broken = self.broken or law


def _holes(text: str | None) -> RangeSet:
    return RangeSet() if not text else RangeSet(msgspec.json.decode(text))


async def require_rows(
    sink: Sink, chain: Chain, span: Span, subject: Subject, datasets: Collection[str]
) -> None:
    """Compares the sink with the chain itself."""
    expected = truth_of(chain, span, subject.family, datasets)
    whole = Span(0, 10**6)
    for table in subject.family.tables:
        if table.name not in datasets:
            continue
        found = (await sink.read(table, chain.chain_id, whole)).combine_chunks()
        if found != expected[table.name]:
            raise Broken(
                f"`{table.name}` holds {found.num_rows} rows, and not the"
                f" {expected[table.name].num_rows} rows of the chain"
            )


async def require_proof(sink: Sink, chain: Chain, subject: Subject, *, deep: bool) -> None:
    """Verifies the stored rows."""
    facts = network_of_chain(chain.chain_id, subject.datasets)
    report = await Verification(sink, chain.chain_id, facts, {}, deep).report()
    if report is None or not report.complete:
        raise Broken(f"`verify` finds {report and (report.findings, report.gaps)}")


async def require_sound(ledger: Ledger, backfills: list[Backfill]) -> None:
    """Runs the ledger's own check."""
    for each in backfills:
        if not each.state.ended:
            raise Broken(f"backfill `{each.id}` is still {each.state}")
    problems = await ledger.check()
    if problems:
        raise Broken(f"the ledger disagrees with itself: {problems}")
