"""What a chain family must say, so that everything else can work without knowing it.

    provider ──► Source.fetch ──► Family.read ──► order, batch, link ──► sink
                 raw answers      parse, check,
                                  decode

A family is a folder beside this file, and one call of `gapless.chains.register`. How to write one
is told in docs/how-to/add-a-chain-family.md.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from gapless.chains.findings import Findings
from gapless.chains.level import Level
from gapless.chains.network import Network
from gapless.core.errors import BadAnswer
from gapless.core.proof import Proof
from gapless.core.ranges import Span
from gapless.providers import EndpointSpec, NodeQueries, Pool
from gapless.schema import Table
from gapless.schema.arrow import Tables
from gapless.schema.layout import LayoutSet


@dataclass(frozen=True)
class Wanted:
    """What is read of each block, and how it is checked."""

    network: Network
    chain_id: int
    checks: frozenset[str]
    datasets: frozenset[str]
    anchors: Mapping[int, bytes] = field(default_factory=dict)  # hashes that are known, by height


class RawBlock(Protocol):
    """What one endpoint answered for one block; its content is the family's business."""

    @property
    def height(self) -> int: ...
    @property
    def endpoint(self) -> str: ...


class Source(Protocol):
    """The blocks of one network, as its nodes give them."""

    @property
    def unit(self) -> int:
        """How many blocks to ask for in one go, by what the endpoints are known to take."""

    async def fetch(self, span: Span, *, avoid: Collection[str] = ()) -> Sequence[RawBlock]:
        """The blocks of a span in ascending order, not from the endpoints to avoid if possible."""

    async def head(self) -> int:
        """The highest block that any endpoint has shown."""

    async def finalized(self) -> int | None:
        """The highest block that will not change, if the endpoints report it."""

    async def block_hash(self, height: int) -> bytes:
        """The hash of a block; an error if nobody has it."""

    async def hash_from(self, endpoint: str, height: int, patience: float) -> bytes | None:
        """The hash that one endpoint gives for a height; None if it has no answer to that."""

    async def hashes(self, span: Span) -> dict[int, bytes]:
        """The hashes that the nodes have now, of the blocks up to the head."""


@dataclass(frozen=True)
class ReadBlock:
    """What a block that passed its checks says of itself."""

    hash: bytes
    parent_hash: bytes
    proof: Proof


@dataclass(frozen=True)
class Reading:
    """What came of some answers: the blocks that hold, their rows, and why others were refused."""

    blocks: Mapping[int, ReadBlock]
    tables: Tables  # of these blocks, ascending
    refused: Mapping[int, BadAnswer]
    has_extra: bool  # whether an answer that was read in full has keys without a column


@dataclass(frozen=True)
class Flaw:
    """A block whose rows contradict each other, or what its chain committed to."""

    height: int
    table: str
    words: str


@dataclass(frozen=True)
class Examined:
    """What came of some rows: what all blocks without a flaw prove, and the flaws."""

    proof: Proof
    flaws: list[Flaw] = field(default_factory=list)

    def __or__(self, other: Examined) -> Examined:
        """What can be said of both together."""
        return Examined(self.proof & other.proof, self.flaws + other.flaws)


class RowProofs(Protocol):
    """What stored rows prove by themselves, without a node."""

    def repeatable(self, claimed: frozenset[str]) -> frozenset[str]:
        """Which checks to make on rows for which these are recorded as proven."""

    def due(self, claimed: frozenset[str], datasets: Collection[str]) -> frozenset[str]:
        """Which of the recorded checks must hold again on true rows of these tables alone."""

    def examine(
        self, rows: Mapping[str, pa.Table], network: Network, chain_id: int, checks: frozenset[str]
    ) -> Examined:
        """Proves consecutive blocks from all that is stored of them."""


class Family(Protocol):
    """A kind of chain."""

    name: str
    tables: tuple[Table, ...]
    """Parents first; the first one is the anchor."""
    networks: tuple[Network, ...]
    """The last one stands for every chain that is not listed."""
    checks: tuple[str, ...]
    """All checks, from the cheapest to the most expensive."""

    @property
    def queries(self) -> NodeQueries: ...

    def level(self, level: Level, datasets: Collection[str]) -> frozenset[str]:
        """The checks of a level that can be made if these tables are fetched."""

    def calls(self, blocks: int, datasets: Collection[str]) -> dict[str, int]:
        """The calls that this many blocks take if nothing goes wrong, by method."""

    def source(
        self, pool: Pool, network: Network, datasets: Collection[str], checks: Collection[str]
    ) -> Source:
        """The blocks of a network through a pool."""

    def read(
        self, raws: Sequence[Any], wanted: Wanted, samples: Collection[int], *, whole: bool
    ) -> Reading:
        """Parses, checks and decodes answers, each block by itself.

        Keys that no column is made for are kept if the answers are read `whole`; else they are only
        looked for, in the samples.
        """

    @property
    def rows(self) -> RowProofs: ...

    @property
    def layouts(self) -> Mapping[str, LayoutSet]:
        """By schema, what can be exported beside the stored tables themselves."""

    async def probe(
        self, spec: EndpointSpec, network: Network | None, anchors: Mapping[int, bytes]
    ) -> Findings:
        """Finds out what an endpoint is good for, before a fetch depends on it."""
