"""The answers of a simulated chain, rendered beforehand, to be spliced behind the id of a call.

A node that is measured against must not be what is measured. All that it would compute is in the
chain's files in the devnode's cache, one answer a line; here those files are mapped, and each
answer is a view into them: to find one is an index, to send one is a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gapless.devnode import Parameters
from gapless.devnode.methods import FINALITY_DEPTH, SAFE_DEPTH
from gapless.devnode.store import stored


@dataclass(frozen=True)
class Workload:
    """Blocks 1 to `blocks` of a chain, which is long enough that they are all final."""

    name: str
    blocks: int
    transactions: int

    @property
    def parameters(self) -> Parameters:
        return Parameters(blocks=self.blocks + FINALITY_DEPTH, txs=self.transactions)


SMALL, LARGE = Workload("small", 5_000, 5), Workload("large", 500, 150)
LONG = Workload("long", 50_000, 1)
WORKLOADS = {each.name: each for each in (SMALL, LARGE, LONG)}


@dataclass(frozen=True)
class Rendered:
    """The results of the two methods that fetch a chain, by height, and what tags stand for."""

    blocks: Sequence[memoryview]
    receipts: Sequence[memoryview]

    @property
    def head(self) -> int:
        return len(self.blocks) - 1

    @property
    def tags(self) -> dict[str, int]:
        return {
            "earliest": 0,
            "finalized": max(0, self.head - FINALITY_DEPTH),
            "safe": max(0, self.head - SAFE_DEPTH),
            "latest": self.head,
            "pending": self.head,
        }


def rendered(parameters: Parameters, cache: Path | None = None) -> Rendered:
    """The chain of these parameters; the first time it takes a while to be built."""
    found = stored(parameters, cache)
    return Rendered(found.blocks.views(), found.receipts.views())
