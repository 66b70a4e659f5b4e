"""What a stored record is: tables, columns, keys and indexes.

Three rules shape the tables.

- A key is a position, never a hash or a node's counter: real chains repeat transaction hashes and
  log indices, but a place in a block is taken once. The node's `log_index` is an ordinary column.
- `block_timestamp` stands on every table, and every parent row counts its children, so that a
  range can be selected by time, and proven complete, without a join or a ledger.
- Nothing is dropped. A key of the answer is a column, or is implied by the others (`block_hash`
  of a log, `yParity` of a `v`, the bloom of a receipt), or stays in `extra` as JSON.

A number of the protocol that is 256 bits wide is stored as 32 bytes, big-endian (so that bytes
compare as numbers do), next to a `<name>_f64` to calculate with.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

F64 = "_f64"


class Kind(Enum):
    """The logical type of a column: what a value is, and how many bytes it always has."""

    INT = "an unsigned number below 2^64", None
    U256 = "an unsigned 256-bit number", 32
    WORD = "32 bytes, big-endian", 32
    HASH = "a 32-byte hash", 32
    ADDRESS = "a 20-byte address", 20
    NONCE = "8 bytes", 8
    BLOOM = "a 256-byte bloom filter", 256
    BYTES = "bytes of any length", None
    FLOAT = "the nearest double", None
    BOOL = "true or false", None
    JSON = "JSON text", None

    def __init__(self, meaning: str, width: int | None) -> None:
        self.meaning = meaning
        self.width = width

    __hash__ = object.__hash__  # a member is one object; by its name it would hash in Python


@dataclass(frozen=True)
class Column:
    name: str
    kind: Kind
    nullable: bool
    doc: str

    @property
    def stored(self) -> tuple[Column, ...]:
        """The columns that hold it: a 256-bit number has a second one, rounded."""
        if self.kind is not Kind.U256:
            return (self,)
        rounded = Column(self.name + F64, Kind.FLOAT, self.nullable, f"`{self.name}`, rounded")
        return (self, rounded)


@dataclass(frozen=True)
class Index:
    """An index that people who query such data expect; `only` is the condition of a partial one."""

    name: str
    columns: tuple[str, ...]
    only: str | None = None


@dataclass(frozen=True)
class Table:
    name: str
    doc: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    indexes: tuple[Index, ...] = ()
    parents: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Column]:
        """Every column as it is stored, in order."""
        return (stored for column in self.columns for stored in column.stored)

    def __getitem__(self, name: str) -> Column:
        return next(column for column in self if column.name == name)


def _must(kind: Kind, **docs: str) -> tuple[Column, ...]:
    return tuple(Column(name, kind, False, doc) for name, doc in docs.items())


def _may(kind: Kind, **docs: str) -> tuple[Column, ...]:
    return tuple(Column(name, kind, True, doc) for name, doc in docs.items())


_CHAIN = _must(Kind.INT, chain_id="the network's chain id", block_number="height")
_TIME = _must(Kind.INT, block_timestamp="seconds since 1970, of the block")
_EXTRA = _may(Kind.JSON, extra="what the answer held beyond these columns")

BLOCKS = Table(
    name="blocks",
    doc="One row per block.",
    key=("chain_id", "block_number"),
    columns=(
        *_CHAIN,
        *_TIME,
        *_must(Kind.HASH, hash="of the header", parent_hash="`hash` of the block before"),
        *_must(Kind.ADDRESS, miner="who gets the fees"),
        *_must(Kind.INT, gas_limit="gas the block may use", gas_used="gas it used"),
        *_may(Kind.U256, base_fee_per_gas="wei, since London"),
        *_may(Kind.U256, difficulty="of this block", total_difficulty="where the node tells it"),
        *_may(Kind.INT, size="bytes of the encoded block"),
        *_must(Kind.BYTES, extra_data="the producer's own bytes"),
        *_may(Kind.NONCE, nonce="proof of work"),
        *_may(Kind.HASH, mix_hash="proof of work; `prevRandao` since the merge"),
        *_must(Kind.HASH, sha3_uncles="of the uncles", state_root="state after the block"),
        *_must(Kind.HASH, transactions_root="of the transactions", receipts_root="of the receipts"),
        *_may(Kind.BLOOM, logs_bloom="addresses and topics of all logs"),
        *_may(
            Kind.HASH, withdrawals_root="since Shanghai", parent_beacon_block_root="since Cancun"
        ),
        *_may(Kind.HASH, requests_hash="since Prague", block_access_list_hash="since Amsterdam"),
        *_may(Kind.INT, blob_gas_used="since Cancun", excess_blob_gas="since Cancun"),
        *_may(Kind.INT, slot_number="of the beacon chain, since Amsterdam"),
        *_must(Kind.JSON, uncles="hashes of the uncles"),
        *_may(Kind.INT, l1_block_number="Arbitrum", send_count="Arbitrum"),
        *_may(Kind.HASH, send_root="Arbitrum"),
        *_must(Kind.INT, transaction_count="rows in `transactions`"),
        *_may(
            Kind.INT,
            log_count="rows in `logs`; null where receipts were not asked for",
            withdrawal_count="rows in `withdrawals`; null before Shanghai",
        ),
        *_EXTRA,
    ),
    indexes=(
        Index("blocks_hash", ("hash",)),
        Index("blocks_time", ("block_timestamp",)),
    ),
)

TRANSACTIONS = Table(
    name="transactions",
    doc="One row per transaction, its receipt included; without a receipt those columns are null.",
    key=("chain_id", "block_number", "transaction_index"),
    parents=("blocks",),
    columns=(
        *_CHAIN,
        *_must(Kind.INT, transaction_index="position in the block"),
        *_TIME,
        *_must(Kind.HASH, hash="not unique on every chain"),
        *_must(Kind.INT, type="0 legacy, 1 access list, 2 fee market, 3 blobs, 4 set code, L2 own"),
        *_must(Kind.ADDRESS, from_address="sender"),
        *_may(Kind.ADDRESS, to_address="receiver; null creates a contract"),
        *_must(Kind.INT, nonce="of the sender", gas="gas it may use"),
        *_may(Kind.U256, value="wei"),
        *_may(Kind.BYTES, input="call data, or code to run"),
        *_may(
            Kind.U256,
            gas_price="wei",
            max_fee_per_gas="wei, type 2 and later",
            max_priority_fee_per_gas="wei, type 2 and later",
            max_fee_per_blob_gas="wei, type 3",
        ),
        *_may(
            Kind.JSON,
            access_list="type 1 and later",
            blob_versioned_hashes="type 3",
            authorization_list="type 4",
        ),
        *_may(Kind.INT, v="of the signature; its parity since type 1"),
        *_may(Kind.WORD, r="of the signature", s="of the signature"),
        *_may(Kind.HASH, source_hash="Optimism deposit"),
        *_may(Kind.U256, mint="wei, Optimism deposit"),
        *_may(Kind.BOOL, is_system_tx="Optimism deposit"),
        *_may(Kind.INT, status="1 succeeded, 0 failed; null before Byzantium"),
        *_may(Kind.HASH, root="state after it, before Byzantium"),
        *_may(Kind.INT, gas_used="by it", cumulative_gas_used="by the block up to and with it"),
        *_may(Kind.U256, effective_gas_price="wei paid per gas"),
        *_may(Kind.ADDRESS, contract_address="the contract it created"),
        *_may(Kind.INT, log_count="rows in `logs`", blob_gas_used="type 3"),
        *_may(
            Kind.U256,
            blob_gas_price="wei, type 3",
            l1_fee="wei, Optimism",
            l1_gas_price="wei, Optimism",
        ),
        *_may(
            Kind.INT,
            l1_gas_used="Optimism",
            deposit_nonce="Optimism",
            deposit_receipt_version="Optimism",
            gas_used_for_l1="Arbitrum",
            l1_block_number="Arbitrum",
        ),
        *_EXTRA,
    ),
    indexes=(
        Index("transactions_hash", ("hash",)),
        Index("transactions_from", ("from_address", "block_number")),
        Index("transactions_to", ("to_address", "block_number"), "to_address IS NOT NULL"),
        Index("transactions_created", ("contract_address",), "contract_address IS NOT NULL"),
        Index("transactions_time", ("block_timestamp",)),
    ),
)

LOGS = Table(
    name="logs",
    doc="One row per event that a contract emitted.",
    key=("chain_id", "block_number", "transaction_index", "log_position"),
    parents=("transactions", "blocks"),
    columns=(
        *_CHAIN,
        *_must(Kind.INT, transaction_index="position in the block"),
        *_must(Kind.INT, log_position="position in the transaction"),
        *_TIME,
        *_must(Kind.INT, log_index="the node's own count; jumps and repeats on some chains"),
        *_must(Kind.HASH, transaction_hash="`hash` of the transaction"),
        *_must(Kind.ADDRESS, address="the contract"),
        *_may(Kind.HASH, topic0="usually the hash of the event's signature"),
        *_may(Kind.HASH, topic1="indexed argument", topic2="indexed argument"),
        *_may(Kind.HASH, topic3="indexed argument"),
        *_must(Kind.BYTES, data="the other arguments"),
        *_EXTRA,
    ),
    indexes=(
        Index("logs_address", ("address", "topic0", "block_number")),
        Index("logs_topic0", ("topic0", "block_number")),
        Index("logs_transaction", ("transaction_hash",)),
        Index("logs_time", ("block_timestamp",)),
    ),
)

WITHDRAWALS = Table(
    name="withdrawals",
    doc="One row per withdrawal of a validator, since Shanghai.",
    key=("chain_id", "block_number", "withdrawal_position"),
    parents=("blocks",),
    columns=(
        *_CHAIN,
        *_must(Kind.INT, withdrawal_position="position in the block"),
        *_TIME,
        *_must(Kind.INT, withdrawal_index="the chain's own count", validator_index="who withdrew"),
        *_must(Kind.ADDRESS, address="receiver"),
        *_must(Kind.INT, amount="gwei"),
        *_EXTRA,
    ),
    indexes=(
        Index("withdrawals_address", ("address", "block_number")),
        Index("withdrawals_time", ("block_timestamp",)),
    ),
)

TABLES: tuple[Table, ...] = (BLOCKS, TRANSACTIONS, LOGS, WITHDRAWALS)


def table(name: str) -> Table:
    return next(table for table in TABLES if table.name == name)
