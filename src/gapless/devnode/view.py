"""What a node sees and allows when it answers a call.

The head of a view may be below the chain's own head, and its last blocks may be those of a replaced
branch, as with a node behind a load balancer that has not caught up.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from msgspec import Raw, Struct

from gapless.devnode.building import Built
from gapless.devnode.chain import Chain
from gapless.devnode.limits import Limits, Provider

NULL = b"null"


class MethodCall(Struct):
    """A request for one method."""

    method: str
    params: Raw = Raw(b"[]")
    id: Raw = Raw(NULL)

    @property
    def key(self) -> bytes:
        """The same for equal calls."""
        return self.method.encode() + bytes(self.params)


class View(NamedTuple):
    """What the node sees and allows when it answers a call."""

    chain: Chain
    head: int
    limits: Limits
    highest: int | None = None  # the highest head so far, if it was above this one
    unready_from: int | None = None  # blocks from here to the head are announced, but not served
    replaced: Mapping[int, Built] = MappingProxyType({})  # served instead of the chain's, by height

    @property
    def provider(self) -> Provider:
        """Whose error messages to imitate."""
        return self.limits.provider(self.chain.dialect.words)

    def has(self, height: int) -> bool:
        return height <= self.head and (self.unready_from is None or height < self.unready_from)

    def block(self, height: int) -> bytes:
        other = self.replaced.get(height)
        return self.chain.block(height) if other is None else other.block

    def receipts(self, height: int) -> bytes:
        other = self.replaced.get(height)
        return self.chain.receipts(height) if other is None else other.receipts

    def branch(self, height: int) -> int:
        """The number of the branch of the block that this view has at a height."""
        other = self.replaced.get(height)
        return self.chain.branch(height) if other is None else other.branch

    def settled(self, depth: int) -> int:
        """The height this far below the highest head so far, which never moves back."""
        highest = self.head if self.highest is None else self.highest
        return max(0, highest - depth)

    def height_of(self, block_hash: str) -> int | None:
        """The height of the block with this hash, if this view has it."""
        for height, other in self.replaced.items():
            if other.hash == block_hash:
                return height
        found = self.chain.height_of(block_hash)
        return None if found in self.replaced else found

    def transaction(self, transaction_hash: str) -> tuple[int, int] | None:
        """The height of the transaction's block, and its index in the block."""
        for height, other in self.replaced.items():
            hashes = self.chain.names(other.block).transactions
            if transaction_hash in hashes:
                return height, hashes.index(transaction_hash)
        found = self.chain.transaction(transaction_hash)
        return None if found is None or found[0] in self.replaced else found
