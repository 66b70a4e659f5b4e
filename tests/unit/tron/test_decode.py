"""Every column of the tables, for a block that has something of everything."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gapless.chains.tron.address import base58_of
from gapless.chains.tron.contracts import transaction_columns
from gapless.chains.tron.protobuf import BadMessage, bytes_field, item_field, number_field
from gapless.chains.tron.tokens import TRANSFER, transfer_columns
from tests.unit.tron.answers import (
    CALLS,
    CHAIN_ID,
    CONTRACT,
    CREATES,
    DELEGATES,
    HEIGHT,
    OTHER,
    OWNER,
    TIME,
    TRANSFERS_COINS,
    answers,
    block,
    info,
    raw_data,
    read,
    transaction,
    word,
)

Row = dict[str, Any]
PLACE = {
    "chain_id": CHAIN_ID,
    "block_number": HEIGHT,
    "block_timestamp": TIME // 1000,
    "block_timestamp_ms": TIME,
}


def rows(block_: Row, infos: list[Row] | None, **options: Any) -> dict[str, list[Row]]:
    reading = read(block_, infos, **options)
    assert not reading.refused
    return {name: table.to_pylist() for name, table in reading.tables.items()}


def given(row: Row) -> Row:
    return {name: value for name, value in row.items() if value is not None}


def address(name: str, value: bytes) -> Row:
    return {f"{name}_address": value[1:], f"{name}_base58": base58_of(value[1:])}


def test_a_block() -> None:
    block_, infos = answers()
    (found,) = rows(block_, infos)["tron_blocks"]
    header = block_["block_header"]["raw_data"]
    raw = found.pop("raw_data")
    assert raw.startswith(number_field(1, TIME))
    assert found == {
        **PLACE,
        "hash": bytes.fromhex(block_["blockID"]),
        "parent_hash": bytes.fromhex(header["parentHash"]),
        "transactions_root": bytes.fromhex(header["txTrieRoot"]),
        **address("witness", OTHER),
        "version": 32,
        "witness_signature": b"\x09" * 65,
        "transaction_count": 4,
        "log_count": 3,
        "internal_transaction_count": 2,
        "transfer_count": 4,
        "extra": None,
    }


SIGNED = {
    "timestamp": TIME - 1,
    "expiration": TIME + 60_000,
    "fee_limit": 0,
    "permission_id": 0,
    "ref_block_bytes": b"\x8b\x57",
    "ref_block_hash": bytes(range(8)),
    **address("owner", OWNER),
}
NO_COSTS = {
    "is_failed": False,
    **dict.fromkeys(("fee", "withdraw_amount", "unfreeze_amount", "withdraw_expire_amount"), 0),
    **dict.fromkeys(("energy_usage", "energy_fee", "origin_energy_usage"), 0),
    **dict.fromkeys(("energy_usage_total", "energy_penalty_total", "net_fee"), 0),
    "net_usage": 268,
    "receipt_result": 0,
    "output": b"",
    "message": b"",
    "log_count": 0,
    "internal_transaction_count": 0,
}
CALL = {"call_value": 5, "data": b"\xa9\x05\x9c\xbb", "call_asset_value": 6}


@pytest.mark.parametrize(
    ("index", "raw", "expected"),
    [
        (
            0,
            TRANSFERS_COINS,
            {"contract_type": 1, **address("to", OTHER), "amount": 7, "memo": b"thanks", "fee": 10},
        ),
        (
            1,
            CALLS,
            {
                "contract_type": 31,
                **address("contract", CONTRACT),
                **CALL,
                "call_asset_id": 1_000_001,
                "fee_limit": 100,
                "energy_usage_total": 40,
                "energy_fee": 30,
                "net_fee": 20,
                "net_usage": 0,
                "receipt_result": 1,
                "output": b"\1",
                "log_count": 3,
                "internal_transaction_count": 2,
            },
        ),
        (
            2,
            CREATES,
            {
                "contract_type": 30,
                **address("contract", OTHER),
                "is_failed": True,
                "parameter": bytes_field(1, OWNER) + bytes_field(2, b"\x0a\x00"),
                "message": b"no",
            },
        ),
        (
            3,
            DELEGATES,
            {
                "contract_type": 57,
                **address("to", OTHER),
                "resource": 1,
                "amount": 9,
                "is_locked": True,
                "lock_period": 86_400,
                "permission_id": 3,
                "extra": '{"assetIssueID":"1000002"}',
            },
        ),
    ],
)
def test_a_transaction(index: int, raw: bytes, expected: Row) -> None:
    block_, infos = answers()
    found = given(rows(block_, infos)["tron_transactions"][index])
    assert found == {
        **PLACE,
        **SIGNED,
        **NO_COSTS,
        "transaction_index": index,
        "hash": bytes.fromhex(block_["transactions"][index]["txID"]),
        "raw_data": raw,
        "signatures": json.dumps([(b"\x07" * 65).hex()]),
        "contract_result": 1,
        **expected,
    }


def test_logs_and_the_transfers_in_them() -> None:
    block_, infos = answers()
    fungible, unique, other = map(given, rows(block_, infos)["tron_logs"])
    log = {
        **PLACE,
        "transaction_index": 1,
        "transaction_hash": bytes.fromhex(block_["transactions"][1]["txID"]),
        "address": CONTRACT[1:],
        "address_base58": base58_of(CONTRACT[1:]),
    }
    transfer = {"topic0": TRANSFER, **address("from", OWNER), **address("to", OTHER)}
    words = {"topic1": bytes.fromhex(word(OWNER[1:])), "topic2": bytes.fromhex(word(OTHER[1:]))}
    amount = (10**30).to_bytes(32, "big")
    assert fungible == {
        **log,
        **transfer,
        **words,
        "log_position": 0,
        "data": amount,
        "amount": amount,
        "amount_f64": 1e30,
    }
    token = (77).to_bytes(32, "big")
    assert unique == {
        **log,
        **transfer,
        **words,
        "log_position": 1,
        "topic1": bytes.fromhex(word(OWNER)),
        "data": b"",
        "topic3": token,
        "nft_id": token,
        "nft_id_f64": 77.0,
    }
    assert other == {
        **log,
        "log_position": 2,
        "topic1": b"\xdd" * 32,
        "topic2": b"\xcc" * 32,
        "topic0": b"\xee" * 32,
        "data": bytes.fromhex("abcdef"),
    }


def test_internal_transactions() -> None:
    block_, infos = answers()
    first, second = map(given, rows(block_, infos)["tron_internal_transactions"])
    place = {
        **PLACE,
        "transaction_index": 1,
        "transaction_hash": bytes.fromhex(block_["transactions"][1]["txID"]),
    }
    assert first == {
        **place,
        "internal_position": 0,
        "hash": b"\xcd" * 32,
        "note": b"call",
        **address("caller", CONTRACT),
        **address("to", OTHER),
        "is_rejected": False,
        "call_value": 3,
        "asset_values": '[{"callValue":4,"tokenId":"1000001"}]',
    }
    assert second == {
        **place,
        "internal_position": 1,
        "note": b"",
        "call_value": 0,
        "is_rejected": True,
    }


def test_columns_of_infos_are_null_without_infos() -> None:
    block_, _ = answers()
    found = rows(block_, None, datasets=frozenset({"tron_blocks", "tron_transactions"}))
    assert [found["tron_blocks"][0][it] for it in ("transaction_count", "log_count")] == [4, None]
    assert not {*NO_COSTS} & given(found["tron_transactions"][0]).keys()


STAKING = {
    11: (
        bytes_field(1, OWNER)
        + number_field(2, 8)
        + number_field(3, 3)
        + number_field(10, 1)
        + bytes_field(15, OTHER),
        {"amount": 8, "frozen_duration": 3, "resource": 1, **address("to", OTHER)},
    ),
    12: (
        bytes_field(1, OWNER) + number_field(10, 1) + bytes_field(15, OTHER),
        {"resource": 1, **address("to", OTHER)},
    ),
    54: (bytes_field(1, OWNER) + number_field(2, 8), {"amount": 8, "resource": 0}),
    55: (
        bytes_field(1, OWNER) + number_field(2, 8) + number_field(3, 2),
        {"amount": 8, "resource": 2},
    ),
    58: (
        bytes_field(1, OWNER) + number_field(3, 8) + bytes_field(4, OTHER),
        {"amount": 8, "resource": 0, **address("to", OTHER)},
    ),
    2: (
        bytes_field(1, b"1002000")
        + bytes_field(2, OWNER)
        + bytes_field(3, OTHER)
        + number_field(4, 8),
        {"asset": b"1002000", "amount": 8, **address("to", OTHER)},
    ),
}


@pytest.mark.parametrize("kind", STAKING)
def test_other_types_with_columns(kind: int) -> None:
    parameter, expected = STAKING[kind]
    found = given(transaction_columns(raw_data(kind, parameter)))
    assert found == {**SIGNED, "contract_type": kind, **expected}


@pytest.mark.parametrize(("kind", "owner"), [(4, 1), (10, 2), (19, 2), (46, 1), (59, 1)])
def test_the_message_of_other_types_is_kept(kind: int, owner: int) -> None:
    parameter = bytes_field(owner, OWNER) + bytes_field(7, b"anything")
    found = given(transaction_columns(raw_data(kind, parameter)))
    assert found == {**SIGNED, "contract_type": kind, "parameter": parameter}


def test_an_unknown_type_is_kept_without_guessing_an_owner() -> None:
    parameter = bytes_field(1, OWNER)
    found = given(transaction_columns(raw_data(200, parameter)))
    unsigned = {name: it for name, it in SIGNED.items() if not name.startswith("owner")}
    assert found == {**unsigned, "contract_type": 200, "parameter": parameter}


def test_a_parameter_that_is_not_a_message_is_kept() -> None:
    found = given(transaction_columns(raw_data(1, b"\x0a\xff")))
    assert (found["contract_type"], found["parameter"]) == (1, b"\x0a\xff")


def test_more_than_one_contract_is_kept_in_raw_data_only() -> None:
    found = given(transaction_columns(TRANSFERS_COINS + item_field(11, b"")))
    assert "contract_type" not in found
    with pytest.raises(BadMessage):
        transaction_columns(b"\x0a\xff")


def test_the_json_beside_raw_data_hex_is_never_used() -> None:
    honest, infos = answers()
    lie = {"contract": [{"type": "TransferContract", "parameter": {"value": {"amount": 10**9}}}]}
    lying = [{**each, "raw_data": lie} for each in honest["transactions"]]
    assert rows({**honest, "transactions": lying}, infos) == rows(honest, infos)


def test_a_missing_result_is_the_default_and_not_success() -> None:
    raws = [raw_data(1, number_field(3, at)) for at in range(4)]
    rets = [[{}], [], [{"contractRet": "OUT_OF_ENERGY"}], [{"contractRet": "SUCCESS", "fee": 5}]]
    sent = [transaction(raw, ret=ret) for raw, ret in zip(raws, rets, strict=True)]
    del sent[1]["ret"]
    found = rows(block(sent), [info(each) for each in sent])["tron_transactions"]
    assert [row["contract_result"] for row in found] == [0, None, 10, 1]
    assert [row["extra"] for row in found[:3]] == [None] * 3
    assert json.loads(found[3]["extra"]) == {"ret": rets[3]}


def test_nothing_that_a_node_sends_is_lost() -> None:
    block_, infos = answers()
    block_["size"] = 1
    block_["block_header"]["raw_data"]["x"] = 2
    block_["transactions"][0] |= {"visible": True}
    infos[0] |= {"packingFee": 3, "contractResult": ["", "aa"], "contract_address": OTHER.hex()}
    infos[0]["receipt"] |= {"y": 4, "result": "SOMETHING_NEW"}
    infos[1] |= {"contract_address": OTHER.hex()}
    infos[1]["log"][0]["z"] = 5
    infos[1]["internal_transactions"][0] |= {"extra": "{}", "w": 6}
    found = rows(block_, infos)
    extras = {
        name: [json.loads(row["extra"]) for row in each if row["extra"]]
        for name, each in found.items()
        if name != "tron_transfers"
    }
    assert extras == {
        "tron_blocks": [{"size": 1, "block_header": {"raw_data": {"x": 2}}}],
        "tron_transactions": [
            {
                "visible": True,
                "packingFee": 3,
                "contractResult": ["", "aa"],
                "receipt": {"y": 4},
                "receipt_result": "SOMETHING_NEW",
            },
            {"contract_address": OTHER.hex()},
            {"assetIssueID": "1000002"},
        ],
        "tron_logs": [{"z": 5}],
        "tron_internal_transactions": [{"extra": "{}", "w": 6}],
    }
    assert found["tron_transactions"][0]["contract_address"] == OTHER[1:]
    assert found["tron_transactions"][0]["receipt_result"] is None


@pytest.mark.parametrize(
    ("topics", "data"),
    [
        ([], b""),
        ([TRANSFER], bytes(96)),
        ([TRANSFER, bytes(32)], bytes(64)),
        ([TRANSFER, bytes(32), bytes(32)], b""),
        ([TRANSFER, bytes(32), bytes(32)], bytes(64)),
        ([TRANSFER, bytes(32), bytes(32), bytes(32)], bytes(32)),
        ([b"\1" * 32, bytes(32), bytes(32)], bytes(32)),
        ([TRANSFER, b"\1" * 32, bytes(32)], bytes(32)),
        ([TRANSFER, bytes(32), b"\1" * 32], bytes(32)),
    ],
)
def test_other_logs_are_not_taken_for_transfers(topics: list[bytes], data: bytes) -> None:
    assert not given(transfer_columns(topics, data))
