"""The bounds that the figures must meet, as rows like those of any measurement.

A figure that would mostly measure how long a tool takes to start has no bound.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench.fetching import TOO_NEAR
from bench.peers.results import FAULTS, Part, Results, Speed, Trial, faster
from bench.peers.tools import CRYO, ETHEREUM_ETL, GAPLESS, OURS, SQUID
from bench.rendered import LARGE, SMALL
from bench.report import Bound, Row, at_least, at_most

TOO_SHORT = "too short to compare"
# One process of Gapless, net of the start.
_FASTER = {
    LARGE: {CRYO.name: at_least(2), SQUID.name: at_least(3.5), ETHEREUM_ETL.name: at_least(20)},
    SMALL: {CRYO.name: at_least(1.5), SQUID.name: at_least(2.5), ETHEREUM_ETL.name: at_least(10)},
}
_FASTER_WHOLE = {LARGE: at_least(1.5), SMALL: at_least(1)}  # than cryo, with the start


def bounds(results: Results) -> Iterator[Row]:
    for part in results.parts:
        yield from _of_part(part)
    for trial in results.trials:
        yield from _of_trial(trial)


def _of_part(part: Part) -> Iterator[Row]:
    name, ours, cells = part.task.workload.name, part.speeds[GAPLESS.name], part.cells[GAPLESS.name]
    wrong = sum(cell.count.lost + cell.count.doubled for cell in cells.values())
    yield Row(f"{name}: rows that Gapless lost or duplicated", str(wrong), wrong, at_most(0))
    ended = sum(not ran.complete for cell in cells.values() for ran in cell.rounds)
    yield Row(f"{name}: runs of Gapless that were not complete", str(ended), ended, at_most(0))
    if met := [fault for fault in cells if cells[fault].injected]:
        slowest = max(met, key=lambda fault: cells[fault].seconds)
        times = cells[slowest].seconds / ours.seconds if ours.comparable else None
        words = f"with {FAULTS[slowest]}"
        yield _row(f"{name}: slowest fault relative to the clean run", times, at_most(2), words)
    best = _best(part)
    near = part.task.blocks / best.net / part.ceiling if best.comparable else None
    yield _row(f"{name}: share of the node's maximum rate", near, at_most(TOO_NEAR))
    for peer, bound in _FASTER[part.task.workload].items():
        if peer not in part.speeds:
            continue
        theirs = part.speeds[peer]
        net = faster(ours, theirs)
        yield _row(f"{name}: times as fast as {peer}", net, bound)
        if peer == CRYO.name:
            whole = None if net is None else theirs.seconds / ours.seconds
            words = f"{name}: times as fast as {peer}, whole command"
            yield _row(words, whole, _FASTER_WHOLE[part.task.workload])


def _best(part: Part) -> Speed:
    """The fastest way to run Gapless, of those that ran long enough."""
    ours = [part.speeds[each] for each in OURS if each in part.speeds]
    return min(ours, key=lambda speed: (not speed.comparable, speed.net))


def _of_trial(trial: Trial) -> Iterator[Row]:
    name, ours = trial.provider.name, trial.speeds[GAPLESS.name]
    ended = sum(not ran.complete for ran in ours.whole)
    yield Row(f"{name}: runs of Gapless that were not complete", str(ended), ended, at_most(0))
    if not ours.complete:
        return
    if trial.provider.conditions.rps is not None:
        used = trial.budget_used(GAPLESS.name)
        yield _row(f"{name}: share of the budget used", used, at_least(0.9))
    if CRYO.name in trial.speeds and trial.speeds[CRYO.name].complete:
        times = trial.faster(GAPLESS.name, CRYO.name)
        yield _row(f"{name}: times as fast as {CRYO.name}", times, at_least(1))


def _row(name: str, ratio: float | None, bound: Bound, words: str = "") -> Row:
    if ratio is None:
        return Row(name, TOO_SHORT)
    return Row(name, f"{ratio:.2f}{f', {words}' if words else ''}", ratio, bound)
