"""What a family gives a simulated chain: its blocks, built from parameters.

A block depends only on the parameters, its branch, its height and its parent's hash. So the chain
can be extended from any block: this is how its head grows and how a reorganisation gets another
valid tail.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from hashlib import blake2b
from random import Random
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from gapless.devnode.dialect import NodeDialect


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """What a simulated chain is made from; equal parameters make equal chains."""

    blocks: int = 1000  # the height of the head; block 0 is the genesis
    txs: int = 5  # transactions per block, at most
    fewest: int | None = None  # and at least; None: always `txs`
    empty_every: int = 16  # one block in this many has no transactions; 0: never
    seed: int = 0
    chain_id: int = 1337  # of families whose chain id is not derived from the genesis
    economy: bool = False  # whether accounts have balances, which nodes then answer

    @property
    def recipe(self) -> dict[str, int | None]:
        """What identifies the chain in a cache.

        An economy is named only if there is one, so that chains of older versions are found.
        """
        given = asdict(self)
        return {name: value for name, value in given.items() if name != "economy" or value}

    def transactions(self, rng: Random, height: int) -> int:
        """How many transactions a block has."""
        if height == 0 or (self.empty_every and height % self.empty_every == 0):
            return 0
        return self.txs if self.fewest is None else rng.randint(self.fewest, self.txs)

    def chance(self, branch: int, height: int) -> Random:
        """The random generator of one block."""
        name = f"{self.seed}:{branch}:{height}".encode()
        return Random(int.from_bytes(blake2b(name, digest_size=16).digest(), "big"))


class Built(NamedTuple):
    """A block and what its transactions did, as the node answers them, in JSON."""

    hash: str
    block: bytes
    receipts: bytes
    branch: int


class BlockNames(NamedTuple):
    """The hash of a block and those of its transactions, as the node writes them."""

    hash: str
    transactions: list[str]


class BlockBuilder(Protocol):
    """Builds the blocks of a chain."""

    parameters: Parameters
    version: int
    """Raise it when the blocks change: chains that were built before are then built again."""
    folder: str
    """Where chains are kept in the cache."""
    no_parent: str
    """The parent of the genesis."""
    derives_chain_id: bool
    """Whether the chain id follows from the genesis, instead of from the parameters."""

    @property
    def dialect(self) -> NodeDialect:
        """How nodes of such chains are asked and answer."""

    def build(self, height: int, parent: str, branch: int = 0) -> Built:
        """The block at a height of a branch, above the parent with this hash."""

    def chain_id(self, genesis: str) -> int:
        """The chain id of the chain that begins with the block of this hash."""

    def names(self, block: bytes) -> BlockNames:
        """The hashes in a block's JSON."""
