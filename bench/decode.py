"""Decoding real mainnet blocks, compared with `json` and loops over rows.

Run alone (`python -m bench.decode`): 11 real blocks of 149 transactions on average, from the data
beside the project, from the bytes of the answers to Arrow tables. The loops make a dict of each row
and pass them to `pyarrow.Table.from_pylist`; both produce the same tables, which is checked first.
Times are processor time; the rounds alternate, and a ratio is the median over the rounds.
"""

from __future__ import annotations

import gzip
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.report import Row, at_least, head, line, median, median_ratio
from gapless.chains.evm.decode.lossless import keep_block, keep_receipts
from gapless.chains.evm.decode.structs import parse_block, parse_receipts
from gapless.chains.evm.decode.tables import decode_blocks
from gapless.chains.evm.tables import TABLES
from gapless.schema.arrow import Tables, arrow_schema

BLOCKS = Path(__file__).parents[2] / "shared" / "data" / "blocks"
CHAIN = 1
ROUNDS = 15

Answers = list[tuple[bytes, bytes]]
Rows = dict[str, list[dict[str, Any]]]


def measure() -> Iterator[Row]:
    given = answers()
    if not same(ours(given), tables(loops(given))):
        raise AssertionError("the two do not decode to the same tables")
    ways: dict[str, Callable[[Answers], object]] = {
        "parse only": parsed,
        "ours": ours,
        "keeping": keeping,
        "json only": loaded,
        "rows": loops,
        "tables": lambda given: tables(loops(given)),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(ROUNDS):
        for name in sorted(ways, reverse=bool(turn % 2)):
            times[name].append(seconds(ways[name], given))

    def rate(name: str) -> str:
        each = median(times[name]) / len(given)
        return f"{1 / each:.0f} blocks/s, {each * 1000:.2f} ms"

    def ratio(name: str) -> float:
        return median_ratio(times[name], times["ours"])

    yield Row("decode: msgspec alone, to objects", rate("parse only"))
    yield Row("decode: json alone, to dicts", rate("json only"))
    yield Row("decode: json + row loops, to rows", rate("rows"))
    yield Row("decode: json + row loops, to tables", rate("tables"))
    yield Row("decode: gapless, to tables", rate("ours"))
    yield Row("decode: gapless, keeping unknown keys", rate("keeping"))
    yield Row("decode: gapless over loops that end with rows", "", ratio("rows"))
    yield Row("decode: gapless over loops, same tables", "", ratio("tables"), at_least(2.5))


def answers() -> Answers:
    """Blocks since the fee market (EIP-1559) with at least a hundred transactions."""
    index = json.loads((BLOCKS / "index.json").read_text())
    heights = [
        entry["number"]
        for entry in index
        if entry["chain"] == "ethereum" and entry["txs"] >= 100 and entry["tier"].startswith("A")
    ]
    return [(read(height, "block"), read(height, "receipts")) for height in heights]


def read(height: int, kind: str) -> bytes:
    return gzip.decompress((BLOCKS / "ethereum" / f"{height}.{kind}.json.gz").read_bytes())


def seconds(work: Callable[[Answers], object], given: Answers) -> float:
    started = time.process_time()
    work(given)
    return time.process_time() - started


def parsed(given: Answers) -> object:
    return [(parse_block(block), parse_receipts(receipts)) for block, receipts in given]


def ours(given: Answers) -> Tables:
    blocks = [parse_block(block) for block, _ in given]
    return decode_blocks(blocks, [parse_receipts(receipts) for _, receipts in given], CHAIN)


def keeping(given: Answers) -> Tables:
    blocks = [keep_block(block) for block, _ in given]
    pairs = zip(given, blocks, strict=True)
    return decode_blocks(blocks, [keep_receipts(raw, block) for (_, raw), block in pairs], CHAIN)


def loaded(given: Answers) -> object:
    return [(json.loads(block), json.loads(receipts)) for block, receipts in given]


def tables(rows: Rows) -> Tables:
    found = {it.name: pa.Table.from_pylist(rows[it.name], arrow_schema(it)) for it in TABLES}
    return Tables(found)


def same(one: Tables, other: Tables) -> bool:
    return list(one) == list(other) and all(one[name].equals(other[name]) for name in one)


def loops(given: Answers) -> Rows:
    """The obvious implementation: parse, and loop."""
    rows: Rows = {it.name: [] for it in TABLES}
    for raw, raw_receipts in given:
        block, receipts = json.loads(raw), json.loads(raw_receipts)
        place = {
            "chain_id": CHAIN,
            "block_number": number(block["number"]),
            "block_timestamp": number(block["timestamp"]),
        }
        log_count = 0
        for index, it in enumerate(block["transactions"]):
            receipt = receipts[index]
            inner = {**place, "transaction_index": index}
            rows["transactions"].append(transaction_row(it, receipt, inner))
            for position, log in enumerate(receipt["logs"]):
                rows["logs"].append(log_row(log, {**inner, "log_position": position}))
            log_count += len(receipt["logs"])
        rows["blocks"].append(block_row(block, {**place, "log_count": log_count}))
        for position, it in enumerate(block.get("withdrawals") or ()):
            rows["withdrawals"].append(
                withdrawal_row(it, {**place, "withdrawal_position": position})
            )
    return rows


def block_row(it: dict[str, Any], place: dict[str, Any]) -> dict[str, Any]:
    withdrawals = it.get("withdrawals")
    return {
        **place,
        "hash": data(it["hash"]),
        "parent_hash": data(it["parentHash"]),
        "miner": data(it["miner"]),
        "gas_limit": number(it["gasLimit"]),
        "gas_used": number(it["gasUsed"]),
        **wide("base_fee_per_gas", it.get("baseFeePerGas")),
        **wide("difficulty", it.get("difficulty")),
        **wide("total_difficulty", it.get("totalDifficulty")),
        "size": number(it.get("size")),
        "extra_data": data(it["extraData"]),
        "nonce": data(it.get("nonce")),
        "mix_hash": data(it.get("mixHash")),
        "sha3_uncles": data(it["sha3Uncles"]),
        "state_root": data(it["stateRoot"]),
        "transactions_root": data(it["transactionsRoot"]),
        "receipts_root": data(it["receiptsRoot"]),
        "logs_bloom": data(it.get("logsBloom")),
        "withdrawals_root": data(it.get("withdrawalsRoot")),
        "parent_beacon_block_root": data(it.get("parentBeaconBlockRoot")),
        "requests_hash": data(it.get("requestsHash")),
        "blob_gas_used": number(it.get("blobGasUsed")),
        "excess_blob_gas": number(it.get("excessBlobGas")),
        "uncles": text(it["uncles"]),
        "l1_block_number": number(it.get("l1BlockNumber")),
        "send_count": number(it.get("sendCount")),
        "send_root": data(it.get("sendRoot")),
        "transaction_count": len(it["transactions"]),
        "withdrawal_count": None if withdrawals is None else len(withdrawals),
    }


def transaction_row(
    it: dict[str, Any], receipt: dict[str, Any], place: dict[str, Any]
) -> dict[str, Any]:
    return {
        **place,
        "hash": data(it["hash"]),
        "type": number(it["type"]),
        "from_address": data(it["from"]),
        "to_address": data(it["to"]),
        "nonce": number(it["nonce"]),
        "gas": number(it["gas"]),
        **wide("value", it["value"]),
        "input": data(it["input"]),
        **wide("gas_price", it.get("gasPrice")),
        **wide("max_fee_per_gas", it.get("maxFeePerGas")),
        **wide("max_priority_fee_per_gas", it.get("maxPriorityFeePerGas")),
        **wide("max_fee_per_blob_gas", it.get("maxFeePerBlobGas")),
        "access_list": text(it.get("accessList")),
        "blob_versioned_hashes": text(it.get("blobVersionedHashes")),
        "authorization_list": text(it.get("authorizationList")),
        "v": number(it["v"]),
        "r": word(it["r"]),
        "s": word(it["s"]),
        "source_hash": data(it.get("sourceHash")),
        **wide("mint", it.get("mint")),
        "is_system_tx": it.get("isSystemTx"),
        "status": number(receipt.get("status")),
        "root": data(receipt.get("root")),
        "gas_used": number(receipt["gasUsed"]),
        "cumulative_gas_used": number(receipt["cumulativeGasUsed"]),
        **wide("effective_gas_price", receipt.get("effectiveGasPrice")),
        "contract_address": data(receipt.get("contractAddress")),
        "log_count": len(receipt["logs"]),
        "blob_gas_used": number(receipt.get("blobGasUsed")),
        **wide("blob_gas_price", receipt.get("blobGasPrice")),
        **wide("l1_fee", receipt.get("l1Fee")),
        **wide("l1_gas_price", receipt.get("l1GasPrice")),
        "l1_gas_used": number(receipt.get("l1GasUsed")),
        "deposit_nonce": number(receipt.get("depositNonce")),
        "deposit_receipt_version": number(receipt.get("depositReceiptVersion")),
        "gas_used_for_l1": number(receipt.get("gasUsedForL1")),
        "l1_block_number": number(receipt.get("l1BlockNumber")),
    }


def log_row(it: dict[str, Any], place: dict[str, Any]) -> dict[str, Any]:
    topics = [data(topic) for topic in it["topics"]]
    topics += [None] * (4 - len(topics))
    return {
        **place,
        "log_index": number(it["logIndex"]),
        "transaction_hash": data(it["transactionHash"]),
        "address": data(it["address"]),
        "topic0": topics[0],
        "topic1": topics[1],
        "topic2": topics[2],
        "topic3": topics[3],
        "data": data(it["data"]),
    }


def withdrawal_row(it: dict[str, Any], place: dict[str, Any]) -> dict[str, Any]:
    return {
        **place,
        "withdrawal_index": number(it["index"]),
        "validator_index": number(it["validatorIndex"]),
        "address": data(it["address"]),
        "amount": number(it["amount"]),
    }


def number(value: str | None) -> int | None:
    return None if value is None else int(value, 16)


def data(value: str | None) -> bytes | None:
    return None if value is None else bytes.fromhex(value[2:])


def word(value: str) -> bytes:
    return int(value, 16).to_bytes(32, "big")


def wide(name: str, value: str | None) -> dict[str, Any]:
    if value is None:
        return {}
    exact = int(value, 16)
    return {name: exact.to_bytes(32, "big"), f"{name}_f64": float(exact)}


def text(value: Any) -> str | None:
    return None if value is None else json.dumps(value, separators=(",", ":"))


def main() -> int:
    if not BLOCKS.exists():
        print("no recorded blocks found")
        return 0
    print(head())
    rows = list(measure())
    for row in rows:
        print(line(row.cells))
    return 0 if all(row.ok for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
