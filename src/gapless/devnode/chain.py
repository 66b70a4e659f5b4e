"""The chain of a node: its head moves, and its last blocks may be replaced.

The fixed part is read from a file: a simulated chain from the cache, or a recorded one (`replay`).
Blocks beyond it, from a growing head or a reorganisation, are built on demand on top of the
previous block, so every hash links and every root is correct.

    recorded   0 ─ 1 ─ 2 ─ 3 ─ 4 ─ 5
                            └─ 4'─ 5'─ 6'    after reorg(4)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
from msgspec import Struct

from gapless.devnode.blocks import Builder, Built, Parameters
from gapless.devnode.store import stored

__all__ = ["Chain", "Parameters", "simulated"]


class _Named(Struct, gc=False):
    hash: str


class _Names(Struct, gc=False):
    hash: str
    transactions: list[_Named]


_names = msgspec.json.Decoder(_Names).decode


class Chain:
    """Blocks 0 to `head` and their receipts, as JSON."""

    def __init__(
        self, chain_id: int, blocks: Sequence[bytes], receipts: Sequence[bytes], builder: Builder
    ) -> None:
        self.chain_id = chain_id
        self.head = len(blocks) - 1
        self._blocks, self._receipts = blocks, receipts
        self._builder = builder
        self._branch = 0
        self._fork = len(blocks)  # the first height of the tail
        self._tail: list[Built] = []
        self._heights: dict[str, int] | None = None
        self._transactions: dict[str, tuple[int, int]] = {}

    def block(self, height: int) -> bytes:
        """The block with full transactions."""
        if height < self._fork:
            return self._blocks[height]
        return self._tail[height - self._fork].block

    def receipts(self, height: int) -> bytes:
        if height < self._fork:
            return self._receipts[height]
        return self._tail[height - self._fork].receipts

    def hash(self, height: int) -> str:
        return _names(self.block(height)).hash

    def height_of(self, block_hash: str) -> int | None:
        """The height of the block with this hash; None if it was replaced."""
        height = self._index()[0].get(block_hash)
        return height if height is not None and height <= self.head else None

    def transaction(self, transaction_hash: str) -> tuple[int, int] | None:
        """The height of the transaction's block, and its index in the block."""
        place = self._index()[1].get(transaction_hash)
        return place if place is not None and place[0] <= self.head else None

    def start_at(self, head: int) -> None:
        """Hides the blocks above a height, until the head grows again."""
        self.head = min(head, self.head)

    def grow(self, blocks: int = 1) -> None:
        """Moves the head up."""
        for _ in range(blocks):
            if self.head + 1 == self._fork + len(self._tail):
                self._append(self.head + 1)
            self.head += 1

    def reorg(self, height: int, extra: int = 1) -> None:
        """Replaces the block at a height and all above it with a longer branch."""
        if not 0 < height <= self.head:
            raise ValueError(f"no block {height:,} to replace: the head is {self.head:,}")
        self._branch += 1
        if height < self._fork:
            self._fork, self._tail = height, []
        else:
            del self._tail[height - self._fork :]
        self.head += extra
        self._heights = None
        for at in range(height, self.head + 1):
            self._append(at)

    def _append(self, height: int) -> None:
        built = self._builder.build(height, self.hash(height - 1), self._branch)
        self._tail.append(built)
        if self._heights is not None:
            self._enter(height)

    def _index(self) -> tuple[dict[str, int], dict[str, tuple[int, int]]]:
        """The index of hashes, built on first use."""
        if self._heights is None:
            self._heights, self._transactions = {}, {}
            for height in range(self._fork + len(self._tail)):
                self._enter(height)
        return self._heights, self._transactions

    def _enter(self, height: int) -> None:
        assert self._heights is not None
        names = _names(self.block(height))
        self._heights[names.hash] = height
        for at, transaction in enumerate(names.transactions):
            self._transactions[transaction.hash] = (height, at)


def simulated(parameters: Parameters | None = None, cache: Path | None = None) -> Chain:
    """The simulated chain of these parameters, from the cache if it is there."""
    wanted = parameters or Parameters()
    found = stored(wanted, cache)
    return Chain(wanted.chain_id, found.blocks, found.receipts, Builder(wanted))


def builder_above(chain_id: int, parameters: Parameters | None = None) -> Builder:
    """Builds on a chain that was not simulated."""
    return Builder(replace(parameters or Parameters(), chain_id=chain_id))
