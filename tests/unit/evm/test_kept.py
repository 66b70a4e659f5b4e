"""The decoder that keeps everything keeps what has no column, and nothing else."""

from __future__ import annotations

import json

import pytest

from gapless.chains.evm.decode.lossless import has_extra, keep_block, keep_receipts
from gapless.chains.evm.decode.structs import parse_block, parse_receipts
from gapless.chains.evm.decode.tables import decode_blocks
from gapless.core.errors import BadAnswer
from tests.unit.evm.answers import (
    CHAIN,
    Json,
    address,
    block,
    column,
    log,
    raw,
    receipt,
    receipts,
    transaction,
)


def kept(block: Json, receipts: list[Json], name: str) -> list[Json | None]:
    read = keep_block(raw(block))
    tables = decode_blocks([read], [keep_receipts(raw(receipts), read)], CHAIN)
    return [text and json.loads(text) for text in column(tables, f"{name}.extra")]


def test_nothing_is_kept_of_an_ordinary_block() -> None:
    timed = [
        it | {"logs": [each | {"blockTimestamp": "0x64"} for each in it["logs"]]}
        for it in receipts()
    ]
    read = keep_block(raw(block()))
    own = keep_receipts(raw(timed), read)
    assert not has_extra(read, own)
    assert decode_blocks([read], [own], CHAIN) == decode_blocks(
        [parse_block(raw(block()))], [parse_receipts(raw(timed))], CHAIN
    )


def test_an_unknown_key_is_kept_at_its_place() -> None:
    given = block(
        sendRoots=[1, 2.50],
        transactions=[transaction(0), transaction(1, feeToken=None)],
        withdrawals=[block()["withdrawals"][0] | {"note": "é"}],
    )
    own = [receipt(0, log(0, 0, kind="mined")), receipt(1, feeToken="0x1")]
    assert kept(given, own, "blocks") == [{"sendRoots": [1, 2.5]}]
    assert kept(given, own, "transactions") == [
        None,
        {"feeToken": None, "receipt": {"feeToken": "0x1"}},
    ]
    assert kept(given, own, "logs") == [{"kind": "mined"}]
    assert kept(given, own, "withdrawals") == [{"note": "é"}]
    read = keep_block(raw(given))
    assert has_extra(read)


def test_a_copy_that_differs_is_kept() -> None:
    own = [receipt(0, log(0, 0, transactionIndex="0x7")), receipt(1, to=address(9), type="0x1")]
    assert kept(block(), own, "logs") == [{"transactionIndex": "0x7"}]
    assert kept(block(), own, "transactions") == [
        None,
        {"receipt": {"to": address(9), "type": "0x1"}},
    ]


def test_a_bloom_that_does_not_match_the_logs_is_kept() -> None:
    """TRON returns zeros, whatever was logged."""
    zeros = f"0x{0:0512x}"
    own = [receipt(0, log(0, 0), logsBloom=zeros), receipt(1)]
    assert kept(block(), own, "transactions") == [{"receipt": {"logsBloom": zeros}}, None]


def test_a_copy_may_use_capitals() -> None:
    own = [receipt(0, **{"from": address(0xF0).upper().replace("X", "x")}), receipt(1)]
    assert kept(block(), own, "transactions") == [None, None]


def test_numbers_that_no_float_can_hold_are_kept_unchanged() -> None:
    text = raw(block()).replace(b'"size"', b'"odd": 1.000000000000000000001, "size"')
    tables = decode_blocks([keep_block(text)], None, CHAIN)
    assert column(tables, "blocks.extra") == ['{"odd":1.000000000000000000001}']


def test_a_receipt_of_another_block_is_left_to_the_decoder() -> None:
    read = keep_block(raw(block()))
    with pytest.raises(BadAnswer, match="one belongs to no transaction"):
        decode_blocks([read], [keep_receipts(raw([receipt(5)]), read)], CHAIN)


def test_a_malformed_log_is_left_to_the_decoder() -> None:
    read = parse_block(raw(block()))
    spoilt = receipt(0, log(0, 0))
    spoilt["logs"][0]["address"] = "0xg"
    with pytest.raises(BadAnswer, match=r"`logs.address` of block 1000"):
        decode_blocks([read], [keep_receipts(raw([spoilt, receipt(1)]), read)], CHAIN)


def test_the_reserved_key_is_not_hidden_by_a_key_that_is_kept() -> None:
    given = block(transactions=[transaction(0) | {"(extra)": 1, "feeToken": "0x1"}])
    with pytest.raises(BadAnswer, match=r"`transactions.extra` of block 1000"):
        decode_blocks([keep_block(raw(given))], None, CHAIN)


def test_a_malformed_receiver_is_left_to_the_decoder() -> None:
    read = keep_block(raw(block(transactions=[transaction(0, to="0x0g")])))
    own = keep_receipts(raw([receipt(0, to=5)]), read)
    with pytest.raises(BadAnswer, match=r"`transactions.to_address` of block 1000"):
        decode_blocks([read], [own], CHAIN)
