"""What a process has done: chunks, partitions, and the blocks that it has written. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import sub
from typing import NamedTuple

from gapless.telemetry import metrics
from gapless.telemetry.metrics import Snapshot


class Work(NamedTuple):
    """Chunks completed, their partitions, and the blocks written in how many batches."""

    chunks: int = 0
    partitions: int = 0
    blocks: int = 0
    batches: int = 0

    @classmethod
    def of(cls, ended: Mapping[str, int], numbers: Snapshot) -> Work:
        """The work of a process, from how its runs ended and what it has counted."""
        counters = (metrics.PARTITIONS, metrics.BLOCKS, metrics.BATCHES)
        totals = (sum(value for _, (value,) in numbers.get(it.name, ())) for it in counters)
        return cls(ended.get("completed", 0), *map(int, totals))

    @classmethod
    def total(cls, works: Iterable[Work]) -> Work:
        return cls(*map(sum, zip(cls(), *works, strict=True)))

    def without(self, other: Work) -> Work:
        return Work(*map(sub, self, other))
