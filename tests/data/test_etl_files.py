"""Our exports equal what ethereum-etl wrote for the same blocks.

Its test files are older than its blob columns. Those come last and are empty for such old blocks,
so our lines must equal theirs once the empty blob columns are cut off.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gapless.chains.evm.decode.structs import parse_block, parse_receipts
from gapless.chains.evm.decode.tables import decode_blocks
from gapless.export import FORMATS, find_layout, layout_sets
from gapless.export.stream import read_columns
from gapless.schema.arrow import Tables
from tests.data.recorded import DATA, RealBlock, real_blocks, with_blocks
from tests.unit.export.stage import as_stored

LAYOUTS = {schema: each.tables for schema, each in layout_sets().items()}
ETL = DATA / "etl"
BLOCKS_JOB = ETL / "test_export_blocks_job"
RECEIPTS_JOB = ETL / "test_export_receipts_job" / "receipts_with_logs"
BLOB_COLUMNS = {
    "blocks": ("blob_gas_used", "excess_blob_gas"),
    "transactions": ("max_fee_per_blob_gas", "blob_versioned_hashes"),
    "receipts": ("blob_gas_price", "blob_gas_used"),
}

pytestmark = pytest.mark.skipif(
    not ETL.exists(), reason="there are no recorded files of ethereum-etl"
)


def answers(folder: Path, pattern: str) -> list[Any]:
    """The answers of nodes, as ethereum-etl recorded them for its tests."""
    files = sorted(folder.glob(f"web3_response.{pattern}*.json"))
    return [json.loads(file.read_text())["result"] for file in files]


def decoded(blocks: Iterable[Any], receipts: list[Any] | None = None) -> Tables:
    parsed = None if receipts is None else [parse_receipts(msgspec.json.encode(receipts))]
    return decode_blocks([parse_block(msgspec.json.encode(it)) for it in blocks], parsed, 1)


def exported(tables: Tables, table: str, format_name: str = "csv") -> str:
    layout = find_layout("ethereum-etl", table)
    window = {name: tables[name].select(columns) for name, columns in read_columns(layout).items()}
    file = io.BytesIO()
    writer = FORMATS[format_name](layout, file)
    writer.write(layout.rows(window[layout.table.name], window))
    writer.finish()
    return file.getvalue().decode()


def assert_same(ours: str, theirs: Path) -> None:
    """The same text, except for the order of receipts and the last newline, which vary there."""
    expected = theirs.read_text().splitlines()
    columns = BLOB_COLUMNS.get(theirs.stem.removeprefix("expected_"), ())
    cut = _without_fields if theirs.suffix == ".json" else _without_columns
    found = cut(ours.splitlines(), columns)
    assert sorted(found) == sorted(expected)
    assert not expected or found[0] == expected[0] or theirs.suffix == ".json"


def _without_columns(lines: list[str], columns: tuple[str, ...]) -> list[str]:
    """CSV lines without these last columns, which must be empty."""
    names = "".join(f",{name}" for name in columns)
    ends = [names, *("," * len(columns) for _ in lines[1:])]
    assert all(line.endswith(end) for line, end in zip(lines, ends, strict=False))
    return [line.removesuffix(end) for line, end in zip(lines, ends, strict=False)]


def _without_fields(lines: list[str], columns: tuple[str, ...]) -> list[str]:
    """JSON lines without these last fields, which must be empty."""
    empty = {name: "[]" if name.endswith("hashes") else "null" for name in columns}
    end = "".join(f', "{name}": {value}' for name, value in empty.items()) + "}"
    assert all(line.endswith(end) for line in lines)
    return [line.removesuffix(end) + "}" for line in lines]


def block_with_receipts() -> Tables:
    receipts = answers(RECEIPTS_JOB, "eth_getTransactionReceipt")
    receipts.sort(key=lambda it: int(it["transactionIndex"], 16))
    return decoded(answers(BLOCKS_JOB / "block_with_logs", "eth_getBlockByNumber"), receipts)


@pytest.mark.parametrize(
    "case", ["block_with_logs", "block_without_transactions", "blocks_with_transactions"]
)
def test_blocks_and_transactions(case: str) -> None:
    folder = BLOCKS_JOB / case
    tables = decoded(answers(folder, "eth_getBlockByNumber"))
    for name in ("blocks", "transactions"):
        assert_same(exported(tables, name), folder / f"expected_{name}.csv")


def test_receipts_logs_and_token_transfers() -> None:
    tables = block_with_receipts()
    for name in ("receipts", "logs"):
        for format_name in ("csv", "json"):
            theirs = RECEIPTS_JOB / f"expected_{name}.{format_name}"
            assert_same(exported(tables, name, format_name), theirs)
    folder = ETL / "test_export_token_transfers_job" / "block_with_transfers"
    assert_same(exported(tables, "token_transfers"), folder / "expected_token_transfers.csv")


def test_transfers_among_other_logs() -> None:
    folder = ETL / "test_extract_token_transfers_job" / "logs"
    logs = as_stored("logs", csv.DictReader((folder / "logs.csv").read_text().splitlines()))
    tables = Tables({"blocks": as_stored("blocks", []), "logs": logs})
    theirs = folder / "expected_token_transfers.csv"
    assert_same(exported(tables, "token_transfers"), theirs)


@pytest.mark.parametrize("given", ["csv", "json"])
@pytest.mark.parametrize("wanted", ["csv", "json"])
@pytest.mark.parametrize("name", ["blocks", "transactions"])
def test_withdrawals_and_fees(name: str, given: str, wanted: str) -> None:
    """There is no recorded answer, so the rows come from the files of ethereum-etl."""
    folder = BLOCKS_JOB / "blocks_with_transactions_and_withdrawals"
    rows: dict[str, list[dict[str, Any]]] = {}
    for each in ("blocks", "transactions"):
        with (folder / f"expected_{each}.{given}").open() as file:
            rows[each] = [*csv.DictReader(file)] if given == "csv" else [*map(json.loads, file)]
    withdrawals = []
    for block in rows["blocks"]:
        found = block.pop("withdrawals")
        for position, each in enumerate(json.loads(f"[{found}]") if given == "csv" else found):
            place = {"block_number": block["number"], "withdrawal_position": position}
            withdrawals.append({**place, **each, "withdrawal_index": each["index"]})
    tables = Tables(
        {
            **{each: as_stored(each, rows[each]) for each in rows},
            "withdrawals": as_stored("withdrawals", withdrawals),
        }
    )
    assert_same(exported(tables, name, wanted), folder / f"expected_{name}.{wanted}")


def _peers() -> list[RealBlock]:
    return [it for it in real_blocks() if it.peer_token_transfers is not None]


@with_blocks
def test_another_indexer_finds_the_same_transfers() -> None:
    found = 0
    for real in _peers():
        tables = decoded([real.block], real.receipts)
        lines = exported(tables, "token_transfers", "json").splitlines()
        ours = [msgspec.json.decode(line) for line in lines]
        theirs = [  # who leave zeros out
            {
                "token_address": it["tokenAddress"],
                "from_address": it["fromAddress"],
                "to_address": it["toAddress"],
                # Zeros are left out.
                "value": int(
                    it["erc20"].get("value", 0) if "erc20" in it else it["erc721"]["tokenId"]
                ),
                "transaction_hash": it["transactionHash"],
                "log_index": int(it.get("logIndex", 0)),
                "block_number": int(it["blockNumber"]),
            }
            for it in real.peer_token_transfers or ()
        ]
        assert ours == theirs, str(real)
        found += len(ours)
    assert found == 1223


def test_every_file_of_ethereum_etl_is_compared() -> None:
    names = {it.stem.removeprefix("expected_") for it in ETL.rglob("expected_*")}
    assert names == {*LAYOUTS["ethereum-etl"]}
