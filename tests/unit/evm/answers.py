"""A small block with everything in it, as a node returns it; each test changes what it needs."""

from __future__ import annotations

import json
from typing import Any

from gapless.chains.evm.codec.bloom import bloom_of_logs
from gapless.chains.evm.decode.structs import Log, parse_block, parse_receipts
from gapless.chains.evm.decode.tables import decode_blocks
from gapless.schema.arrow import Tables

Json = dict[str, Any]

CHAIN = 7
HEIGHT = 1000


def word(number: int) -> str:
    return f"0x{number:064x}"


def address(number: int) -> str:
    return f"0x{number:040x}"


def transaction(index: int, **changes: Any) -> Json:
    return {
        "blockHash": word(1),
        "blockNumber": hex(HEIGHT),
        "from": address(0xF0),
        "gas": "0x5208",
        "gasPrice": "0x3b9aca00",
        "maxFeePerGas": "0x77359400",
        "maxPriorityFeePerGas": "0x1",
        "hash": word(0xAA00 + index),
        "input": "0xa9059cbb",
        "nonce": hex(index),
        "to": address(0xE0),
        "transactionIndex": hex(index),
        "value": hex(10**20),
        "type": "0x2",
        "accessList": [],
        "chainId": hex(CHAIN),
        "v": "0x1",
        "r": word(3),
        "s": "0x4",
        "yParity": "0x1",
    } | changes


def log(index: int, owner: int, **changes: Any) -> Json:
    return {
        "address": address(0xC0),
        "topics": [word(0xD0), word(0xD1)],
        "data": "0x00ff",
        "blockNumber": hex(HEIGHT),
        "transactionHash": word(0xAA00 + owner),
        "transactionIndex": hex(owner),
        "blockHash": word(1),
        "logIndex": hex(index),
        "removed": False,
    } | changes


def receipt(index: int, *logs: Json, **changes: Any) -> Json:
    fields = [
        Log(**{key: it[key] for key in ("address", "topics", "data")}, log_index="") for it in logs
    ]
    return {
        "blockHash": word(1),
        "blockNumber": hex(HEIGHT),
        "contractAddress": None,
        "cumulativeGasUsed": hex(21000 * (index + 1)),
        "effectiveGasPrice": "0x3b9aca00",
        "from": address(0xF0),
        "gasUsed": "0x5208",
        "logs": list(logs),
        "logsBloom": bloom_of_logs(fields),
        "status": "0x1",
        "to": address(0xE0),
        "transactionHash": word(0xAA00 + index),
        "transactionIndex": hex(index),
        "type": "0x2",
    } | changes


def block(**changes: Any) -> Json:
    return {
        "baseFeePerGas": "0x7",
        "difficulty": "0x0",
        "extraData": "0x",
        "gasLimit": "0x1c9c380",
        "gasUsed": "0xa410",
        "hash": word(1),
        "logsBloom": f"0x{0:0512x}",
        "miner": address(0xB0),
        "mixHash": word(2),
        "nonce": "0x0000000000000000",
        "number": hex(HEIGHT),
        "parentHash": word(0),
        "receiptsRoot": word(3),
        "sha3Uncles": word(4),
        "size": "0x220",
        "stateRoot": word(5),
        "timestamp": "0x64",
        "transactions": [transaction(0), transaction(1)],
        "transactionsRoot": word(6),
        "uncles": [],
        "withdrawals": [
            {"index": "0x9", "validatorIndex": "0x8", "address": address(0xA0), "amount": "0x1"}
        ],
        "withdrawalsRoot": word(7),
    } | changes


def receipts() -> list[Json]:
    return [receipt(0, log(0, 0), log(1, 0)), receipt(1, log(2, 1, topics=[]))]


def raw(value: object) -> bytes:
    return json.dumps(value).encode()


def decoded(block: Json, receipts: list[Json] | None = None) -> Tables:
    given = None if receipts is None else [parse_receipts(raw(receipts))]
    return decode_blocks([parse_block(raw(block))], given, CHAIN)


def column(tables: Tables, name: str) -> list[Any]:
    """The values of `table.column`."""
    table, _, own = name.partition(".")
    values: list[Any] = tables[table][own].to_pylist()
    return values
