"""The tables of TRON chains.

`raw_data` holds the bytes that an id covers: of a block its header, of a transaction what its owner
signed. Most columns of these two tables are decoded from it, and can be decoded from it again.
Nothing is dropped: a key of an answer is a column, is part of `raw_data`, or is kept in `extra`.

Addresses have 20 bytes, as in logs. The same in base58check is in the column `…_base58`. Amounts of
TRX are in sun, a millionth of a TRX. Times are in milliseconds, except for `block_timestamp`, which
all chains have in seconds. A negative number is stored as its two's complement; only the genesis of
a chain has one.
"""

from __future__ import annotations

from gapless.schema import Column, Index, Kind, Links, Table, may, must

_CHAIN = must(Kind.INT, chain_id="the network's chain id", block_number="height")
_TIME = must(
    Kind.INT,
    block_timestamp="time of the block, in seconds since 1970",
    block_timestamp_ms="the same, in milliseconds",
)
_EXTRA = may(Kind.JSON, extra="parts of the node's answer without a column")


def _address(name: str, doc: str) -> tuple[Column, ...]:
    """Return the two columns of an address that may be absent."""
    return (
        *may(Kind.ADDRESS, **{f"{name}_address": doc}),
        *may(Kind.TEXT, **{f"{name}_base58": f"`{name}_address` as text"}),
    )


TRON_BLOCKS = Table(
    name="tron_blocks",
    doc="One row per block.",
    key=("chain_id", "block_number"),
    columns=(
        *_CHAIN,
        *_TIME,
        *must(Kind.HASH, hash="the block's id", parent_hash="`hash` of the block before"),
        *may(Kind.HASH, transactions_root="`txTrieRoot`: Merkle root of the transactions"),
        *_address("witness", "who produced the block; null for the genesis block"),
        *must(Kind.INT, version="version of the block"),
        *must(Kind.BYTES, witness_signature="signature of the header"),
        *must(Kind.BYTES, raw_data="the header, as `hash` covers it"),
        *must(Kind.INT, transaction_count="rows in `tron_transactions`"),
        *may(
            Kind.INT,
            log_count="rows in `tron_logs`; null where infos were not requested",
            internal_transaction_count="rows in `tron_internal_transactions`; null likewise",
            transfer_count="rows in `tron_transfers`; null where they were not requested",
        ),
        *_EXTRA,
    ),
    indexes=(
        Index("tron_blocks_hash", ("hash",)),
        Index("tron_blocks_time", ("block_timestamp",)),
    ),
    links=Links(hash="hash", parent="parent_hash"),
    counts={
        "tron_transactions": "transaction_count",
        "tron_logs": "log_count",
        "tron_internal_transactions": "internal_transaction_count",
        "tron_transfers": "transfer_count",
    },
)

TRON_TRANSACTIONS = Table(
    name="tron_transactions",
    doc="One row per transaction and its info; without an info, its columns are null.",
    key=("chain_id", "block_number", "transaction_index"),
    parents=(TRON_BLOCKS,),
    is_large=True,
    columns=(
        *_CHAIN,
        *must(Kind.INT, transaction_index="position in the block"),
        *_TIME,
        *must(Kind.HASH, hash="the transaction's id"),
        *may(
            Kind.INT,
            contract_type="what it does: 1 transfers TRX, 2 transfers a TRC-10 token, 31 calls a"
            " contract, 57 delegates; other numbers as in TRON's protocol",
        ),
        *_address("owner", "who sent it; null for the genesis block"),
        *_address("to", "who receives the coins, tokens or resources"),
        *_address("contract", "the contract that it calls or, by its info, created"),
        *may(
            Kind.INT,
            amount="sun transferred, staked, unstaked or delegated; units of a TRC-10 token",
        ),
        *may(Kind.BYTES, asset="id of the TRC-10 token, or its name before ids existed"),
        *may(
            Kind.INT,
            resource="0 bandwidth, 1 energy, 2 voting power: what is staked or delegated",
            frozen_duration="days, until Stake 2.0",
            lock_period="blocks for which a delegation is locked; 0 means the default",
        ),
        *may(Kind.BOOL, is_locked="whether a delegation is locked"),
        *may(
            Kind.INT,
            call_value="sun sent to the called contract",
            call_asset_value="units of a TRC-10 token sent to the called contract",
            call_asset_id="id of that token",
        ),
        *may(Kind.BYTES, data="call data", parameter="the message of any other contract type"),
        *may(Kind.BYTES, memo="note that the owner attached"),
        *must(Kind.INT, permission_id="permission that signed; 0 is the owner"),
        *must(Kind.INT, timestamp="time that the owner set, in milliseconds"),
        *must(Kind.INT, expiration="time until which it was valid, in milliseconds"),
        *must(Kind.INT, fee_limit="most sun to burn for energy"),
        *must(Kind.BYTES, ref_block_bytes="height of a recent block, its last two bytes"),
        *must(Kind.BYTES, ref_block_hash="part of that block's hash"),
        *must(Kind.BYTES, raw_data="the transaction, as `hash` covers it"),
        *must(Kind.JSON, signatures="signatures, in hex"),
        *may(
            Kind.INT,
            contract_result="outcome in the block: 0 default, 1 success, 2 revert, 10 out of"
            " energy; other numbers as in TRON's protocol; null if it has none",
            receipt_result="outcome in the info, by the same numbers",
        ),
        *may(Kind.BOOL, is_failed="whether the info says that it failed"),
        *may(
            Kind.INT,
            fee="sun burned in total",
            energy_usage="energy taken from the caller's stake",
            energy_fee="sun burned for energy",
            origin_energy_usage="energy taken from the contract owner's stake",
            energy_usage_total="energy used",
            energy_penalty_total="energy used on top because the contract is busy",
            net_usage="bandwidth used",
            net_fee="sun burned for bandwidth",
            withdraw_amount="sun of rewards withdrawn",
            unfreeze_amount="sun unstaked, until Stake 2.0",
            withdraw_expire_amount="sun withdrawn after unstaking",
        ),
        *may(Kind.BYTES, output="what the contract returned", message="why it failed"),
        *may(
            Kind.INT,
            log_count="rows in `tron_logs`",
            internal_transaction_count="rows in `tron_internal_transactions`",
        ),
        *_EXTRA,
    ),
    indexes=(
        Index("tron_transactions_hash", ("hash",)),
        Index("tron_transactions_owner", ("owner_address", "block_number")),
        Index("tron_transactions_to", ("to_address", "block_number"), "to_address IS NOT NULL"),
        Index(
            "tron_transactions_contract",
            ("contract_address", "block_number"),
            "contract_address IS NOT NULL",
        ),
        Index("tron_transactions_time", ("block_timestamp",)),
    ),
)

TRON_LOGS = Table(
    name="tron_logs",
    doc="One row per event that a contract emitted. No hash of the chain covers them.",
    key=("chain_id", "block_number", "transaction_index", "log_position"),
    parents=(TRON_TRANSACTIONS, TRON_BLOCKS),
    is_large=True,
    columns=(
        *_CHAIN,
        *must(Kind.INT, transaction_index="position in the block"),
        *must(Kind.INT, log_position="position in the transaction"),
        *_TIME,
        *must(Kind.HASH, transaction_hash="`hash` of the transaction"),
        *must(Kind.ADDRESS, address="the contract"),
        *must(Kind.TEXT, address_base58="`address` as text"),
        *may(Kind.HASH, topic0="usually the hash of the event's signature"),
        *may(Kind.HASH, topic1="indexed argument", topic2="indexed argument"),
        *may(Kind.HASH, topic3="indexed argument"),
        *must(Kind.BYTES, data="the other arguments"),
        *_address("from", "of a TRC-20 or TRC-721 transfer: the sender"),
        *_address("to", "of a TRC-20 or TRC-721 transfer: the receiver"),
        *may(
            Kind.U256,
            amount="units of the token, of a TRC-20 transfer",
            nft_id="which token, of a TRC-721 transfer",
        ),
        *_EXTRA,
    ),
    indexes=(
        Index("tron_logs_address", ("address", "topic0", "block_number")),
        Index("tron_logs_topic0", ("topic0", "block_number")),
        Index("tron_logs_from", ("from_address", "block_number"), "from_address IS NOT NULL"),
        Index("tron_logs_to", ("to_address", "block_number"), "to_address IS NOT NULL"),
        Index("tron_logs_transaction", ("transaction_hash",)),
        Index("tron_logs_time", ("block_timestamp",)),
    ),
)

TRON_INTERNAL_TRANSACTIONS = Table(
    name="tron_internal_transactions",
    doc="One row per call between contracts. Only nodes that record them return any.",
    key=("chain_id", "block_number", "transaction_index", "internal_position"),
    parents=(TRON_TRANSACTIONS, TRON_BLOCKS),
    is_large=True,
    columns=(
        *_CHAIN,
        *must(Kind.INT, transaction_index="position in the block"),
        *must(Kind.INT, internal_position="position in the transaction"),
        *_TIME,
        *must(Kind.HASH, transaction_hash="`hash` of the transaction"),
        *may(Kind.HASH, hash="of the internal transaction"),
        *_address("caller", "who called"),
        *_address("to", "who was called, or received the value"),
        *may(Kind.INT, call_value="sun sent"),
        *may(Kind.JSON, asset_values="TRC-10 tokens sent: `callValue` and `tokenId` of each"),
        *must(Kind.BYTES, note="kind of the call, for example `call` or `create`"),
        *must(Kind.BOOL, is_rejected="whether it was reverted"),
        *_EXTRA,
    ),
    indexes=(
        Index("tron_internal_transactions_caller", ("caller_address", "block_number")),
        Index("tron_internal_transactions_to", ("to_address", "block_number")),
        Index("tron_internal_transactions_transaction", ("transaction_hash",)),
        Index("tron_internal_transactions_time", ("block_timestamp",)),
    ),
)

TRON_TRANSFERS = Table(
    name="tron_transfers",
    doc="One row per TRC-10, TRC-20 or TRC-721 token that moved, derived from `tron_transactions`"
    " that succeeded, their `tron_logs` and `tron_internal_transactions`. Only stored if it is"
    " requested.",
    key=("chain_id", "block_number", "transaction_index", "transfer_position"),
    parents=(TRON_BLOCKS,),  # not the transactions, which need not be stored
    is_large=True,
    derived_from=(TRON_TRANSACTIONS, TRON_LOGS, TRON_INTERNAL_TRANSACTIONS),
    columns=(
        *_CHAIN,
        *must(Kind.INT, transaction_index="position in the block"),
        *must(
            Kind.INT,
            transfer_position="position among the transfers of the transaction: first what it sends"
            " itself, then its logs, then its internal transactions",
        ),
        *_TIME,
        *must(Kind.HASH, transaction_hash="`hash` of the transaction"),
        *must(Kind.TEXT, kind="`asset` (TRC-10), `token` (TRC-20) or `nft` (TRC-721)"),
        *may(
            Kind.INT,
            log_position="of a `token` or `nft`: position of the log in the transaction",
            internal_position="of an `asset` that a contract sent: position of the internal"
            " transaction",
        ),
        *_address("token", "the contract of a `token` or `nft`"),
        *may(Kind.BYTES, asset="of an `asset`: its id, or its name before ids existed"),
        *must(Kind.ADDRESS, from_address="sender; zero for what was created"),
        *must(Kind.TEXT, from_base58="`from_address` as text"),
        *must(Kind.ADDRESS, to_address="receiver; zero for what was destroyed"),
        *must(Kind.TEXT, to_base58="`to_address` as text"),
        *may(Kind.U256, token_id="which token, of an `nft`"),  # noqa: S106
        *must(Kind.U256, amount="units of the token; 1 of an `nft`"),
    ),
    indexes=(
        Index(
            "tron_transfers_token", ("token_address", "block_number"), "token_address IS NOT NULL"
        ),
        Index("tron_transfers_asset", ("asset", "block_number"), "asset IS NOT NULL"),
        Index("tron_transfers_from", ("from_address", "block_number")),
        Index("tron_transfers_to", ("to_address", "block_number")),
        Index("tron_transfers_transaction", ("transaction_hash",)),
        Index("tron_transfers_time", ("block_timestamp",)),
    ),
)

TRON_TABLES: tuple[Table, ...] = (
    TRON_BLOCKS,
    TRON_TRANSACTIONS,
    TRON_LOGS,
    TRON_INTERNAL_TRANSACTIONS,
)
"""The tables that answers are decoded to."""
TRON_DERIVED_TABLES: tuple[Table, ...] = (TRON_TRANSFERS,)
