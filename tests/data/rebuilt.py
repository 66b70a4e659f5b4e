"""JSON-RPC objects rebuilt from the tables, to prove that decoding loses nothing.

Values that a table omits because they follow from others are derived here, in every variant that
nodes use; `differences` then compares them with a node's answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from gapless.chains.evm.tables import BLOCKS, LOGS, TRANSACTIONS, WITHDRAWALS
from gapless.schema import Kind, Table
from gapless.schema.arrow import Tables
from tests.unit.evm.reference import bloom

Json = dict[str, Any]

# What some nodes send and others omit, and what every row implies.
OPTIONAL = {"blockTimestamp", "chainId", "yParity", "removed", "from", "to", "type"}
# Old nodes of Optimism write these in decimal.
DECIMAL = {"l1Fee", "l1GasPrice", "l1GasUsed"}

_RECEIPT = {
    "status root gas_used cumulative_gas_used effective_gas_price contract_address blob_gas_used",
    "blob_gas_price l1_fee l1_gas_price l1_gas_used deposit_nonce deposit_receipt_version",
    "gas_used_for_l1 l1_block_number",
}
_RECEIPT_COLUMNS = {name for names in _RECEIPT for name in names.split()}
_NAMES = {"from_address": "from", "to_address": "to", "withdrawal_index": "index"}
_NOT_OF_THE_ANSWER = {
    *("chain_id", "block_number", "block_timestamp", "transaction_index", "log_position"),
    *("withdrawal_position", "transaction_count", "log_count", "withdrawal_count", "extra"),
    *("topic0", "topic1", "topic2", "topic3"),
}


def rebuilt(tables: Tables) -> Iterator[tuple[Json, list[Json]]]:
    """Each block and its receipts."""
    transactions = _by_block(tables["transactions"])
    withdrawals = _by_block(tables["withdrawals"])
    logs = _by_block(tables["logs"]) if "logs" in tables else {}
    for row in tables["blocks"].to_pylist():
        height = row["block_number"]
        own = transactions.get(height, [])
        receipts = list(_receipts(row, own, logs.get(height, [])))
        yield _block(row, own, withdrawals.get(height, [])), receipts


def differences(said: Any, made: Any, path: str = "") -> Iterator[str]:
    """Where a node's answer and the rebuilt one differ; null equals absent."""
    if isinstance(said, dict) and isinstance(made, dict):
        for key, value in said.items():
            if value is None and key == "chainId":
                continue  # nodes send it for a signature that is not bound to a chain
            yield from differences(_number(key, value), made.get(key), f"{path}.{key}")
        for key in made.keys() - said.keys() - OPTIONAL:
            if made[key] is not None:
                yield f"{path}.{key}: added"
    elif isinstance(said, list) and isinstance(made, list):
        if len(said) != len(made):
            yield f"{path}: {len(made)} items of {len(said)}"
        for at, (one, other) in enumerate(zip(said, made, strict=False)):
            yield from differences(one, other, f"{path}[{at}]")
    elif said != made:
        yield f"{path}: {said!r:.80} became {made!r:.80}"


def _block(row: Json, transactions: list[Json], withdrawals: list[Json]) -> Json:
    made = _answer(BLOCKS, row)
    made |= {"number": hex(row["block_number"]), "timestamp": hex(row["block_timestamp"])}
    made["transactions"] = [_transaction(each, row) for each in transactions]
    assert row["transaction_count"] == len(transactions)
    if row["withdrawal_count"] is not None:
        made["withdrawals"] = [_answer(WITHDRAWALS, each) for each in withdrawals]
        assert row["withdrawal_count"] == len(withdrawals)
    return made


def _transaction(row: Json, block: Json) -> Json:
    made = {"chainId": hex(row["chain_id"]), "yParity": _parity(row["v"])}
    made |= _place(block, row["transaction_index"])
    made |= _answer(TRANSACTIONS, row, without=_RECEIPT_COLUMNS)
    made.pop("receipt", None)
    return made


def _receipts(block: Json, transactions: list[Json], logs: list[Json]) -> Iterator[Json]:
    for row in transactions:
        if row["log_count"] is None:
            continue
        own = [each for each in logs if each["transaction_index"] == row["transaction_index"]]
        assert row["log_count"] == len(own)
        names = {"from_address", "to_address", "type", *_RECEIPT_COLUMNS}
        made = _place(block, row["transaction_index"]) | {"transactionHash": _hex(row["hash"])}
        made |= _answer(TRANSACTIONS, row, without=row.keys() - names)
        made["logs"] = [_log(each, block) for each in own]
        made["logsBloom"] = _hex(bloom(item for each in own for item in _items(each)))
        yield made | json.loads(row["extra"] or "{}").get("receipt", {})


def _log(row: Json, block: Json) -> Json:
    made = _place(block, row["transaction_index"]) | {"removed": False}
    return made | {"topics": list(map(_hex, _items(row)[1:]))} | _answer(LOGS, row)


def _items(log: Json) -> list[bytes]:
    return [log["address"], *(log[f"topic{at}"] for at in range(4) if log[f"topic{at}"])]


def _place(block: Json, index: int) -> Json:
    return {
        "blockHash": _hex(block["hash"]),
        "blockNumber": hex(block["block_number"]),
        "blockTimestamp": hex(block["block_timestamp"]),
        "transactionIndex": hex(index),
    }


def _answer(table: Table, row: Json, without: Any = frozenset()) -> Json:
    made = {
        _key(column.name): _text(column.kind, row[column.name])
        for column in table.columns
        if column.name not in _NOT_OF_THE_ANSWER and column.name not in without
    }
    extra = json.loads(row["extra"] or "{}") if "extra" not in without else {}
    return made | extra


def _text(kind: Kind, value: Any) -> Any:
    if value is None or kind is Kind.BOOL:
        return value
    if kind is Kind.INT:
        return hex(value)
    if kind is Kind.JSON:
        return json.loads(value)
    return hex(int.from_bytes(value)) if kind in (Kind.U256, Kind.WORD) else _hex(value)


def _key(name: str) -> str:
    first, *rest = _NAMES.get(name, name).split("_")
    return first + "".join(map(str.title, rest))


def _hex(value: bytes) -> str:
    return f"0x{value.hex()}"


def _parity(v: int | None) -> str | None:
    return None if v is None else hex(v if v < 27 else (v - 27) % 2 if v < 35 else (v - 35) % 2)


def _number(key: str, value: Any) -> Any:
    return hex(int(value)) if key in DECIMAL and value.isdecimal() else value


def _by_block(table: pa.Table) -> dict[int, list[Json]]:
    found: dict[int, list[Json]] = {}
    for row in table.to_pylist():
        found.setdefault(row["block_number"], []).append(row)
    return found
