"""Recorded TRON answers: a block of 619 transactions, USDT transfers, a swap, address vectors."""

from __future__ import annotations

import gzip
import json
from functools import cache
from hashlib import sha256
from typing import Any

import pytest

from gapless.chains.family import Reading, Wanted
from gapless.chains.level import Level
from gapless.chains.tron.address import address_of, base58_of
from gapless.chains.tron.check_names import PROVABLE, TronCheck
from gapless.chains.tron.family import TRON
from gapless.chains.tron.networks import TRON_NETWORKS
from gapless.chains.tron.parsed import parsed
from gapless.chains.tron.protobuf import Message
from gapless.chains.tron.raw_block import RawTronBlock
from gapless.chains.tron.tokens import TRANSFER
from gapless.core.errors import BadBlock, UsageError
from tests.data.recorded import DATA

FOLDER = DATA / "tron"
pytestmark = pytest.mark.skipif(not FOLDER.exists(), reason="there are no recorded TRON answers")

Json = dict[str, Any]
MAINNET = TRON_NETWORKS[0]
HEIGHT, TIME = 79_072_107, 1_767_879_414_000
EVERYTHING = frozenset(table.name for table in TRON.tables)
TYPES = {
    "AccountCreateContract": 0,
    "TransferContract": 1,
    "TransferAssetContract": 2,
    "TriggerSmartContract": 31,
    "FreezeBalanceV2Contract": 54,
    "DelegateResourceContract": 57,
    "UnDelegateResourceContract": 58,
}
OPTIONAL = {
    *("to_address", "contract_address", "amount", "asset", "resource", "frozen_duration"),
    *("lock_period", "is_locked", "call_value", "call_asset_value", "call_asset_id", "data"),
    *("parameter", "memo", "extra"),
}
RESOURCES = {"BANDWIDTH": 0, "ENERGY": 1, "TRON_POWER": 2}


@cache
def recorded(name: str) -> bytes:
    data = (FOLDER / name).read_bytes()
    return gzip.decompress(data) if name.endswith(".gz") else data


def real_block() -> Json:
    found: Json = json.loads(recorded("79072107.getblockbynum.json.gz"))
    return found


def made_infos(block: Json) -> list[Json]:
    """Infos without costs: none were recorded for this block."""
    place = {"blockNumber": HEIGHT, "blockTimeStamp": TIME}
    return [{"id": each["txID"], **place} for each in block["transactions"]]


def read(
    block: Json, infos: list[Json] | None = None, level: Level = Level.AUTO, height: int = HEIGHT
) -> Reading:
    asked = made_infos(block) if infos is None else infos
    raw = RawTronBlock(height, "node", json.dumps(block).encode(), json.dumps(asked).encode())
    checks = TRON.level(level, EVERYTHING)
    wanted = Wanted(MAINNET, MAINNET.chain_id or 0, checks, EVERYTHING)
    return TRON.read([raw], wanted, (), whole=False)


def test_the_real_block_is_proven_except_for_its_root() -> None:
    """Its JSON lacks something that the witness had, as the JSON of honest nodes can."""
    reading = read(real_block())
    proof = reading.blocks[HEIGHT].proof
    assert proof.proven == PROVABLE - {TronCheck.LINK, TronCheck.TRANSACTIONS_ROOT}
    assert proof.unproven == {TronCheck.TRANSACTIONS_ROOT, TronCheck.LOGS}
    assert not TRON.rows.examine(reading.tables, MAINNET, 728_126_428, proof.proven).flaws


def test_the_header_of_the_real_block() -> None:
    block = real_block()
    header = block["block_header"]["raw_data"]
    (row,) = read(block).tables["tron_blocks"].to_pylist()
    assert row["hash"].hex() == block["blockID"]
    assert row["parent_hash"].hex() == header["parentHash"]
    assert row["transactions_root"].hex() == header["txTrieRoot"]
    assert row["witness_address"].hex() == header["witness_address"][2:]
    assert row["witness_base58"] == "TTMNxTmRpBZnjtUnohX84j25NLkTqDga7j"
    assert (row["version"], row["block_number"]) == (header["version"], header["number"])
    assert (row["block_timestamp"], row["block_timestamp_ms"]) == (TIME // 1000, TIME)
    assert row["witness_signature"].hex() == block["block_header"]["witness_signature"]
    assert (row["transaction_count"], row["extra"]) == (619, None)


def expected_columns(transaction: Json) -> Json:
    """Translate the JSON of an honest node, which this block's is; no key may be left."""
    raw = {**transaction["raw_data"]}
    (contract,) = raw.pop("contract")
    kind = contract.pop("type")
    value = {**contract.pop("parameter")["value"]}
    found = {
        "hash": transaction["txID"],
        "raw_data": transaction["raw_data_hex"],
        "signatures": json.dumps(transaction["signature"], separators=(",", ":")),
        "contract_result": 1,
        "contract_type": TYPES[kind],
        "permission_id": contract.pop("Permission_id", 0),
        "timestamp": raw.pop("timestamp", 0),
        "expiration": raw.pop("expiration"),
        "fee_limit": raw.pop("fee_limit", 0),
        "ref_block_bytes": raw.pop("ref_block_bytes"),
        "ref_block_hash": raw.pop("ref_block_hash"),
        "owner_address": value.pop("owner_address")[2:],
    }
    if kind == "TriggerSmartContract":
        found |= {
            "contract_address": value.pop("contract_address")[2:],
            "data": value.pop("data", ""),
            "call_value": value.pop("call_value", 0),
            "call_asset_value": value.pop("call_token_value", 0),
            "call_asset_id": value.pop("token_id", 0),
        }
    elif kind == "AccountCreateContract":
        value.pop("account_address")
        parameter = Message(Message(bytes.fromhex(transaction["raw_data_hex"])).octets(11))
        found["parameter"] = parameter.message(2).octets(2).hex()
    else:
        amounts = [value.pop(it) for it in ("amount", "balance", "frozen_balance") if it in value]
        found["amount"] = amounts[0]
        receivers = [value.pop(it) for it in ("to_address", "receiver_address") if it in value]
        if receivers:
            found["to_address"] = receivers[0][2:]
        if "asset_name" in value:
            found["asset"] = value.pop("asset_name")
        if TYPES[kind] > 50:
            found["resource"] = RESOURCES[value.pop("resource", "BANDWIDTH")]
        if kind == "DelegateResourceContract":
            found["is_locked"] = value.pop("lock", False)
            found["lock_period"] = value.pop("lock_period", 0)
    assert raw == contract == value == {}
    return found


def test_all_619_transactions_field_by_field() -> None:
    block = real_block()
    rows = read(block).tables["tron_transactions"].to_pylist()
    assert len(rows) == len(block["transactions"]) == 619
    for row, transaction in zip(rows, block["transactions"], strict=True):
        texts = {name: it.hex() if isinstance(it, bytes) else it for name, it in row.items()}
        expected = expected_columns(transaction)
        assert {name: texts[name] for name in expected} == expected
        for name in ("owner", "to", "contract"):
            address = row[f"{name}_address"]
            assert row[f"{name}_base58"] == (address and base58_of(address))
        assert not [name for name in OPTIONAL - expected.keys() if row[name] is not None]


def test_the_types_of_the_real_transactions() -> None:
    rows = read(real_block()).tables["tron_transactions"]
    counts = {it["values"]: it["counts"] for it in rows["contract_type"].value_counts().to_pylist()}
    assert counts == {1: 230, 31: 158, 57: 125, 58: 66, 2: 38, 0: 1, 54: 1}


HEADER_KEYS = ("number", "txTrieRoot", "witness_address", "parentHash", "version", "timestamp")


@pytest.mark.parametrize("key", HEADER_KEYS)
def test_a_changed_header_of_the_real_block_is_refused(key: str) -> None:
    for value in ("changed", "missing"):
        block = real_block()
        fields = block["block_header"]["raw_data"]
        old = fields.pop(key)
        if value == "changed":
            fields[key] = old + 1 if isinstance(old, int) else "42" + old[2:]
        assert HEIGHT in read(block).refused


@pytest.mark.parametrize("index", [0, 1, 2, 5, 618])
def test_a_changed_transaction_of_the_real_block_is_refused(index: int) -> None:
    raw = bytes.fromhex(real_block()["transactions"][index]["raw_data_hex"])
    for place in range(0, len(raw), 7):
        block = real_block()
        flipped = raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :]
        block["transactions"] = [{**block["transactions"][index], "raw_data_hex": flipped.hex()}]
        error = read(block).refused[HEIGHT]
        assert isinstance(error, BadBlock)
        assert error.check == TronCheck.TRANSACTION_IDS


@pytest.mark.parametrize("deed", ["lost", "repeated", "swapped"])
def test_transactions_must_fit_the_infos(deed: str) -> None:
    infos, block = made_infos(real_block()), real_block()
    listed = block["transactions"]
    if deed == "lost":
        del listed[300]
    elif deed == "repeated":
        listed.insert(300, listed[300])
    else:
        listed[300:302] = listed[301:299:-1]
    error = read(block, infos).refused[HEIGHT]
    assert isinstance(error, BadBlock)
    assert error.check == TronCheck.COUNTS


def test_the_json_of_the_real_block_may_lie_without_effect() -> None:
    block = real_block()
    honest = read(block).tables["tron_transactions"]
    for transaction in block["transactions"]:
        value = transaction["raw_data"]["contract"][0]["parameter"]["value"]
        value |= {"amount": 1, "owner_address": "41" + "00" * 20}
    assert read(block).tables["tron_transactions"].equals(honest)


def usdt() -> Json:
    found: Json = json.loads(recorded("trc20_block_78115149.json.gz"))
    return found


def as_answer(encoded: bytes) -> Json:
    """Return an encoded transaction as the JSON that a node would write."""
    message = Message(encoded)
    raw = message.octets(1)
    assert [Message(each).unsigned(3) for each in message.items(5)] == [1]
    return {
        "txID": sha256(raw).hexdigest(),
        "raw_data_hex": raw.hex(),
        "signature": [each.hex() for each in message.items(2)],
        "ret": [{"contractRet": "SUCCESS"}],
    }


def test_55_real_usdt_transfers() -> None:
    facts = usdt()["trc20Txs"]
    assert len(facts) == 55
    sent = [as_answer(bytes.fromhex(each["encodedTx"][2:])) for each in facts]
    rows = read(real_block() | {"transactions": sent}, level=Level.OFF).tables["tron_transactions"]
    for row, fact in zip(rows.to_pylist(), facts, strict=True):
        words = [row["data"][at : at + 32] for at in range(4, len(row["data"]), 32)]
        if fact["isTransferFrom"]:
            sender, words = words[0][12:], words[1:]
        else:
            sender = row["owner_address"]
        assert f"0x{row['hash'].hex()}" == fact["txId"]
        assert f"0x{row['contract_address'].hex()}" == fact["tronTokenEvm"]
        assert row["contract_base58"] == "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t"
        assert f"0x{row['data'][:4].hex()}" == fact["selector"]
        assert f"0x41{sender.hex()}" == fact["fromTron"]
        assert f"0x41{words[0][12:].hex()}" == fact["toTron"]
        assert int.from_bytes(words[1], "big") == int(fact["amount"])
        assert row["contract_result"] == 1


def test_real_transactions_are_encoded_as_the_root_covers_them() -> None:
    facts = usdt()["trc20Txs"]
    sent = [as_answer(bytes.fromhex(each["encodedTx"][2:])) for each in facts]
    data = json.dumps(real_block() | {"transactions": sent}).encode()
    found = parsed(RawTronBlock(HEIGHT, "node", data, None)).transactions
    for each, fact in zip(found, facts, strict=True):
        encoded = each.encoded()
        assert encoded is not None
        assert f"0x{encoded.hex()}" == fact["encodedTx"]
        assert f"0x{sha256(encoded).hexdigest()}" == fact["txLeaf"]


def swap() -> tuple[Json, Json]:
    """Return the info of a real swap, and a block that could hold its transaction."""
    info: Json = json.loads(recorded("gettransactioninfobyid.swap.json.gz"))
    sent = {**real_block()["transactions"][0], "txID": info["id"]}
    return info, real_block() | {"transactions": [sent]}


def test_a_real_swap_with_21_logs() -> None:
    info, block = swap()
    tables = read(block, [info], level=Level.OFF).tables
    (row,) = tables["tron_transactions"].to_pylist()
    receipt = info["receipt"]
    for name in ("energy_fee", "energy_usage_total", "net_fee", "energy_penalty_total"):
        assert row[name] == receipt[name]
    assert (row["fee"], row["receipt_result"]) == (info["fee"], 1)
    assert (row["net_usage"], row["energy_usage"], row["is_failed"]) == (0, 0, False)
    assert row["output"].hex() == info["contractResult"][0]
    logs = tables["tron_logs"].to_pylist()
    assert row["log_count"] == len(logs) == len(info["log"]) == 21
    for log, given in zip(logs, info["log"], strict=True):
        assert log["address"].hex() == given["address"]
        assert log["address_base58"] == base58_of(log["address"])
        topics = [log[f"topic{at}"] for at in range(4) if log[f"topic{at}"] is not None]
        assert [each.hex() for each in topics] == given["topics"]
        assert log["data"].hex() == given.get("data", "")
        is_transfer = topics[0] == TRANSFER and len(topics) == 3
        assert (log["amount"] is not None) is is_transfer
        if is_transfer:
            assert log["from_address"].hex() == given["topics"][1][24:]
            assert log["to_base58"] == base58_of(bytes.fromhex(given["topics"][2][24:]))
            assert log["amount"].hex() == given["data"]
    calls = tables["tron_internal_transactions"].to_pylist()
    assert row["internal_transaction_count"] == len(calls) == len(info["internal_transactions"])
    for call, given in zip(calls, info["internal_transactions"], strict=True):
        assert call["hash"].hex() == given["hash"]
        assert call["caller_address"].hex() == given["caller_address"][2:]
        assert call["to_address"].hex() == given["transferTo_address"][2:]
        assert call["call_value"] == given["callValueInfo"][0].get("callValue", 0)
        assert call["note"].hex() == given["note"]


def test_the_swap_does_not_belong_to_another_block() -> None:
    info, block = swap()
    error = read(block, [info]).refused[HEIGHT]
    assert isinstance(error, BadBlock)
    assert error.check == TronCheck.PLACES


def fixture(name: str) -> Any:
    return json.loads(recorded(f"chainstorage_fixture{name}.json"))


def test_fixtures_of_another_indexer_decode() -> None:
    block, infos = fixture("BlockTxResponse"), fixture("BlockTxInfoResponse")
    tables = read(block, infos, level=Level.OFF, height=67_674_988).tables
    transfer, undelegate = tables["tron_transactions"].to_pylist()
    assert (transfer["contract_type"], transfer["amount"], transfer["net_usage"]) == (1, 6, 268)
    assert transfer["to_address"].hex() == "c3d34597fb01e25d4d8e7ef34ccdd0f05bf85473"
    assert (undelegate["contract_type"], undelegate["amount"]) == (58, 248_167_143)
    assert (undelegate["resource"], undelegate["fee_limit"]) == (0, 30_000_000)
    assert undelegate["to_address"].hex() == "4c614b77e81392450d88f9e339481843abae0e34"
    first, second = tables["tron_internal_transactions"].to_pylist()
    assert (first["call_value"], second["call_value"]) == (0, 405_000_000)
    assert (first["transaction_index"], first["note"]) == (1, b"call")


def test_fixtures_with_made_up_ids_are_refused() -> None:
    """The header is real, but the transaction ids are not, and the infos are of another block."""
    block, infos = fixture("BlockTxResponse"), fixture("BlockTxInfoResponse")
    error = read(block, infos, height=67_674_988).refused[67_674_988]
    assert isinstance(error, BadBlock)
    assert error.check == TronCheck.PLACES
    for each in infos:
        each |= {"blockNumber": 67_674_988, "blockTimeStamp": 1_733_675_346_000}
    error = read(block, infos, height=67_674_988).refused[67_674_988]
    assert isinstance(error, BadBlock)
    assert error.check == TronCheck.TRANSACTION_IDS


def test_events_of_a_second_service_name_the_same_addresses() -> None:
    page = json.loads(recorded("trongrid_contract_events_page1.json"))
    for event in page["data"]:
        token = address_of(event["contract_address"])
        topics = [TRANSFER.hex(), *(event["result"][it][2:].rjust(64, "0") for it in ("0", "1"))]
        value = int(event["result"]["2"])
        log = {"address": token.hex(), "topics": topics, "data": f"{value:064x}"}
        info = {"id": event["transaction_id"], "log": [log]}
        sent = {**real_block()["transactions"][0], "txID": event["transaction_id"]}
        block = real_block() | {"transactions": [sent]}
        (row,) = read(block, [info], level=Level.OFF).tables["tron_logs"].to_pylist()
        assert f"0x{row['from_address'].hex()}" == event["result"]["from"]
        assert f"0x{row['to_address'].hex()}" == event["result"]["to"]
        assert int.from_bytes(row["amount"], "big") == value


def vectors() -> Json:
    found: Json = json.loads(recorded("base58_address_vectors.json"))
    return found


def test_address_vectors() -> None:
    known = vectors()
    pairs = known["pairs"] + known["create2_base58"]
    assert len(pairs) == 139
    for pair in pairs:
        assert base58_of(bytes.fromhex(pair["hex"])[1:]) == pair["base58"]
        assert address_of(pair["base58"]).hex() == pair["hex"][2:]


def test_invalid_address_vectors() -> None:
    for each in vectors()["invalid"]:
        finding = "checksum" if each["rejected_by_checksum"] else "version byte is 0x42"
        with pytest.raises(UsageError, match=finding):
            address_of(each["base58"])
