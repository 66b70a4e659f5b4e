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


def rich_block() -> tuple[bytes, bytes]:
    """A block and its receipts with every key that any chain has a column for."""
    access = [{"address": address(1), "storageKeys": [word(1), word(2)]}]
    grant = {"chainId": "0x1", "address": address(2), "nonce": "0x3", "yParity": "0x1"}
    several: list[Json] = [
        {"type": "0x0", "v": "0x26", "yParity": None},
        {"type": "0x1", "accessList": access},
        {"type": "0x3", "blobVersionedHashes": [word(5)], "maxFeePerBlobGas": "0x9"},
        {"type": "0x4", "authorizationList": [{**grant, "r": "0x1", "s": "0x2"}]},
        {"type": "0x7e", "sourceHash": word(6), "mint": "0x7", "isSystemTx": False},
        {"type": "0x64", "to": None, "requestId": word(9)},
    ]
    l1 = {"l1Fee": "0x1", "l1GasPrice": "0x2", "l1GasUsed": "0x3", "gasUsedForL1": "0x4"}
    blob = {"blobGasUsed": "0x20000", "blobGasPrice": "0x1"}
    deposit = {"depositNonce": "0x5", "depositReceiptVersion": "0x1", "l1BlockNumber": "0x6"}
    header = {"totalDifficulty": "0x1", "uncles": [word(8)], "slotNumber": "0x2"}
    hashes = ("parentBeaconBlockRoot", "requestsHash", "blockAccessListHash", "sendRoot")
    numbers = ("blobGasUsed", "excessBlobGas", "l1BlockNumber", "sendCount")
    header |= dict.fromkeys(hashes, word(9)) | dict.fromkeys(numbers, "0x1")
    transactions = [transaction(at, **more) for at, more in enumerate(several)]
    logs = [log(at, at, topics=[word(it) for it in range(at % 5)]) for at in range(len(several))]
    made = [
        receipt(at, each, **l1, **blob, **deposit, type=several[at]["type"])
        for at, each in enumerate(logs)
    ]
    made[0] |= {"root": word(7), "status": None}
    made[5]["contractAddress"] = address(3)
    return raw(block(transactions=transactions, **header)), raw(made)


def decoded(block: Json, receipts: list[Json] | None = None) -> Tables:
    given = None if receipts is None else [parse_receipts(raw(receipts))]
    return decode_blocks([parse_block(raw(block))], given, CHAIN)


def column(tables: Tables, name: str) -> list[Any]:
    """The values of `table.column`."""
    table, _, own = name.partition(".")
    values: list[Any] = tables[table][own].to_pylist()
    return values
