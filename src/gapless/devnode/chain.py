"""The chain of a node: its head moves, and its last blocks may be replaced.

The fixed part is read from a file: a simulated chain from the cache, or a recorded one (`replay`).
Blocks beyond it, from a growing head or a reorganisation, are built on top of the previous block,
so every hash links and every root is correct.

    recorded   0 ─ 1 ─ 2 ─ 3 ─ 4 ─ 5
                            └─ 4'─ 5'─ 6'    after reorg(4)

Of a built block, only the hash and the number of its branch are kept: they are enough to build it
again. So the head can grow by millions of blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from gapless.devnode.building import BlockBuilder, BlockNames, Built

if TYPE_CHECKING:
    from gapless.devnode.dialect import NodeDialect

_BUILT_BLOCKS_KEPT = 1024


class Move(NamedTuple):
    """New blocks of a chain, up to its new head."""

    first: int
    last: int
    reorg: bool  # other blocks were there before


class _Link(NamedTuple):
    """What a built block is built from again, together with its parent's hash."""

    hash: str
    branch: int


class Chain:
    """Blocks 0 to `head` and their receipts, as JSON."""

    def __init__(
        self,
        chain_id: int,
        blocks: Sequence[bytes],
        receipts: Sequence[bytes],
        builder: BlockBuilder,
    ) -> None:
        self.chain_id = chain_id
        self.head = len(blocks) - 1
        self.highest = self.head  # the highest head so far; a reorganisation may lower the head
        self.replaced: Mapping[int, Built] = {}  # by the last reorganisation, by height
        self.listeners: list[Callable[[Move], None]] = []  # called after every move of the head
        self._blocks, self._receipts = blocks, receipts
        self._builder = builder
        self._build = lru_cache(_BUILT_BLOCKS_KEPT)(self._builder.build)
        self._branch = 0
        self._fork = len(blocks)  # the first height of the tail
        self._tail: list[_Link] = []
        # Of all branches so far: an entry counts only if the chain has that block now.
        self._heights: dict[str, int] | None = None
        self._transactions: dict[str, tuple[int, int]] | None = None

    @property
    def dialect(self) -> NodeDialect:
        """How nodes of this chain are asked and answer."""
        return self._builder.dialect

    def block(self, height: int) -> bytes:
        """The block with full transactions."""
        return self._blocks[height] if height < self._fork else self._built(height).block

    def receipts(self, height: int) -> bytes:
        return self._receipts[height] if height < self._fork else self._built(height).receipts

    def hash(self, height: int) -> str:
        if height < self._fork:
            return self._builder.names(self._blocks[height]).hash
        return self._tail[height - self._fork].hash

    def branch(self, height: int) -> int:
        """The number of a block's branch. With the height, it identifies the block's ancestors."""
        return 0 if height < self._fork else self._tail[height - self._fork].branch

    def height_of(self, block_hash: str) -> int | None:
        """The height of the block with this hash; None if it was replaced."""
        if self._heights is None:
            self._heights = {self.hash(height): height for height in range(self._end)}
        height = self._heights.get(block_hash)
        if height is None or height > self.head or self.hash(height) != block_hash:
            return None
        return height

    def transaction(self, transaction_hash: str) -> tuple[int, int] | None:
        """The height of the transaction's block, and its index in the block."""
        if self._transactions is None:
            self._transactions = {}
            for height in range(self._end):
                self._enter_transactions(height, self.block(height))
        place = self._transactions.get(transaction_hash)
        if place is None or place[0] > self.head:
            return None
        hashes = self.names(self.block(place[0])).transactions
        return place if hashes[place[1] : place[1] + 1] == [transaction_hash] else None

    def names(self, block: bytes) -> BlockNames:
        """The hashes of a block and of its transactions."""
        return self._builder.names(block)

    def start_at(self, head: int) -> None:
        """Hides the blocks above a height, until the head grows again."""
        self.head = self.highest = min(head, self.head)

    def grow(self, blocks: int = 1) -> None:
        """Moves the head up."""
        for height in range(self.head + 1, self.head + 1 + blocks):
            if height == self._end:
                self._append(height)
            self._move(Move(height, height, reorg=False))

    def reorg(self, height: int, extra: int = 1) -> None:
        """Replaces the block at a height and all above it with another branch.

        The new branch is longer by `extra` blocks; it is shorter if that is negative.
        """
        if not 0 < height <= self.head:
            raise ValueError(f"no block {height:,} to replace: the head is {self.head:,}")
        if self.head + extra < height:
            raise ValueError(f"the new branch from block {height:,} on has no block")
        self.replaced = {
            at: Built(self.hash(at), self.block(at), self.receipts(at), self.branch(at))
            for at in range(height, self.head + 1)
        }
        self._branch += 1
        if height < self._fork:
            self._fork, self._tail = height, []
        else:
            del self._tail[height - self._fork :]
        last = self.head + extra
        for at in range(height, last + 1):
            self._append(at)
        self._move(Move(height, last, reorg=True))

    @property
    def _end(self) -> int:
        """The height after the last block, which `start_at` may have hidden."""
        return self._fork + len(self._tail)

    def _built(self, height: int) -> Built:
        branch = self._tail[height - self._fork].branch
        return self._build(height, self.hash(height - 1), branch)

    def _append(self, height: int) -> None:
        built = self._build(height, self.hash(height - 1), self._branch)
        self._tail.append(_Link(built.hash, self._branch))
        if self._heights is not None:
            self._heights[built.hash] = height
        if self._transactions is not None:
            self._enter_transactions(height, built.block)

    def _enter_transactions(self, height: int, block: bytes) -> None:
        assert self._transactions is not None
        for at, transaction_hash in enumerate(self.names(block).transactions):
            self._transactions[transaction_hash] = (height, at)

    def _move(self, move: Move) -> None:
        self.head = move.last
        self.highest = max(self.highest, self.head)
        for listener in self.listeners:
            listener(move)
