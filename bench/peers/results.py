"""What was measured: the clean runs and the fault cells of each workload, and where."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import reduce
from math import nan
from operator import add

from bench.peers.counting import Count
from bench.peers.providers import Provider
from bench.peers.running import Ran, Task
from bench.report import median

SEVERAL = 2  # a run must take this many times its start, net, to say anything about speed

# The faults as the devnode parses them, and as a person calls them.
FAULTS = {
    "429-bare=0.05": "5 % of requests: HTTP 429",
    "500=0.01": "1 % of requests: HTTP 500",
    "malformed=0.01": "1 % of requests: invalid or truncated JSON",
    "drop=0.01": "1 % of requests: the connection breaks",
    "null=0.01": "1 % of calls: `null`",
    "empty=0.01": "1 % of calls: `[]`",
    "truncated=0.01": "1 % of calls: the last log, receipt or transaction is lost",
    "wrong-block=0.01": "1 % of calls: the answer of a neighbouring block",
}


@dataclass(frozen=True)
class Speed:
    """How fast a tool is: rounds of the whole job, and of the job for a single block."""

    whole: Sequence[Ran]
    one_block: Sequence[Ran]

    @property
    def seconds(self) -> float:
        return median(ran.seconds for ran in self.whole)

    @property
    def start(self) -> float:
        return median(ran.seconds for ran in self.one_block)

    @property
    def net(self) -> float:
        """The seconds beyond those for a single block; NaN if there are none."""
        return self.seconds - self.start if self.seconds > self.start else nan

    @property
    def comparable(self) -> bool:
        """Whether the job took long enough that the start hardly matters."""
        return self.net >= SEVERAL * self.start

    @property
    def complete(self) -> bool:
        return all(ran.complete for ran in self.whole)

    @property
    def calls(self) -> float:
        return median(ran.calls for ran in self.whole)

    @property
    def cpu_seconds(self) -> float:
        return median(ran.cpu_seconds for ran in self.whole)

    @property
    def node_share(self) -> float:
        """How busy the node was; near 1, the node is what was measured."""
        return median(ran.node_seconds / ran.seconds for ran in self.whole)


@dataclass(frozen=True)
class Cell:
    """A tool with a fault, in one or several rounds, each with other random faults."""

    rounds: Sequence[Ran]

    @property
    def seconds(self) -> float:
        return median(ran.seconds for ran in self.rounds)

    @property
    def count(self) -> Count:
        return reduce(add, (ran.count for ran in self.rounds))

    @property
    def injected(self) -> int:
        return sum(ran.injected for ran in self.rounds)

    @property
    def worst(self) -> Ran:
        """The most telling round: one that silently lost rows, else one that failed."""
        return max(self.rounds, key=lambda ran: (ran.silent, not ran.complete))


@dataclass(frozen=True)
class Part:
    """Everything that was measured on one workload, by tool name."""

    task: Task
    ceiling: float  # blocks per second that a client gets that does nothing with them
    speeds: Mapping[str, Speed]
    cells: Mapping[str, Mapping[str, Cell]]  # by tool, then by fault


@dataclass(frozen=True)
class Trial:
    """All tools with a provider that slows them down, by name.

    The start is measured with a node that answers at once.
    """

    provider: Provider
    task: Task
    speeds: Mapping[str, Speed]

    def budget_used(self, tool: str) -> float | None:
        """The share of the allowed calls that a tool got answered, if it can be computed."""
        speed, rps = self.speeds[tool], self.provider.conditions.rps
        if rps is None or not speed.comparable or not speed.complete:
            return None
        return speed.calls / (rps * (1 + speed.net))  # one second's calls come at once

    def faster(self, ours: str, theirs: str) -> float | None:
        """How many times as fast one of two tools is, if both did the job and it took long."""
        if not (self.speeds[ours].complete and self.speeds[theirs].complete):
            return None
        return faster(self.speeds[ours], self.speeds[theirs])


def faster(ours: Speed, theirs: Speed) -> float | None:
    """How many times as fast we are, net of the start; None if that would measure the start."""
    return theirs.net / ours.net if ours.comparable and theirs.comparable else None


@dataclass(frozen=True)
class Results:
    parts: Sequence[Part]
    trials: Sequence[Trial]
    missing: Mapping[str, str]  # tools that are missing, and why
    quick: bool
    day: date
    machine: str
    is_compiled: bool = True  # whether Gapless used its compiled core


def this_machine() -> str:
    return f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}"
