"""The columns of `--schema ethereum-etl` are those of ethereum-etl 2.4.2."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest

from gapless.export import FORMATS, layout_sets
from gapless.schema.layout import Window
from tests.unit.export.stage import as_stored

# Copied from the exporters of ethereum-etl 2.4.2 (`ethereumetl/jobs/exporters`).
EXPORTED = {
    "blocks": [
        *("number", "hash", "parent_hash", "nonce", "sha3_uncles", "logs_bloom"),
        *("transactions_root", "state_root", "receipts_root", "miner", "difficulty"),
        *("total_difficulty", "size", "extra_data", "gas_limit", "gas_used", "timestamp"),
        *("transaction_count", "base_fee_per_gas", "withdrawals_root", "withdrawals"),
        *("blob_gas_used", "excess_blob_gas"),
    ],
    "transactions": [
        *("hash", "nonce", "block_hash", "block_number", "transaction_index", "from_address"),
        *("to_address", "value", "gas", "gas_price", "input", "block_timestamp"),
        *("max_fee_per_gas", "max_priority_fee_per_gas", "transaction_type"),
        *("max_fee_per_blob_gas", "blob_versioned_hashes"),
    ],
    "receipts": [
        *("transaction_hash", "transaction_index", "block_hash", "block_number"),
        *("cumulative_gas_used", "gas_used", "contract_address", "root", "status"),
        *("effective_gas_price", "l1_fee", "l1_gas_used", "l1_gas_price", "l1_fee_scalar"),
        *("blob_gas_price", "blob_gas_used"),
    ],
    "logs": [
        *("log_index", "transaction_hash", "transaction_index", "block_hash", "block_number"),
        *("address", "data", "topics"),
    ],
    "token_transfers": [
        *("token_address", "from_address", "to_address", "value", "transaction_hash"),
        *("log_index", "block_number"),
    ],
}
HASHES = [f"0x01{digit * 62}" for digit in "ab"]


LAYOUTS = {schema: each.tables for schema, each in layout_sets().items()}


def test_columns_and_their_order() -> None:
    layouts = LAYOUTS["ethereum-etl"]
    found = {name: [field.name for field in layout.fields] for name, layout in layouts.items()}
    assert found == EXPORTED


def test_the_schema_names_the_version_of_the_tool_that_it_copies() -> None:
    versions = {schema: each.version for schema, each in layout_sets().items()}
    assert versions == {"native": None, "ethereum-etl": "2.4.2"}


@pytest.mark.parametrize(
    ("stored", "in_csv", "in_json"),
    [
        (None, "", []),  # ethereum-etl starts with an empty list
        ([], "", []),
        (HASHES[:1], HASHES[0], HASHES[:1]),
        (HASHES, ",".join(HASHES), HASHES),
    ],
)
def test_blob_hashes(stored: list[str] | None, in_csv: str, in_json: list[str]) -> None:
    text = None if stored is None else json.dumps(stored)
    rows = as_stored("transactions", [{"block_number": 1, "blob_versioned_hashes": text}])
    window = {"blocks": as_stored("blocks", [{"block_number": 1}]), "transactions": rows}
    (line,) = csv.DictReader(io.StringIO(_written("csv", window)))
    assert line["blob_versioned_hashes"] == in_csv
    assert json.loads(_written("json", window))["blob_versioned_hashes"] == in_json


def _written(format_name: str, window: Window) -> str:
    layout, file = LAYOUTS["ethereum-etl"]["transactions"], io.BytesIO()
    writer: Any = FORMATS[format_name](layout, file)
    writer.write(layout.rows(window["transactions"], window))
    writer.finish()
    return file.getvalue().decode()
