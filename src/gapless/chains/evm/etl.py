"""The columns of ethereum-etl, in the same order and format, so that its users can switch.

They copy the exporters of release `VERSION`. Numbers of any size stay numbers, in JSON too.
ethereum-etl writes the header of a CSV with the first row, so a file without rows is empty.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial

import pyarrow as pa

from gapless.chains.evm.tables import BLOCKS, LOGS, TRANSACTIONS, WITHDRAWALS
from gapless.chains.evm.transfers import COLUMNS, MADE_OF, transfers
from gapless.schema import Column
from gapless.schema.arrow import one_array
from gapless.schema.layout import Field, Form, Layout, Window, plain
from gapless.schema.values import gathered, grouped, hex_texts, looked_up

VERSION = "2.4.2"

_TEXTS = pa.list_(pa.string())
_WITHDRAWAL = {
    "index": ("withdrawal_index", pa.uint64()),
    "validator_index": ("validator_index", pa.uint64()),
    "address": ("address", pa.string()),
    "amount": ("amount", pa.uint64()),
}
_WITHDRAWALS = pa.list_(pa.struct([(name, type_) for name, (_, type_) in _WITHDRAWAL.items()]))
_TOPICS = ("topic0", "topic1", "topic2", "topic3")


def _block_hash(rows: pa.Table, window: Window) -> pa.Array:
    """Look up the block's hash, which only the table `blocks` holds."""
    blocks = window[BLOCKS.name]
    known, hashes = one_array(blocks["block_number"]), hex_texts(one_array(blocks["hash"]))
    return looked_up(one_array(rows["block_number"]), known, hashes)


def _topics(rows: pa.Table, _: Window) -> pa.Array:
    return gathered([hex_texts(one_array(rows[name])) for name in _TOPICS])


def _withdrawals(rows: pa.Table, window: Window) -> pa.Array:
    """Return each block's withdrawals; empty for blocks from before Shanghai."""
    found = window[WITHDRAWALS.name]
    columns = [one_array(found[stored]) for stored, _ in _WITHDRAWAL.values()]
    values = [hex_texts(it) if pa.types.is_fixed_size_binary(it.type) else it for it in columns]
    objects = pa.StructArray.from_arrays(values, [*_WITHDRAWAL])
    return grouped(one_array(rows["block_number"]), one_array(found["block_number"]), objects)


def _blob_versioned_hashes(rows: pa.Table, _: Window) -> pa.Array:
    """Return the hashes of each transaction; an empty list for one without blobs."""
    texts = rows["blob_versioned_hashes"].to_pylist()
    return pa.array([json.loads(text) if text else [] for text in texts], _TEXTS)


def _with_receipts(rows: pa.Table) -> pa.Table:
    """Leave out transactions without a receipt, which exist on some chains."""
    return rows.filter(rows["cumulative_gas_used"].is_valid())


def _l1_fee_scalar(rows: pa.Table, _: Window) -> pa.Array:
    """Read the field from `extra`: it is too rare for a column."""
    return pa.array([_scalar(text) for text in rows["extra"].to_pylist()], pa.float64())


def _scalar(extra: str | None) -> float | None:
    if extra is None or "l1FeeScalar" not in extra:
        return None
    found = json.loads(extra).get("receipt", {}).get("l1FeeScalar")
    return float(found) if found else None


_BLOCK_HASH = Field("block_hash", Form.TEXT, pa.string(), ("block_number",), _block_hash)
_SPECIAL = {
    "topics": Field("topics", Form.TEXTS, _TEXTS, _TOPICS, _topics),
    "withdrawals": Field(
        "withdrawals", Form.OBJECTS, _WITHDRAWALS, ("block_number",), _withdrawals
    ),
    "block_hash": _BLOCK_HASH,
    "blob_versioned_hashes": Field(
        "blob_versioned_hashes",
        Form.TEXTS,
        _TEXTS,
        ("blob_versioned_hashes",),
        _blob_versioned_hashes,
    ),
    "l1_fee_scalar": Field("l1_fee_scalar", Form.FLOAT, pa.float64(), ("extra",), _l1_fee_scalar),
}
_RENAMED = {"number": "block_number", "timestamp": "block_timestamp", "transaction_type": "type"}
_HASHES = {BLOCKS.name: ("block_number", "hash")}

_layout = partial(Layout, names_without_rows=False)


def _fields(columns: tuple[Column, ...], names: str, **renamed: str) -> tuple[Field, ...]:
    """Return the fields of some names; most names are the same as ours."""
    ours = {column.name: column for column in columns}
    to_ours = {**_RENAMED, **renamed}
    return tuple(
        _SPECIAL[name]
        if name in _SPECIAL
        else plain(ours[to_ours.get(name, name)], name=name, wide=Form.DIGITS)
        for name in names.split()
    )


ETL: Mapping[str, Layout] = {
    "blocks": _layout(
        BLOCKS,
        _fields(
            BLOCKS.columns,
            "number hash parent_hash nonce sha3_uncles logs_bloom transactions_root state_root "
            "receipts_root miner difficulty total_difficulty size extra_data gas_limit gas_used "
            "timestamp transaction_count base_fee_per_gas withdrawals_root withdrawals "
            "blob_gas_used excess_blob_gas",
        ),
        {WITHDRAWALS.name: ("block_number", *(it for it, _ in _WITHDRAWAL.values()))},
    ),
    "transactions": _layout(
        TRANSACTIONS,
        _fields(
            TRANSACTIONS.columns,
            "hash nonce block_hash block_number transaction_index from_address to_address value "
            "gas gas_price input block_timestamp max_fee_per_gas max_priority_fee_per_gas "
            "transaction_type max_fee_per_blob_gas blob_versioned_hashes",
        ),
        _HASHES,
    ),
    "receipts": _layout(
        TRANSACTIONS,
        _fields(
            TRANSACTIONS.columns,
            "transaction_hash transaction_index block_hash block_number cumulative_gas_used "
            "gas_used contract_address root status effective_gas_price l1_fee l1_gas_used "
            "l1_gas_price l1_fee_scalar blob_gas_price blob_gas_used",
            transaction_hash="hash",
        ),
        _HASHES,
        ("cumulative_gas_used",),
        _with_receipts,
        needs_count_of=LOGS.name,
    ),
    "logs": _layout(
        LOGS,
        _fields(
            LOGS.columns,
            "log_index transaction_hash transaction_index block_hash block_number address data "
            "topics",
        ),
        _HASHES,
    ),
    "token_transfers": _layout(
        LOGS,
        _fields(
            COLUMNS,
            "token_address from_address to_address value transaction_hash log_index block_number",
        ),
        {},
        MADE_OF,
        transfers,
    ),
}
