"""Stored rows prove themselves: every value of every column is changed in turn."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pyarrow as pa
import pytest

from gapless.chains.family import Examined
from gapless.chains.level import Level
from gapless.chains.network import Network
from gapless.chains.tron.check_names import PROVABLE, TronCheck
from gapless.chains.tron.family import TRON
from gapless.chains.tron.info_rows import INFO_COLUMNS
from gapless.chains.tron.networks import TRON_CUSTOM, TRON_NETWORKS
from gapless.schema import Column, Kind, Table
from gapless.schema.arrow import arrow_schema
from tests.unit.tron.answers import (
    CHAIN_ID,
    EVERYTHING,
    HEIGHT,
    TRANSFERS_COINS,
    answers,
    block,
    read,
    transaction,
)

Row = dict[str, Any]
Rows = dict[str, list[Row]]
BY_NAME = {table.name: table for table in TRON.tables}
CLAIMED = TRON.level(Level.AUTO, EVERYTHING)
DUE = PROVABLE - {TronCheck.PLACES, TronCheck.LINK}

# Changes of these alone go unnoticed: nothing on the chain, and no other column, repeats them.
UNNOTICED = {
    "tron_blocks": {"witness_signature", "extra"},
    "tron_transactions": {
        *("receipt_result", "is_failed", "fee", "energy_usage", "energy_fee"),
        *("origin_energy_usage", "energy_usage_total", "energy_penalty_total", "net_usage"),
        *("net_fee", "withdraw_amount", "unfreeze_amount", "withdraw_expire_amount"),
        *("output", "message", "extra"),
    },
    "tron_logs": {"topic0", "topic1", "topic2", "topic3", "data", "extra"},
    "tron_internal_transactions": {
        *("hash", "call_value", "asset_values", "note", "is_rejected", "extra"),
    },
    "tron_transfers": set(),
}


@cache
def honest(datasets: frozenset[str]) -> Rows:
    block_, infos = answers()
    reading = read(block_, infos, datasets=datasets)
    return {name: table.to_pylist() for name, table in reading.tables.items()}


def stored(datasets: frozenset[str] = EVERYTHING) -> Rows:
    return {name: [{**row} for row in rows] for name, rows in honest(datasets).items()}


def examined(
    rows: Rows, checks: frozenset[str] = CLAIMED, network: Network = TRON_CUSTOM
) -> Examined:
    tables = {
        name: pa.Table.from_pylist(each, arrow_schema(BY_NAME[name]).remove_metadata())
        for name, each in rows.items()
    }
    return TRON.rows.examine(tables, network, CHAIN_ID, checks)


def is_noticed(rows: Rows) -> bool:
    found = examined(rows)
    return bool(found.flaws) or not TRON.rows.due(CLAIMED, [*rows]) <= found.proof.proven


def test_honest_rows_prove_all_that_rows_can_prove() -> None:
    found = examined(stored())
    assert found.flaws == []
    assert found.proof.proven == DUE | {TronCheck.LINK}
    assert TRON.rows.due(CLAIMED, EVERYTHING) == DUE
    assert TRON.rows.repeatable(frozenset()) == DUE


def test_headers_alone_prove_headers() -> None:
    found = examined(stored(frozenset({"tron_blocks"})))
    assert found.flaws == []
    proven = {TronCheck.HEIGHT, TronCheck.LINK, TronCheck.WITNESS, TronCheck.HEADER_HASH}
    assert found.proof.proven == proven
    assert TRON.rows.due(CLAIMED, ["tron_blocks"]) == proven - {TronCheck.LINK}


@pytest.mark.parametrize("absent", sorted(EVERYTHING - {"tron_blocks"}))
def test_a_table_that_is_not_stored_is_not_missed(absent: str) -> None:
    found = examined(stored(EVERYTHING - {absent}))
    assert found.flaws == []


def changed(column: Column, value: Any) -> Any:
    """Return another value of the same kind."""
    if column.kind is Kind.BOOL:
        return not value
    if column.kind in (Kind.INT, Kind.FLOAT):
        return (value or 0) * 2 + 1
    if column.kind.is_text:
        return '{"forged":1}' if column.name in ("extra", "asset_values") else (value or "") + "1"
    if value is None:
        return b"\x01" * (column.kind.width or 1)
    return (value or b"\0")[:-1] + bytes([(value or b"\0")[-1] ^ 1])


def forgeries(table: Table) -> Iterator[tuple[str, Rows]]:
    """Yield rows with one value changed, nulled or invented, and the column it is in."""
    for column in table:
        for at in range(len(stored()[table.name])):
            rows = stored()
            row = rows[table.name][at]
            row[column.name] = changed(column, row[column.name])
            yield column.name, rows
            rows = stored()
            if column.nullable and rows[table.name][at][column.name] is not None:
                rows[table.name][at][column.name] = None
                yield column.name, rows


@pytest.mark.parametrize("table", TRON.tables, ids=lambda it: it.name)
def test_a_changed_value_is_noticed_unless_nothing_repeats_it(table: Table) -> None:
    unnoticed = {column for column, rows in forgeries(table) if not is_noticed(rows)}
    assert unnoticed == UNNOTICED[table.name]


@pytest.mark.parametrize("name", sorted(EVERYTHING - {"tron_blocks"}))
@pytest.mark.parametrize("deed", ["lost", "repeated", "swapped"])
def test_lost_repeated_and_swapped_rows_are_noticed(name: str, deed: str) -> None:
    rows = stored()
    if deed == "lost":
        del rows[name][0]
    elif deed == "repeated":
        rows[name].insert(0, rows[name][0])
    else:
        rows[name][:2] = rows[name][1::-1]
    assert is_noticed(rows)


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("tron_blocks", "extra"),
        ("tron_blocks", "raw_data"),
        ("tron_transactions", "signatures"),
        ("tron_transactions", "extra"),
        ("tron_transactions", "raw_data"),
        ("tron_logs", "extra"),
        ("tron_internal_transactions", "asset_values"),
    ],
)
def test_unreadable_values_are_flaws(name: str, column: str) -> None:
    rows = stored()
    rows[name][0][column] = b"\x0a\xff" if column == "raw_data" else "{"
    flaw, *_ = examined(rows, frozenset()).flaws  # others may follow from it
    assert (flaw.height, flaw.table) == (HEIGHT, "tron_blocks")
    assert flaw.message.startswith("a column cannot be read")


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("signatures", "5"),
        ("signatures", '["x"]'),
        ("signatures", "[5]"),
        ("extra", '{"ret":5}'),
        ("extra", '{"ret":[5]}'),
        ("extra", "[]"),
    ],
)
def test_json_of_another_form_is_a_flaw(column: str, value: str) -> None:
    rows = stored()
    rows["tron_transactions"][0][column] = value
    assert "cannot be read" in examined(rows, frozenset()).flaws[0].message


def test_a_result_without_a_name_is_a_flaw() -> None:
    rows = stored()
    rows["tron_transactions"][0]["contract_result"] = 99
    assert "cannot be read" in examined(rows, frozenset()).flaws[0].message


def test_blocks_must_link() -> None:
    first = block([], HEIGHT)
    after = block([], HEIGHT + 1, parentHash=first["blockID"])
    stray = block([], HEIGHT + 1)
    rows = {
        each["blockID"]: read(each, [], height=height).tables["tron_blocks"].to_pylist()
        for each, height in ((first, HEIGHT), (after, HEIGHT + 1), (stray, HEIGHT + 1))
    }
    linked = rows[first["blockID"]] + rows[after["blockID"]]
    assert not examined({"tron_blocks": linked}).flaws
    apart = rows[first["blockID"]] + rows[stray["blockID"]]
    (flaw,) = examined({"tron_blocks": apart}).flaws
    assert (flaw.height, flaw.message) == (
        HEIGHT + 1,
        "its parent is not the block stored before it",
    )


def test_an_early_transaction_without_an_info_has_no_column_of_one() -> None:
    sent = transaction(TRANSFERS_COINS)
    mainnet = TRON_NETWORKS[0]
    reading = read(block([sent], 5), [], network=mainnet, height=5)
    rows = {name: each.to_pylist() for name, each in reading.tables.items()}
    assert rows["tron_blocks"][0]["log_count"] == 0
    assert not examined(rows, network=mainnet).flaws
    for column in (*INFO_COLUMNS, "receipt_result", "contract_address"):
        forged = {name: [{**row} for row in each] for name, each in rows.items()}
        kind = BY_NAME["tron_transactions"][column]
        forged["tron_transactions"][0][column] = changed(kind, None)
        assert examined(forged, network=mainnet).flaws, column


def test_a_root_that_was_never_proven_is_not_missed() -> None:
    block_, infos = answers()
    block_["transactions"][0]["ret"] = [{"contractRet": "REVERT"}]
    rows = {name: each.to_pylist() for name, each in read(block_, infos).tables.items()}
    found = examined(rows)
    assert not found.flaws
    assert found.proof.unproven == {TronCheck.TRANSACTIONS_ROOT}
