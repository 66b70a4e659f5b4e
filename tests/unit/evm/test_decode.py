"""A valid answer becomes rows; an invalid one raises an error that says where."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from gapless.chains.evm.decode.logs import check_owned, decode_range_logs
from gapless.chains.evm.decode.structs import (
    Answer,
    Block,
    Log,
    Receipt,
    Transaction,
    Withdrawal,
    parse_block,
    parse_light_block,
    parse_logs,
    parse_receipts,
)
from gapless.chains.evm.decode.tables import decode_blocks
from gapless.chains.evm.tables import TABLES
from gapless.core.errors import BadAnswer
from tests.unit.evm.answers import (
    CHAIN,
    HEIGHT,
    Json,
    address,
    block,
    column,
    decoded,
    log,
    raw,
    receipt,
    receipts,
    transaction,
    word,
)


def with_first(changes: Json) -> Json:
    return block(transactions=[transaction(0, **changes), transaction(1)])


def test_rows_contain_their_position() -> None:
    tables = decoded(block(), receipts())
    assert list(tables) == ["blocks", "transactions", "logs", "withdrawals"]
    for table in tables.values():
        assert set(table["chain_id"].to_pylist()) == {CHAIN}
        assert set(table["block_number"].to_pylist()) == {HEIGHT}
        assert set(table["block_timestamp"].to_pylist()) == {100}
    assert column(tables, "transactions.transaction_index") == [0, 1]
    assert column(tables, "logs.transaction_index") == [0, 0, 1]
    assert column(tables, "logs.log_position") == [0, 1, 0]
    assert column(tables, "logs.log_index") == [0, 1, 2]
    assert column(tables, "logs.transaction_hash") == [
        bytes.fromhex(word(0xAA00 + owner)[2:]) for owner in (0, 0, 1)
    ]
    assert column(tables, "withdrawals.withdrawal_position") == [0]


def test_parents_count_their_children() -> None:
    tables = decoded(block(), receipts())
    assert column(tables, "blocks.transaction_count") == [2]
    assert column(tables, "blocks.log_count") == [3]
    assert column(tables, "blocks.withdrawal_count") == [1]
    assert column(tables, "transactions.log_count") == [2, 1]


def test_256_bit_numbers_are_exact_and_rounded() -> None:
    tables = decoded(block(), receipts())
    assert [int.from_bytes(it) for it in column(tables, "transactions.value")] == [10**20] * 2
    assert column(tables, "transactions.value_f64") == [1e20] * 2
    assert column(tables, "transactions.effective_gas_price_f64") == [1e9] * 2


def test_topics_are_assigned_by_position() -> None:
    logs = [log(at, 0, topics=list(map(word, range(1, at + 1)))) for at in range(5)]
    tables = decoded(block(), [receipt(0, *logs), receipt(1)])
    for place in range(4):
        expected = [bytes.fromhex(word(place + 1)[2:]) if at > place else None for at in range(5)]
        assert column(tables, f"logs.topic{place}") == expected


def test_without_receipts_there_are_no_logs_and_no_log_counts() -> None:
    tables = decoded(block())
    assert "logs" not in tables
    assert column(tables, "blocks.log_count") == [None]
    assert column(tables, "transactions.log_count") == [None, None]
    assert column(tables, "transactions.gas_used") == [None, None]


def test_a_receipt_may_be_missing() -> None:
    """Cronos returns none for a transaction that never ran."""
    tables = decoded(block(), receipts()[1:])
    assert column(tables, "transactions.gas_used") == [None, 21000]
    assert column(tables, "transactions.log_count") == [None, 1]
    assert column(tables, "logs.transaction_index") == [1]
    assert column(tables, "blocks.log_count") == [1]


@pytest.mark.parametrize(
    "given",
    [receipts()[::-1], [*receipts(), receipt(2)], [receipt(7), *receipts()[1:]]],
    ids=["another order", "too many", "another transaction"],
)
def test_receipts_of_other_transactions_are_refused(given: list[Json]) -> None:
    with pytest.raises(BadAnswer, match="receipts of block 1000: one belongs to no transaction"):
        decoded(block(), given)


def test_no_blocks_give_empty_tables() -> None:
    tables = decode_blocks([], [], CHAIN)
    assert [table.num_rows for table in tables.values()] == [0, 0, 0, 0]


def test_no_withdrawals_differ_from_unknown_withdrawals() -> None:
    assert column(decoded(block(withdrawals=[])), "blocks.withdrawal_count") == [0]
    before = block()
    del before["withdrawals"]
    assert column(decoded(before), "blocks.withdrawal_count") == [None]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"type": "0x7e"}, 0x7E),
        ({"type": None, "authorizationList": []}, 4),
        ({"type": None, "blobVersionedHashes": []}, 3),
        ({"type": None}, 2),
        ({"type": None, "maxFeePerGas": None}, 1),
        ({"type": None, "maxFeePerGas": None, "accessList": None}, 0),
    ],
)
def test_the_type_is_inferred_if_an_old_node_omits_it(changes: Json, expected: int) -> None:
    assert column(decoded(with_first(changes)), "transactions.type") == [expected, 2]


@pytest.mark.parametrize(
    ("changes", "extra"),
    [
        ({}, None),
        ({"chainId": None}, None),
        ({"chainId": "0x7fffffffffffffee"}, {"chainId": "0x7fffffffffffffee"}),
        ({"v": "0x1b", "yParity": "0x0"}, None),
        ({"v": hex(36 + 2 * CHAIN), "yParity": "0x1"}, None),
        ({"v": "0x1b", "yParity": "0x1"}, {"yParity": "0x1"}),
        ({"v": "0x1", "yParity": "0x0"}, {"yParity": "0x0"}),
        ({"v": "0x01", "yParity": "0x1"}, None),
    ],
)
def test_values_that_contradict_the_row_are_kept(changes: Json, extra: Json | None) -> None:
    [found, _] = column(decoded(with_first(changes)), "transactions.extra")
    assert (found and json.loads(found)) == extra


def test_a_signature_may_have_only_its_parity() -> None:
    assert column(decoded(with_first({"v": None})), "transactions.v") == [1, 1]


def test_optimism_fees_may_be_decimal() -> None:
    fees = {"l1Fee": "69024", "l1GasPrice": "0xc", "l1GasUsed": "5752", "l1FeeScalar": "0.684"}
    tables = decoded(block(), [receipt(0, **fees), receipt(1)])
    assert column(tables, "transactions.l1_fee_f64") == [69024.0, None]
    assert column(tables, "transactions.l1_gas_price_f64") == [12.0, None]
    assert column(tables, "transactions.l1_gas_used") == [5752, None]
    assert column(tables, "transactions.extra") == ['{"receipt":{"l1FeeScalar":"0.684"}}', None]


def test_equal_lists_have_one_notation() -> None:
    keys = [word(1)]
    entry = [{"storageKeys": keys, "address": address(2)}]
    tables = decoded(with_first({"accessList": entry, "blobVersionedHashes": keys}))
    text = f'[{{"address":"{address(2)}","storageKeys":["{word(1)}"]}}]'
    assert column(tables, "transactions.access_list") == [text, "[]"]
    assert column(tables, "transactions.blob_versioned_hashes") == [f'["{word(1)}"]', None]


@pytest.mark.parametrize("value", [5, None, {"a": 1}])
def test_a_key_named_like_the_decoders_own_is_refused(value: object) -> None:
    with pytest.raises(BadAnswer, match="a key that a node may send"):
        decoded(block(**{"(extra)": value}))


def test_a_gas_limit_may_use_all_64_bits() -> None:
    assert column(decoded(block(gasLimit=hex(2**64 - 1))), "blocks.gas_limit") == [2**64 - 1]


BAD_FIELDS: list[tuple[str, str, Any]] = [
    ("blocks.hash", "hash", "0x1234"),
    ("blocks.block_timestamp", "timestamp", "100"),
    ("blocks.gas_used", "gasUsed", "0x"),
    ("blocks.gas_limit", "gasLimit", "0x10000000000000000"),
    ("blocks.difficulty", "difficulty", word(1) + "0"),
    ("blocks.extra_data", "extraData", "0x123"),
    ("blocks.nonce", "nonce", "0x0"),
    ("transactions.from_address", "transactions.0.from", address(1) + "00"),
    ("transactions.to_address", "transactions.1.to", ""),
    ("transactions.value", "transactions.0.value", "-0x1"),
    ("transactions.gas_price", "transactions.1.gasPrice", "1e9"),
    ("transactions.input", "transactions.0.input", "0xfg"),
    ("transactions.type", "transactions.0.type", "two"),
    ("transactions.v", "transactions.0.v", "0xx"),
    ("transactions.r", "transactions.0.r", word(1)[2:]),
    ("transactions.transaction_index", "transactions.1.transactionIndex", "0x2"),
    ("withdrawals.amount", "withdrawals.0.amount", "0x 1"),
    ("transactions.status", "receipts.1.status", "1"),
    ("transactions.gas_used", "receipts.0.gasUsed", ""),
    ("logs.address", "receipts.0.logs.1.address", "0x"),
    ("logs.topics", "receipts.0.logs.1.topics", [word(1), "0x12"]),
    ("logs.topics", "receipts.0.logs.1.topics", list(map(word, range(5)))),
    ("logs.data", "receipts.1.logs.0.data", "00"),
    ("logs.log_index", "receipts.1.logs.0.logIndex", "0xZ"),
    ("logs.removed", "receipts.0.logs.0.removed", True),
]


@pytest.mark.parametrize(("name", "path", "value"), BAD_FIELDS)
def test_a_malformed_field_is_named_with_its_block(name: str, path: str, value: Any) -> None:
    own = receipts()
    spoilt: Any = block() | {"receipts": own}
    *way, last = path.split(".")
    at = spoilt
    for step in way:
        at = at[int(step) if step.isdecimal() else step]
    at[last] = value
    with pytest.raises(BadAnswer, match=rf"`{name}` of block {HEIGHT}: "):
        decoded(spoilt, own)


def test_a_malformed_height_is_named() -> None:
    with pytest.raises(BadAnswer, match=r"`blocks.block_number`: 'latest' is not a quantity"):
        decoded(block(number="latest"))


def test_a_malformed_hash_is_named() -> None:
    with pytest.raises(
        BadAnswer, match=r"`transactions.hash` of block 1000: '0xaa' is not 32 bytes"
    ):
        decoded(with_first({"hash": "0xaa"}))


@pytest.mark.parametrize("key", ["hash", "parentHash", "number", "timestamp", "transactions"])
def test_a_block_without_a_required_key_is_refused(key: str) -> None:
    answer = block()
    del answer[key]
    with pytest.raises(BadAnswer, match=f"missing required field `{key}`"):
        parse_block(raw(answer))


@pytest.mark.parametrize(
    "junk", [b"", b"null", b"[]", b'{"hash":', b'{"hash":"\xff"}', b"[" * 10**6]
)
def test_garbage_is_refused(junk: bytes) -> None:
    for parse in (parse_block, parse_light_block):
        with pytest.raises(BadAnswer, match="the returned block cannot be read"):
            parse(junk)
    with pytest.raises(BadAnswer, match="the returned receipts cannot be read"):
        parse_receipts(junk.replace(b"[]", b"{}"))


def test_a_column_that_is_never_null_comes_from_a_required_field() -> None:
    kinds: dict[str, list[type[Answer]]] = {
        "blocks": [Block],
        "transactions": [Transaction, Receipt],
        "logs": [Log],
        "withdrawals": [Withdrawal],
    }
    others = {"from_address": "from_", "withdrawal_index": "index"}
    made = {"chain_id", "type"}
    for table in TABLES:
        fields = {
            field.name: field.required
            for kind in reversed(kinds[table.name])
            for field in msgspec.structs.fields(kind)
        }
        for each in table.columns:
            if not each.nullable and each.name not in made:
                assert fields.get(others.get(each.name, each.name), True), each


def test_logs_by_range_are_compared_with_the_headers() -> None:
    header = parse_block(raw(block()))
    own = [each for it in receipts() for each in it["logs"]]
    table = decode_range_logs([header], parse_logs(raw(own)), CHAIN)
    assert table.equals(decoded(block(), receipts())["logs"])
    spoilt: list[tuple[Json, str]] = [
        ({"blockHash": word(9)}, "a log of block 0x3e8 belongs to another branch"),
        ({"removed": True}, "a log of block 0x3e8 was removed by a reorganisation"),
        ({"topics": ["0x"]}, "`logs.topics` of block 1000: '0x' is not 32 bytes in hex"),
        ({"transactionIndex": "one"}, "`logs.transaction_index` of block 1000: 'one' is not"),
    ]
    for changes, message in spoilt:
        with pytest.raises(BadAnswer, match=message):
            decode_range_logs([header], parse_logs(raw([own[0] | changes])), CHAIN)
    with pytest.raises(BadAnswer, match="chain order"):
        decode_range_logs([header], parse_logs(raw(own[::-1])), CHAIN)


def test_logs_by_range_name_the_block_that_they_were_returned_for() -> None:
    """Otherwise they could be stored with another block, if that one was read together with it."""
    own = parse_logs(raw([log(0, 0)]))
    check_owned(parse_block(raw(block())), own)
    for changes in ({"number": "0x3e9"}, {"hash": word(9)}):
        with pytest.raises(BadAnswer, match="names another block"):
            check_owned(parse_block(raw(block(**changes))), own)
