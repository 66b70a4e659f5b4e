"""What moved on a chain, and what a family must say so that wallets have a history.

A movement is a fact about a chain: an amount of one token went from one address to another. It is
the same for everybody, whatever it means to the owner of a wallet. Its key is a position, so that
finding it again, from stored tables or from a node, finds the same key:

    chain, block, kind, transaction or -1, position in it or -1, position in a batch or -1

`wallets` stores movements and interprets them. It knows no family: a family turns rows of its own
tables into movements, reads and writes addresses, and asks its nodes about accounts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

import msgspec
import pyarrow as pa

from gapless.chains.network import Network
from gapless.core.ranges import Span
from gapless.providers import Pool

NOWHERE = -1
"""The transaction, position or batch position of a movement that has none."""
NOBODY = b""
"""The sender of what was created, the receiver of what was destroyed, the token of a coin."""


class MovementKind(StrEnum):
    """What caused a movement."""

    NATIVE = "native"  # the value of a transaction
    FEE = "fee"  # what its sender paid for it; it may be zero
    INTERNAL = "internal"  # the value of a call within a transaction
    TOKEN = "token"  # noqa: S105 - an amount of a fungible token: ERC-20, TRC-20
    NFT = "nft"  # a token that exists once: ERC-721, TRC-721
    MULTI_TOKEN = "multi_token"  # noqa: S105 - an amount of one of a contract's tokens: ERC-1155
    ASSET = "asset"  # an amount of a token without a contract: TRC-10
    WRAP = "wrap"  # coins became tokens of the network's wrapping contract
    UNWRAP = "unwrap"  # and tokens became coins
    WITHDRAWAL = "withdrawal"  # from a validator
    MINT = "mint"  # coins that came from another chain
    REWARD = "reward"  # what an account was credited for its stake or votes


class Movement(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An amount that went from one address to another."""

    chain_id: int
    block_number: int
    kind: MovementKind
    transaction_index: int = NOWHERE
    position: int = NOWHERE  # of a log, a call or a withdrawal
    batch_position: int = NOWHERE
    block_hash: bytes
    block_timestamp: int
    transaction_hash: bytes = b""
    sender: bytes
    receiver: bytes
    token: bytes = NOBODY
    """The contract, or the name of an asset; `NOBODY` for the coin of the network."""
    token_id: int | None = None  # of a token that is not fungible
    amount: int
    initiator: bytes = NOBODY  # who signed the transaction
    is_approval: bool = False
    """Of a fee: whether its transaction grants somebody an allowance. Only the rows of the payer
    tell, so other movements do not say it."""

    @property
    def key(self) -> MovementKey:
        return MovementKey(
            self.chain_id,
            self.block_number,
            self.kind,
            self.transaction_index,
            self.position,
            self.batch_position,
        )


class MovementKey(NamedTuple):
    """Where a movement is on a chain."""

    chain_id: int
    block_number: int
    kind: MovementKind
    transaction_index: int
    position: int
    batch_position: int


@dataclass(frozen=True)
class Coin:
    """The coin of a network, which pays for transactions."""

    symbol: str
    decimals: int


@dataclass(frozen=True)
class Lookup:
    """A column in which an address makes a row part of its history."""

    table: str
    column: str
    padding: bytes = b""
    """What precedes the 20 bytes of an address in this column."""


class Hits(NamedTuple):
    """The blocks in which a node finds events of some addresses."""

    heights: Collection[int]
    is_agreed: bool  # whether two endpoints found the same


class Account(NamedTuple):
    """An account at the end of a block."""

    balance: int  # of the network's coin
    nonce: int  # transactions that it has signed
    has_code: bool


class AccountAt(NamedTuple):
    """An address at the end of a block. Before the first block, at -1, nobody has anything."""

    address: bytes
    height: int


class Snapshot(NamedTuple):
    """What an account had and did up to the end of a block."""

    balance: int  # of the network's coin
    nonce: int  # transactions that it has signed


class Snapshots(NamedTuple):
    """Accounts as a node remembers them, in the order of the question."""

    values: Sequence[Snapshot]
    is_agreed: bool  # whether two endpoints said the same


class Coded(NamedTuple):
    """Which accounts had code, as a node remembers them."""

    accounts: frozenset[AccountAt]
    is_agreed: bool  # whether two endpoints said the same


class InnerTransfer(NamedTuple):
    """Coins that a call within a transaction moved."""

    sender: bytes
    receiver: bytes
    amount: int


class TracedTransaction(NamedTuple):
    """A transaction of a block, and the coins that calls within it moved, as they happened."""

    hash: bytes
    transfers: Sequence[InnerTransfer]


class Traces(NamedTuple):
    """The transactions of blocks, by height."""

    blocks: Mapping[int, Sequence[TracedTransaction]]
    is_agreed: bool  # whether two endpoints said the same


@dataclass(frozen=True)
class TokenFacts:
    """What a token says about itself. Contracts may say anything: treat it as hostile text."""

    standard: str  # such as `ERC-20`
    symbol: str | None = None
    name: str | None = None
    decimals: int | None = None


class WalletNode(Protocol):
    """What the nodes of a network know about accounts. Answers are not proven by anything."""

    finds_events: bool
    """Whether events can be searched for by address."""
    signed_since: int | None
    """The first block from which on only what an account signs takes coins from it, unless it has
    code; None where nobody can say so."""

    async def hits(self, span: Span, addresses: Sequence[bytes]) -> Hits:
        """Search a span for events that name one of the addresses."""

    async def account(self, address: bytes, height: int) -> Account | None:
        """Return an account at the end of a block; None if no endpoint remembers it."""

    async def snapshots(self, wanted: Sequence[AccountAt]) -> Snapshots | None:
        """Return accounts at the end of blocks; None if no endpoint remembers all of them."""

    async def with_code(self, wanted: Sequence[AccountAt]) -> Coded | None:
        """Return which had code; None if no endpoint remembers all of them."""

    async def traces(self, heights: Sequence[int]) -> Traces | None:
        """Return what calls within the transactions of some blocks moved; None if no endpoint can
        trace them."""

    async def token_balances(
        self, tokens: Sequence[tuple[bytes, int | None]], address: bytes, height: int
    ) -> list[int | None]:
        """Return how much of each token, by contract and id, an address holds after a block.

        None stands for what cannot be found out.
        """

    async def token_facts(self, tokens: Sequence[bytes]) -> dict[bytes, TokenFacts]:
        """Return what some tokens say about themselves; nothing for one that does not answer."""


class WalletRules(Protocol):
    """How a family's tables, addresses and nodes tell the history of a wallet."""

    tables: tuple[str, ...]
    """Tables that must be stored completely for a history from stored rows, the anchor first."""
    transactions: str
    """Of these, the one with a row per transaction."""
    signer: str
    """Its column with the account that signed the transaction."""
    lookups: tuple[Lookup, ...]
    """Where to look for an address. Rows of one transaction are found together."""

    def coin(self, network: Network) -> Coin: ...

    def parse_address(self, text: str) -> bytes:
        """Return the bytes of an address; raise `UsageError` with a hint if it is not one."""

    def format_address(self, address: bytes) -> str:
        """Return an address as people write it."""

    def format_hash(self, found: bytes) -> str:
        """Return the hash of a transaction as people write it."""

    def movements(
        self, rows: Mapping[str, pa.Table], network: Network, addresses: Collection[bytes]
    ) -> list[Movement]:
        """Return what the addresses sent or received, in the order of their keys.

        `rows` are those that a lookup found, with all rows of the same transactions in the table
        `transactions`, and the rows of their blocks in the anchor. Other rows do no harm.
        """

    def node(self, pool: Pool, network: Network) -> WalletNode: ...
