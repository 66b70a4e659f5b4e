"""How a live chain moves: one step per block time, a new block or a scheduled reorganisation.

The schedule is a function of its seed and of the number of steps alone. So equal seeds give equal
histories, whatever the clock does.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from random import Random
from typing import NamedTuple

from gapless.devnode.chain import Chain

DEFAULT_DEPTH = 3


class Reorg(NamedTuple):
    """A replacement of the last blocks by another branch."""

    depth: int  # blocks that are replaced
    length: int  # blocks of the new branch


@dataclass(frozen=True, slots=True)
class ReorgSchedule:
    """One reorganisation in every `every` steps, of up to `depth` blocks.

    The new branch has up to one block more or less than the old one, and at least one block.
    """

    every: int
    depth: int = DEFAULT_DEPTH
    seed: int = 0

    def __post_init__(self) -> None:
        if self.every < 1 or self.depth < 1:
            raise ValueError("a schedule needs at least one step, and a depth of at least one")

    def at(self, step: int) -> Reorg | None:
        """The reorganisation of a step, if it has one."""
        window, position = divmod(step, self.every)
        name = f"{self.seed}:{self.every}:{self.depth}:{window}".encode()
        rng = Random(blake2b(name, digest_size=16).digest())
        if position != rng.randrange(self.every):
            return None
        depth = rng.randint(1, self.depth)
        return Reorg(depth, max(1, depth + rng.randint(-1, 1)))


class Growth:
    """Moves a chain step by step; the caller decides when, so it works on any clock."""

    def __init__(self, chain: Chain, reorgs: ReorgSchedule | None = None) -> None:
        self._chain, self._reorgs = chain, reorgs
        self._steps = 0

    def step(self) -> None:
        """Adds a block, or replaces the last ones if that is scheduled for this step."""
        reorg = None if self._reorgs is None else self._reorgs.at(self._steps)
        self._steps += 1
        depth = 0 if reorg is None else min(reorg.depth, self._chain.head)  # never the genesis
        if reorg is None or depth == 0:
            self._chain.grow()
        else:
            replace_last(self._chain, depth, min(reorg.length, depth + 1))


def replace_last(chain: Chain, depth: int, length: int | None = None) -> None:
    """Replaces the last `depth` blocks with `length` others; by default, with one more."""
    new = depth + 1 if length is None else length
    chain.reorg(chain.head - depth + 1, extra=new - depth)
