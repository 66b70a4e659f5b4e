"""The tables of EVM chains.

Nothing is dropped. Each key of an answer is a column, or follows from others (`block_hash` of a
log, `yParity` from `v`, the bloom of a receipt), or is stored in `extra` as JSON. The node's own
`log_index` is an ordinary column, because real chains repeat it.
"""

from __future__ import annotations

from gapless.schema import Index, Kind, Links, Table, may, must

_CHAIN = must(Kind.INT, chain_id="the network's chain id", block_number="height")
_TIME = must(Kind.INT, block_timestamp="seconds since 1970, of the block")
_EXTRA = may(Kind.JSON, extra="keys of the answer without a column")

BLOCKS = Table(
    name="blocks",
    doc="One row per block.",
    key=("chain_id", "block_number"),
    columns=(
        *_CHAIN,
        *_TIME,
        *must(Kind.HASH, hash="of the header", parent_hash="`hash` of the block before"),
        *must(Kind.ADDRESS, miner="receives the fees"),
        *must(Kind.INT, gas_limit="gas the block may use", gas_used="gas it used"),
        *may(Kind.U256, base_fee_per_gas="wei, since London"),
        *may(Kind.U256, difficulty="of this block", total_difficulty="if the node reports it"),
        *may(Kind.INT, size="bytes of the encoded block"),
        *must(Kind.BYTES, extra_data="the producer's own bytes"),
        *may(Kind.NONCE, nonce="proof of work"),
        *may(Kind.HASH, mix_hash="proof of work; `prevRandao` since the merge"),
        *must(Kind.HASH, sha3_uncles="of the uncles", state_root="state after the block"),
        *must(Kind.HASH, transactions_root="of the transactions", receipts_root="of the receipts"),
        *may(Kind.BLOOM, logs_bloom="addresses and topics of all logs"),
        *may(Kind.HASH, withdrawals_root="since Shanghai", parent_beacon_block_root="since Cancun"),
        *may(Kind.HASH, requests_hash="since Prague", block_access_list_hash="since Amsterdam"),
        *may(Kind.INT, blob_gas_used="since Cancun", excess_blob_gas="since Cancun"),
        *may(Kind.INT, slot_number="of the beacon chain, since Amsterdam"),
        *must(Kind.JSON, uncles="hashes of the uncles"),
        *may(Kind.INT, l1_block_number="Arbitrum", send_count="Arbitrum"),
        *may(Kind.HASH, send_root="Arbitrum"),
        *must(Kind.INT, transaction_count="rows in `transactions`"),
        *may(
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
    links=Links(hash="hash", parent="parent_hash"),
    counts={
        "transactions": "transaction_count",
        "logs": "log_count",
        "withdrawals": "withdrawal_count",
    },
)

TRANSACTIONS = Table(
    name="transactions",
    doc="One row per transaction, its receipt included; without a receipt those columns are null.",
    key=("chain_id", "block_number", "transaction_index"),
    parents=(BLOCKS,),
    is_large=True,
    columns=(
        *_CHAIN,
        *must(Kind.INT, transaction_index="position in the block"),
        *_TIME,
        *must(Kind.HASH, hash="not unique on every chain"),
        *must(Kind.INT, type="0 legacy, 1 access list, 2 fee market, 3 blobs, 4 set code, L2 own"),
        *must(Kind.ADDRESS, from_address="sender"),
        *may(Kind.ADDRESS, to_address="receiver; null creates a contract"),
        *must(Kind.INT, nonce="of the sender", gas="gas it may use"),
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
        *may(Kind.INT, v="of the signature; its parity since type 1"),
        *may(Kind.WORD, r="of the signature", s="of the signature"),
        *may(Kind.HASH, source_hash="Optimism deposit"),
        *may(Kind.U256, mint="wei, Optimism deposit"),
        *may(Kind.BOOL, is_system_tx="Optimism deposit"),
        *may(Kind.INT, status="1 succeeded, 0 failed; null before Byzantium"),
        *may(Kind.HASH, root="state after it, before Byzantium"),
        *may(Kind.INT, gas_used="by it", cumulative_gas_used="by the block up to and with it"),
        *may(Kind.U256, effective_gas_price="wei paid per gas"),
        *may(Kind.ADDRESS, contract_address="the contract it created"),
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
        *must(Kind.INT, log_index="the node's own count; jumps and repeats on some chains"),
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
        *must(Kind.INT, withdrawal_index="the chain's own count", validator_index="the validator"),
        *must(Kind.ADDRESS, address="receiver"),
        *must(Kind.INT, amount="gwei"),
        *_EXTRA,
    ),
    indexes=(
        Index("withdrawals_address", ("address", "block_number")),
        Index("withdrawals_time", ("block_timestamp",)),
    ),
)

TABLES: tuple[Table, ...] = (BLOCKS, TRANSACTIONS, LOGS, WITHDRAWALS)
