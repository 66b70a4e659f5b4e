"""The interface of a chain family, so that other packages do not depend on any one family.

    provider ──► Source.fetch ──► Family.read ──► order, batch, link ──► sink
                 raw answers      parse, check,
                                  decode

A family is a folder next to this file and one call of `gapless.chains.register`. See
docs/how-to/add-a-chain-family.md for how to write one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from gapless.chains.decoder import Decoder
from gapless.chains.findings import Findings
from gapless.chains.level import Level
from gapless.chains.movements import WalletRules
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
    """What to read from each block, and how to check it."""

    network: Network
    chain_id: int
    checks: frozenset[str]
    datasets: frozenset[str]
    anchors: Mapping[int, bytes] = field(default_factory=dict)  # known hashes, by height


@dataclass(frozen=True)
class BlockHeader:
    """What links a block to the one before, and when it was made."""

    height: int
    hash: bytes
    parent_hash: bytes
    time: float | None = None  # in seconds since 1970; None: the endpoint does not report it


class RawBlock(Protocol):
    """One endpoint's answer for one block; only the family can interpret it."""

    @property
    def height(self) -> int: ...
    @property
    def endpoint(self) -> str: ...


class Source(Protocol):
    """The blocks of one network, as its nodes return them."""

    @property
    def unit(self) -> int:
        """How many blocks to request at once, given the known limits of the endpoints."""

    async def fetch(self, span: Span, *, avoid: Collection[str] = ()) -> Sequence[RawBlock]:
        """Fetch the blocks of a span in ascending order, if possible not from those to avoid."""

    async def head(self) -> int:
        """Return the highest block that any endpoint has reported."""

    async def finalized(self) -> int | None:
        """Return the highest block that will not change, if the endpoints report it."""

    async def block_hash(self, height: int) -> bytes:
        """Return the hash of a block; raise if no endpoint has it."""

    async def latest(
        self, endpoint: str, patience: float
    ) -> tuple[BlockHeader, BlockHeader | None] | None:
        """Return the head of one endpoint and the block that it calls final, if any.

        None if it does not answer.
        """

    async def headers(
        self, endpoint: str, heights: Sequence[int], patience: float
    ) -> dict[int, BlockHeader]:
        """Return the headers that one endpoint reports, without those that it does not have."""

    async def hashes(self, span: Span) -> dict[int, bytes]:
        """Return the nodes' current hashes of the blocks up to the head."""


@dataclass(frozen=True)
class ReadBlock:
    """The hashes of a block that passed its checks, and what is proven about it."""

    hash: bytes
    parent_hash: bytes
    proof: Proof


@dataclass(frozen=True)
class Reading:
    """The result of reading answers: the good blocks, their rows, and why others were refused."""

    blocks: Mapping[int, ReadBlock]
    tables: Tables  # of these blocks, ascending
    refused: Mapping[int, BadAnswer]
    has_extra: bool  # whether an answer that was read in full has keys without a column


@dataclass(frozen=True)
class Flaw:
    """A block whose rows contradict each other, or the chain's commitments."""

    height: int
    table: str
    message: str


@dataclass(frozen=True)
class Examined:
    """The result of examining rows: what all blocks without a flaw prove, and the flaws."""

    proof: Proof
    flaws: list[Flaw] = field(default_factory=list)

    def __or__(self, other: Examined) -> Examined:
        """Combine two results: what both prove, and the flaws of both."""
        return Examined(self.proof & other.proof, self.flaws + other.flaws)


class RowProofs(Protocol):
    """What stored rows prove on their own, without a node."""

    def repeatable(self, claimed: frozenset[str]) -> frozenset[str]:
        """Return the checks to run on rows for which these are recorded as proven."""

    def due(self, claimed: frozenset[str], datasets: Collection[str]) -> frozenset[str]:
        """Return the recorded checks that intact rows of these tables alone must pass again."""

    def examine(
        self, rows: Mapping[str, pa.Table], network: Network, chain_id: int, checks: frozenset[str]
    ) -> Examined:
        """Prove consecutive blocks from their stored rows."""

    def derive(self, rows: Mapping[str, pa.Table], chain_id: int) -> Mapping[str, pa.Table]:
        """Return the derived tables of some blocks, if `rows` has all that they follow from."""


class Family(Protocol):
    """A kind of chain."""

    name: str
    tables: tuple[Table, ...]
    """Parents first; the first one is the anchor. Derived tables may be among them."""
    networks: tuple[Network, ...]
    """The last one is used for every chain that is not listed."""
    checks: tuple[str, ...]
    """All checks, from the cheapest to the most expensive."""

    @property
    def queries(self) -> NodeQueries: ...

    @property
    def decoder(self) -> Decoder:
        """What `read` runs; raise `UsageError` if the environment requires another one."""

    def level(self, level: Level, datasets: Collection[str]) -> frozenset[str]:
        """Return the checks of a level that are possible if these tables are fetched."""

    def calls(self, blocks: int, datasets: Collection[str]) -> dict[str, int]:
        """Return the number of calls, by method, that the blocks take without retries."""

    def source(
        self, pool: Pool, network: Network, datasets: Collection[str], checks: Collection[str]
    ) -> Source:
        """Create the source of a network's blocks through a pool."""

    def read(
        self, raws: Sequence[Any], wanted: Wanted, samples: Collection[int], *, whole: bool
    ) -> Reading:
        """Parse, check and decode answers, each block on its own.

        With `whole`, keys without a column are kept. Otherwise they are only detected, in the
        samples.
        """

    @property
    def rows(self) -> RowProofs: ...

    @property
    def layouts(self) -> Mapping[str, LayoutSet]:
        """By schema, what can be exported in addition to the stored tables."""

    @property
    def wallets(self) -> WalletRules | None:
        """How its chains tell the history of a wallet; None if they do not."""

    async def probe(
        self, spec: EndpointSpec, network: Network | None, anchors: Mapping[int, bytes]
    ) -> Findings:
        """Find out what an endpoint supports, before a fetch depends on it."""
