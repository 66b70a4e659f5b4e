"""Honest answers about a small block that has something of everything, as a node writes them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import deepcopy
from hashlib import sha256
from typing import Any

from gapless.chains.family import Reading, Wanted
from gapless.chains.level import Level
from gapless.chains.network import Network
from gapless.chains.tron.family import TRON
from gapless.chains.tron.hashing import block_id, header_bytes, merkle_root, transaction_bytes
from gapless.chains.tron.networks import TRON_CUSTOM
from gapless.chains.tron.protobuf import bytes_field, number_field
from gapless.chains.tron.raw_block import RawTronBlock
from gapless.chains.tron.tokens import TRANSFER

Json = dict[str, Any]
HEIGHT, TIME, CHAIN_ID = 12_000_000, 1_676_983_541_337, 728_126_428
EVERYTHING = frozenset(table.name for table in TRON.tables)
OWNER, OTHER, CONTRACT = (b"\x41" + bytes([each]) * 20 for each in (1, 2, 3))
SUCCESS = [{"contractRet": "SUCCESS"}]
_PLACE = {"blockNumber": HEIGHT, "blockTimeStamp": TIME}


def raw_data(kind: int, *parameter: bytes, **more: int | bytes) -> bytes:
    """Encode a transaction of a type, with the fields of its parameter."""
    message = bytes_field(1, b"type.googleapis.com/protocol.X") + bytes_field(
        2, b"".join(parameter)
    )
    permission = int(more.get("permission", 0))
    contract = number_field(1, kind) + bytes_field(2, message) + number_field(5, permission)
    return b"".join(
        (
            bytes_field(1, b"\x8b\x57"),
            bytes_field(4, bytes(range(8))),
            number_field(8, TIME + 60_000),
            bytes_field(10, bytes(more.get("memo", b""))),
            bytes_field(11, contract),
            number_field(14, TIME - 1),
            number_field(18, int(more.get("fee_limit", 0))),
        )
    )


TRANSFERS_COINS = raw_data(
    1, bytes_field(1, OWNER), bytes_field(2, OTHER), number_field(3, 7), memo=b"thanks"
)
CALLS = raw_data(
    *(31, bytes_field(1, OWNER), bytes_field(2, CONTRACT), number_field(3, 5)),
    *(bytes_field(4, b"\xa9\x05\x9c\xbb"), number_field(5, 6), number_field(6, 1_000_001)),
    fee_limit=100,
)
CREATES = raw_data(30, bytes_field(1, OWNER), bytes_field(2, b"\x0a\x00"))
DELEGATES = raw_data(
    *(57, bytes_field(1, OWNER), number_field(2, 1), number_field(3, 9), bytes_field(4, OTHER)),
    *(number_field(5, 1), number_field(6, 86_400)),
    permission=3,
)


def transaction(raw: bytes, **more: Any) -> Json:
    signature = [(b"\x07" * 65).hex()]
    id_ = sha256(raw).hexdigest()
    return {"txID": id_, "raw_data_hex": raw.hex(), "signature": signature, "ret": SUCCESS} | more


def block(transactions: Sequence[Json], number: int = HEIGHT, **fields: Any) -> Json:
    """Return a block whose hashes fit its transactions."""
    found = {
        "number": number,
        "timestamp": TIME,
        "version": 32,
        "witness_address": OTHER.hex(),
        "parentHash": max(number - 1, 0).to_bytes(8, "big").hex() + "ab" * 24,
        "txTrieRoot": merkle_root([*map(_encoded, transactions)]).hex(),
        **fields,
    }
    header = header_bytes(
        timestamp=found["timestamp"],
        transactions_root=bytes.fromhex(found["txTrieRoot"]),
        parent_hash=bytes.fromhex(found["parentHash"]),
        number=number,
        witness_address=bytes.fromhex(found["witness_address"]),
        version=found["version"],
    )
    return {
        "blockID": block_id(number, header).hex(),
        "block_header": {"raw_data": found, "witness_signature": "09" * 65},
        "transactions": [*transactions],
    }


def _encoded(it: Json) -> bytes:
    signatures = [bytes.fromhex(each) for each in it["signature"]]
    return transaction_bytes(bytes.fromhex(it["raw_data_hex"]), signatures, [number_field(3, 1)])


def info(it: Json, **more: Any) -> Json:
    return {
        "id": it["txID"],
        **_PLACE,
        "contractResult": [""],
        "receipt": {"net_usage": 268},
        **more,
    }


def word(value: bytes | int) -> str:
    return (value if isinstance(value, bytes) else value.to_bytes(32, "big")).rjust(32, b"\0").hex()


def log(*topics: str, data: str = "") -> Json:
    return {"address": CONTRACT[1:].hex(), "topics": [*topics], "data": data}


TRANSFER_LOG = log(TRANSFER.hex(), word(OWNER[1:]), word(OTHER[1:]), data=word(10**30))
NFT_LOG = log(TRANSFER.hex(), word(OWNER), word(OTHER[1:]), word(77))
OTHER_LOG = log("ee" * 32, "dd" * 32, "cc" * 32, data="abcdef")
INTERNAL = {
    "hash": "cd" * 32,
    "caller_address": CONTRACT.hex(),
    "transferTo_address": OTHER.hex(),
    "callValueInfo": [{"callValue": 3}, {"callValue": 4, "tokenId": "1000001"}],
    "note": b"call".hex(),
}


def answers() -> tuple[Json, list[Json]]:
    """Return a block of four transactions, and their infos."""
    sent = [transaction(each) for each in (TRANSFERS_COINS, CALLS, CREATES, DELEGATES)]
    receipt = {"energy_usage_total": 40, "energy_fee": 30, "net_fee": 20, "result": "SUCCESS"}
    infos = [
        info(sent[0], fee=10),
        info(
            sent[1],
            receipt=receipt,
            contract_address=CONTRACT.hex(),
            contractResult=["01"],
            log=[TRANSFER_LOG, NFT_LOG, OTHER_LOG],
            internal_transactions=[INTERNAL, {"callValueInfo": [{}], "rejected": True}],
        ),
        info(sent[2], contract_address=OTHER.hex(), result="FAILED", resMessage=b"no".hex()),
        info(sent[3], assetIssueID="1000002"),
    ]
    return deepcopy((block(sent), infos))


def read(
    block_: Json,
    infos: list[Json] | None,
    *,
    other: tuple[Json, list[Json] | None] | None = None,
    level: Level = Level.AUTO,
    network: Network = TRON_CUSTOM,
    datasets: frozenset[str] = EVERYTHING,
    anchors: dict[int, bytes] | None = None,
    height: int = HEIGHT,
) -> Reading:
    raw = RawTronBlock(height, "node", _json(block_), None if infos is None else _json(infos))
    if other is not None:
        second = None if other[1] is None else _json(other[1])
        raw = RawTronBlock(height, "node", raw.block, raw.infos, _json(other[0]), second)
    checks = TRON.level(level, datasets)
    wanted = Wanted(network, CHAIN_ID, checks, datasets, anchors or {})
    return TRON.read([raw], wanted, (), whole=False)


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()
