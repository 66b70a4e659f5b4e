"""Envelopes that the recorded blocks lack, and answers that must not be encoded.

All other envelopes are checked on real blocks, in `tests/data`.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gapless.chains.evm.codec.encoding import kind_of, receipt, transaction, withdrawal
from gapless.chains.evm.codec.fields import NoEncoding
from gapless.chains.evm.decode.structs import Log, Receipt, Transaction, Withdrawal
from tests.unit.evm import reference

HERE = {"blockHash": "0x", "blockNumber": "0x1", "transactionIndex": "0x0", "hash": "0x"}
ALICE, BOB = "0x" + "aa" * 20, "0x" + "bb" * 20
SIGNED = {"v": "0x1", "r": "0xb0", "s": "0x00c0"}
PLAIN = {"from": ALICE, "nonce": "0x0", "gas": "0x5208", "value": "0x0", "input": "0x"}


def a_transaction(**fields: Any) -> Transaction:
    raw = msgspec.json.encode({**HERE, **PLAIN, **SIGNED, **fields})
    return msgspec.json.decode(raw, type=Transaction)


def a_receipt(*logs: Log, **fields: Any) -> Receipt:
    given = {"status": "0x1", "logsBloom": "0x" + "00" * 256, "cumulativeGasUsed": "0x7b", **fields}
    head = {**HERE, "transactionHash": "0x", "gasUsed": "0x7b", "logs": []}
    made = msgspec.convert({**head, **given}, Receipt)
    made.logs = list(logs)
    return made


def a_log(topics: int = 1, data: str = "0x", **fields: Any) -> Log:
    return Log(
        **{"address": BOB, "topics": ["0x" + "11" * 32] * topics, "data": data, "log_index": "0x0"}
        | fields
    )


def test_a_set_code_transaction_carries_its_authorizations() -> None:
    pass_ = {
        "chainId": "0x1",
        "address": BOB,
        "nonce": "0x2",
        "yParity": "0x1",
        "r": "0x3",
        "s": "0x4",
    }
    raw = transaction(
        a_transaction(
            type="0x4",
            chainId="0x1",
            to=BOB,
            maxFeePerGas="0x9",
            maxPriorityFeePerGas="0x8",
            accessList=[{"address": BOB, "storageKeys": ["0x" + "11" * 32]}],
            authorizationList=[pass_],
        )
    )
    bob, key = b"\xbb" * 20, b"\x11" * 32
    assert raw[0] == 4
    assert reference.unrlp(raw[1:]) == [
        *(b"\x01", b"", b"\x08", b"\x09", b"\x52\x08", bob, b"", b""),
        [[bob, [key]]],
        [[b"\x01", bob, b"\x02", b"\x01", b"\x03", b"\x04"]],
        *(b"\x01", b"\xb0", b"\xc0"),
    ]


def test_a_contract_creation_has_no_recipient_and_a_legacy_transaction_no_type() -> None:
    created = transaction(a_transaction(gasPrice="0x1", to=None))
    assert created == transaction(a_transaction(gasPrice="0x1", to="0x", type="0x0"))
    fields = reference.unrlp(created)
    assert isinstance(fields, list)
    assert fields[3] == b""


def test_the_parity_replaces_a_missing_v() -> None:
    fields: dict[str, Any] = {"type": "0x1", "chainId": "0x1", "gasPrice": "0x1", "to": BOB}
    with_v = a_transaction(**fields)
    with_parity = a_transaction(**fields, yParity="0x1")
    with_parity.v = None
    assert transaction(with_v) == transaction(with_parity)


def test_a_deposit_receipt_has_nonce_and_version_since_canyon() -> None:
    before = receipt(a_receipt(type="0x7e", depositNonce="0x5"))
    since = receipt(a_receipt(type="0x7e", depositNonce="0x5", depositReceiptVersion="0x1"))
    fields, more = reference.unrlp(before[1:]), reference.unrlp(since[1:])
    assert isinstance(fields, list)
    assert more == [*fields, b"\x05", b"\x01"]


def test_a_receipt_without_a_bloom_gets_the_bloom_of_its_logs() -> None:
    bare = receipt(a_receipt(a_log(), logsBloom=None))
    fields = reference.unrlp(bare)
    assert isinstance(fields, list)
    assert fields[2] == reference.bloom([b"\xbb" * 20, b"\x11" * 32])


@pytest.mark.parametrize("topics", range(5))
@pytest.mark.parametrize("size", [0, 1, 2, 55, 56, 255, 256, 70_000])
def test_a_log_of_any_size_is_encoded(topics: int, size: int) -> None:
    raw = receipt(a_receipt(a_log(topics, "0x" + "07" * size), a_log(topics, "0x" + "87" * size)))
    fields = reference.unrlp(raw)
    assert isinstance(fields, list)
    bob, key = b"\xbb" * 20, b"\x11" * 32
    assert fields[3] == [[bob, [key] * topics, byte * size] for byte in (b"\x07", b"\x87")]


def test_a_withdrawal_has_four_fields() -> None:
    it = Withdrawal(index="0x1", validator_index="0x0", address=BOB, amount="0x80")
    assert reference.unrlp(withdrawal(it)) == [b"\x01", b"", b"\xbb" * 20, b"\x80"]


def test_an_unknown_type_has_no_encoding() -> None:
    with pytest.raises(NoEncoding, match="0x76"):
        transaction(a_transaction(type="0x76"))


@pytest.mark.parametrize("type_", ["", "0x", "0x100", "2", "0xzz"])
def test_a_type_is_a_single_byte(type_: str) -> None:
    with pytest.raises(ValueError, match="not an envelope type"):
        kind_of(type_)


@pytest.mark.parametrize(
    "damage",
    [
        {"r": None},
        {"gasPrice": None},
        {"to": "0x12"},
        {"input": "0x1"},
        {"nonce": "0xq"},
        {"type": "0x1", "accessList": {"a": 1}},
        {"type": "0x1", "accessList": [{"address": BOB}]},
        {"type": "0x1", "accessList": [{"address": 7, "storageKeys": []}]},
        {"type": "0x1", "accessList": "0x"},
    ],
)
def test_a_damaged_transaction_raises_value_error(damage: dict[str, Any]) -> None:
    fields = {"chainId": "0x1", "gasPrice": "0x1", "to": BOB, **damage}
    with pytest.raises(ValueError, match=r"."):
        transaction(a_transaction(**fields))


@pytest.mark.parametrize(
    "damaged",
    [
        a_receipt(status=None),
        a_receipt(status=None, root="0x12"),
        a_receipt(logsBloom="0x00"),
        a_receipt(a_log(data="0x1")),
        a_receipt(a_log(address="0x12")),
        a_receipt(a_log(address="0x12", data="0x11")),
        a_receipt(a_log(topics=0, data="0xzz" * 2)),
    ],
)
def test_a_damaged_receipt_raises_value_error(damaged: Receipt) -> None:
    with pytest.raises(ValueError, match=r"."):
        receipt(damaged)


def test_fields_cannot_compensate_for_each_others_length() -> None:
    honest = a_log()
    honest.topics = ["0x" + "a0" * 32, "0x" + "a0" * 32]
    shifted = a_log()
    shifted.topics = ["0x" + "a0" * 33, "0x" + "a0" * 31]
    receipt(a_receipt(honest))
    with pytest.raises(ValueError, match="topic"):
        receipt(a_receipt(shifted))
