"""What the figures have to keep, as the rows of any measurement."""

from __future__ import annotations

from collections.abc import Iterator

from bench.fetching import TOO_NEAR
from bench.peers.results import FAULTS, Part, Results
from bench.peers.tools import CRYO, ETHEREUM_ETL, GAPLESS, OURS
from bench.rendered import LARGE
from bench.report import Row, at_least, at_most

_FASTER = {CRYO.name: at_least(2), ETHEREUM_ETL.name: at_least(5)}


def bounds(results: Results) -> Iterator[Row]:
    for part in results.parts:
        yield from _of(part)


def _of(part: Part) -> Iterator[Row]:
    name, ours, cells = part.task.workload.name, part.speeds[GAPLESS.name], part.cells[GAPLESS.name]
    wrong = sum(cell.count.lost + cell.count.doubled for cell in cells.values())
    yield Row(f"{name}: rows that Gapless lost or doubled", str(wrong), wrong, at_most(0))
    ended = sum(not ran.complete for cell in cells.values() for ran in cell.rounds)
    yield Row(f"{name}: runs of Gapless that were not complete", str(ended), ended, at_most(0))
    if met := [fault for fault in cells if cells[fault].injected]:
        slowest = max(met, key=lambda fault: cells[fault].seconds)
        times = cells[slowest].seconds / ours.seconds
        figure = f"{times:.2f}, with {FAULTS[slowest]}"
        yield Row(f"{name}: its slowest fault by its clean run", figure, times, at_most(2))
    best = min(part.speeds[each].net for each in OURS if each in part.speeds)
    near = part.task.blocks / best / part.ceiling
    yield Row(f"{name}: of the node's ceiling", f"{near:.2f}", near, at_most(TOO_NEAR))
    if part.task.workload == LARGE:
        for peer, bound in _FASTER.items():
            if peer in part.speeds:
                faster = part.speeds[peer].net / best
                yield Row(f"{name}: times as fast as {peer}", f"{faster:.2f}", faster, bound)
