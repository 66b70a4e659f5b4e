"""The tables of EVM chains.

Nothing is dropped. Each key of an answer is a column, or follows from others (`block_hash` of a
log, `yParity` from `v`, the bloom of a receipt), or is stored in `extra` as JSON. The node's own
`log_index` is an ordinary column, because real chains repeat it.
"""

from __future__ import annotations

from gapless.schema import Index, Kind, Links, Table, may, must

_CHAIN = must(Kind.INT, chain_id="the network's chain id", block_number="height")
_TIME = must(Kind.INT, block_timestamp="time of the block, in seconds since 1970")
_EXTRA = may(Kind.JSON, extra="keys of the node's answer without a column")

BLOCKS = Table(
    name="blocks",
    doc="One row per block.",
    key=("chain_id", "block_number"),
    columns=(
        *_CHAIN,
        *_TIME,
        *must(Kind.HASH, hash="hash of the header", parent_hash="`hash` of the block before"),
        *must(Kind.ADDRESS, miner="receives the fees"),
        *must(Kind.INT, gas_limit="gas the block may use", gas_used="gas the block used"),
        *may(Kind.U256, base_fee_per_gas="wei, since London"),
        *may(Kind.U256, difficulty="difficulty of this block"),
        *may(Kind.U256, total_difficulty="null if the node does not report it"),
        *may(Kind.INT, size="bytes of the encoded block"),
        *must(Kind.BYTES, extra_data="any bytes that the block producer added"),
        *may(Kind.NONCE, nonce="proof of work"),
        *may(Kind.HASH, mix_hash="proof of work; `prevRandao` since the merge"),
        *must(Kind.HASH, sha3_uncles="hash of the uncles", state_root="state after the block"),
        *must(Kind.HASH, transactions_root="trie root of the transactions"),
        *must(Kind.HASH, receipts_root="trie root of the receipts"),
        *may(Kind.BLOOM, logs_bloom="addresses and topics of all logs"),
        *may(Kind.HASH, withdrawals_root="since Shanghai", parent_beacon_block_root="since Cancun"),
        *may(Kind.HASH, requests_hash="since Prague", block_access_list_hash="since Amsterdam"),
        *may(Kind.INT, blob_gas_used="since Cancun", excess_blob_gas="since Cancun"),
        *may(Kind.INT, slot_number="slot of the beacon chain, since Amsterdam"),
        *must(Kind.JSON, uncles="hashes of the uncles"),
        *may(Kind.INT, l1_block_number="Arbitrum", send_count="Arbitrum"),
        *may(Kind.HASH, send_root="Arbitrum"),
        *must(Kind.INT, transaction_count="rows in `transactions`"),
        *may(
            Kind.INT,
            log_count="rows in `logs`; null where receipts were not requested",
            withdrawal_count="rows in `withdrawals`; null before Shanghai",
            transfer_count="rows in `transfers`; null where they were not requested",
        ),
        *_EXTRA,
    ),
    indexes=(
        Index("blocks_hash", ("hash",)),
        Index("blocks_time", ("block_timestamp",)),
    ),
    links=Links(hash="hash", parent="parent_hash"),
    counts={
        "transactions": "transaction_count",
        "logs": "log_count",
        "withdrawals": "withdrawal_count",
        "transfers": "transfer_count",
    },
)

TRANSACTIONS = Table(
    name="transactions",
    doc="One row per transaction and its receipt; without a receipt, its columns are null.",
    key=("chain_id", "block_number", "transaction_index"),
    parents=(BLOCKS,),
    is_large=True,
    columns=(
        *_CHAIN,
        *must(Kind.INT, transaction_index="position in the block"),
        *_TIME,
        *must(Kind.HASH, hash="not unique on every chain"),
        *must(
            Kind.INT,
            type="0 legacy, 1 access list, 2 fee market, 3 blobs, 4 set code; L2s add more",
        ),
        *must(Kind.ADDRESS, from_address="sender"),
        *may(Kind.ADDRESS, to_address="receiver; null if it creates a contract"),
        *must(Kind.INT, nonce="nonce of the sender", gas="gas the transaction may use"),
        *may(Kind.U256, value="wei"),
        *may(Kind.BYTES, input="call data, or code to run"),
        *may(
            Kind.U256,
            gas_price="wei",
            max_fee_per_gas="wei, type 2 and later",
            max_priority_fee_per_gas="wei, type 2 and later",
            max_fee_per_blob_gas="wei, type 3",
        ),
        *may(
            Kind.JSON,
            access_list="type 1 and later",
            blob_versioned_hashes="type 3",
            authorization_list="type 4",
        ),
        *may(Kind.INT, v="`v` of the signature; from type 1 on, its parity"),
        *may(Kind.WORD, r="`r` of the signature", s="`s` of the signature"),
        *may(Kind.HASH, source_hash="Optimism deposit"),
        *may(Kind.U256, mint="wei, Optimism deposit"),
        *may(Kind.BOOL, is_system_tx="Optimism deposit"),
        *may(Kind.INT, status="1 succeeded, 0 failed; null before Byzantium"),
        *may(Kind.HASH, root="state after the transaction, before Byzantium"),
        *may(Kind.INT, gas_used="gas the transaction used"),
        *may(Kind.INT, cumulative_gas_used="gas used in the block, up to and including it"),
        *may(Kind.U256, effective_gas_price="wei paid per gas"),
        *may(Kind.ADDRESS, contract_address="the contract that it created"),
        *may(Kind.INT, log_count="rows in `logs`", blob_gas_used="type 3"),
        *may(
            Kind.U256,
            blob_gas_price="wei, type 3",
            l1_fee="wei, Optimism",
            l1_gas_price="wei, Optimism",
        ),
        *may(
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
    parents=(TRANSACTIONS, BLOCKS),
    is_large=True,
    columns=(
        *_CHAIN,
        *must(Kind.INT, transaction_index="position in the block"),
        *must(Kind.INT, log_position="position in the transaction"),
        *_TIME,
        *must(Kind.INT, log_index="index reported by the node; skips and repeats on some chains"),
        *must(Kind.HASH, transaction_hash="`hash` of the transaction"),
        *must(Kind.ADDRESS, address="the contract"),
        *may(Kind.HASH, topic0="usually the hash of the event's signature"),
        *may(Kind.HASH, topic1="indexed argument", topic2="indexed argument"),
        *may(Kind.HASH, topic3="indexed argument"),
        *must(Kind.BYTES, data="the other arguments"),
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
    parents=(BLOCKS,),
    columns=(
        *_CHAIN,
        *must(Kind.INT, withdrawal_position="position in the block"),
        *_TIME,
        *must(Kind.INT, withdrawal_index="index on the chain", validator_index="the validator"),
        *must(Kind.ADDRESS, address="receiver"),
        *must(Kind.INT, amount="gwei"),
        *_EXTRA,
    ),
    indexes=(
        Index("withdrawals_address", ("address", "block_number")),
        Index("withdrawals_time", ("block_timestamp",)),
    ),
)

TRANSFERS = Table(
    name="transfers",
    doc="One row per token that moved, derived from `logs`. Only stored if it is requested.",
    key=("chain_id", "block_number", "transaction_index", "log_position", "batch_position"),
    parents=(BLOCKS,),  # not the logs, which need not be stored
    is_large=True,
    derived_from=(LOGS,),
    columns=(
        *_CHAIN,
        *must(Kind.INT, transaction_index="position in the block"),
        *must(Kind.INT, log_position="position of the log in the transaction"),
        *must(Kind.INT, batch_position="position in the log; 0 unless it is a batch of ERC-1155"),
        *_TIME,
        *must(Kind.HASH, transaction_hash="`hash` of the transaction"),
        *must(
            Kind.TEXT,
            kind="`token` (ERC-20), `nft` (ERC-721), `multi_token` (ERC-1155), or `wrap` and"
            " `unwrap` of the network's coin",
        ),
        *must(Kind.ADDRESS, token_address="the contract"),  # noqa: S106
        *must(Kind.ADDRESS, from_address="sender; zero for what was created or wrapped"),
        *must(Kind.ADDRESS, to_address="receiver; zero for what was destroyed or unwrapped"),
        *may(Kind.U256, token_id="which token, of `nft` and `multi_token`"),  # noqa: S106
        *must(Kind.U256, amount="units of the token; 1 of an `nft`"),
    ),
    indexes=(
        Index("transfers_token", ("token_address", "block_number")),
        Index("transfers_from", ("from_address", "block_number")),
        Index("transfers_to", ("to_address", "block_number")),
        Index("transfers_transaction", ("transaction_hash",)),
        Index("transfers_time", ("block_timestamp",)),
    ),
)

TABLES: tuple[Table, ...] = (BLOCKS, TRANSACTIONS, LOGS, WITHDRAWALS)
"""The tables that answers are decoded to."""
DERIVED_TABLES: tuple[Table, ...] = (TRANSFERS,)
