"""Every form of header hashes as on its chain; the blocks here are real."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from gapless.chains.evm.codec.fields import HeaderFields, NoEncoding
from gapless.chains.evm.codec.header import HeaderForm, header, header_hash
from gapless.chains.evm.codec.keccak import keccak
from gapless.chains.evm.codec.trie import EMPTY_ROOT
from gapless.chains.evm.decode import structs
from gapless.chains.evm.tables import BLOCKS
from tests.unit.evm import reference

NO_UNCLES = f"0x{keccak(reference.rlp([])).hex()}"
NOTHING = f"0x{EMPTY_ROOT.hex()}"


@dataclass(frozen=True)
class Header:
    parent_hash: str = "0x" + "00" * 32
    sha3_uncles: str = NO_UNCLES
    miner: str = "0x" + "00" * 20
    state_root: str = "0x" + "00" * 32
    transactions_root: str = NOTHING
    receipts_root: str = NOTHING
    logs_bloom: str | None = "0x" + "00" * 256
    difficulty: str | None = "0x0"
    number: str = "0x0"
    gas_limit: str = "0x0"
    gas_used: str = "0x0"
    timestamp: str = "0x0"
    extra_data: str = "0x"
    mix_hash: str | None = "0x" + "00" * 32
    nonce: str | None = "0x0000000000000000"
    base_fee_per_gas: str | None = None
    withdrawals_root: str | None = None
    blob_gas_used: str | None = None
    excess_blob_gas: str | None = None
    parent_beacon_block_root: str | None = None
    requests_hash: str | None = None
    block_access_list_hash: str | None = None
    slot_number: str | None = None


GENESIS = Header(
    state_root="0xd7f8974fb5ac78d9ac099b9ad5018bedc2ce0a72dad1827a1709da30580f0544",
    difficulty="0x400000000",
    gas_limit="0x1388",
    extra_data="0x11bbe8db4e347b4e8c937c1c8370e4b5ed33adb3db69cbdb7a38e1e50b1b82fa",
    nonce="0x0000000000000042",
)

AVALANCHE = Header(  # block 30,806,864
    parent_hash="0x325c49c63b3f894c28ee1ea9513aae8e2194e8819060cd7b888971d23a114040",
    miner="0x0100000000000000000000000000000000000000",
    state_root="0xdf5aaa6e78b1fa40bbf002abeeca3bbfb8fa58a50e13dafa89d37afa71c26979",
    transactions_root="0x2aff3102ef3cb883265e9b93421c765714f28a70106e0a5b9d3a994cc6d60b02",
    receipts_root="0xc5533e051491f1b3218e8bc51e86c58759847916ae74ee3d4aecb1d43ae9a242",
    logs_bloom="0x"
    "0020804440002009100000108211006300064004800124882a00e02a00342110100140444000002100500400001c"
    "0000010010000001010010800210283024800041d400080080a00001000c81002028088020008046800880000100"
    "480018000004008282800c0110400010000208098200020000ca4600020000900200202044020004042000000000"
    "0001108000101120081028000a08000020d0000000800284c0104100c28022020004200001000020080200080000"
    "200804000201004081001602004238040001080000000800090304420400041080010022500230001054800461e0"
    "8500080100000000042c12004020001040220100100008081240",
    difficulty="0x1",
    number="0x1d61350",
    gas_limit="0xe4e1c0",
    gas_used="0x3213ee",
    timestamp="0x6479b047",
    extra_data="0x0000000000428007000000000000000000000000001dd4470000000000340e550000000000000000"
    "00000000002b55c20000000000322c67000000000000000000000000000000000000000000000000",
    base_fee_per_gas="0x5e0443893",
)
AVALANCHE_MORE = {
    "extDataHash": NOTHING,
    "extDataGasUsed": "0x0",
    "blockGasCost": "0x61a80",
    "blockExtraData": "0x",
}

GNOSIS = Header(  # block 10,000,000, sealed by AuRa
    parent_hash="0x79270d50b0b4134ef8cb73314bdceef3daf5e048601f149d831d9344f1778b81",
    miner="0xa13d45301207711b7c0328c6b2b64862abfe9b7a",
    state_root="0x0b272061871fe3b4a855380c6d79645682ae6e30206004e2dad48f8039dc4425",
    difficulty="0xfffffffffffffffffffffffffffffffe",
    number="0x989680",
    gas_limit="0x989680",
    timestamp="0x5ec4bf3b",
    extra_data="0xde830207028f5061726974792d457468657265756d86312e34312e30826c69",
)
STEP = "0x12f4263f"
SEAL = (
    "0x47625be95bdbe96c4de67ac908fadc2e450c4d082b81ec85a0925aebbeb5252d16be5b31d8520b889e919102da6"
    "bce1178d617fafbe6142cf4ef82e83fbabcc200"
)
GNOSIS_HASH = "cc1b69d2c643a429bf1874f735b30b8ce60c2d37c37e9bff947c2ce838d380ef"

TEMPO = Header(  # block 6,541 of its test network
    parent_hash="0x9c16c2e16a0f90f3bfe27ba5ac87939c067c4f754faa329120f3f5bbdcb95ef9",
    state_root="0x1dfac7bdfbdbcca3e146acab14fd70fd1c39ef5c55fe20f93fde844a39ffaa5d",
    transactions_root="0xf31a3e2b5d64ff5a3f9f6fe3f8cbc65d65a345fd25535e32757a05232624e548",
    receipts_root="0xb64408da6b8fe39ab764af88ece1e8cca1c35fd988db57806e99138c629365a0",
    number="0x198d",
    gas_limit="0x1dcd6500",
    timestamp="0x695ffb21",
    base_fee_per_gas="0x2540be400",
    withdrawals_root=NOTHING,
    blob_gas_used="0x0",
    excess_blob_gas="0x0",
    parent_beacon_block_root="0x" + "00" * 32,
    requests_hash="0xe3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
)
TEMPO_MORE = {
    "mainBlockGeneralGasLimit": "0xd693a40",
    "sharedGasLimit": "0x2faf080",
    "timestampMillisPart": "0x91",
}


def hash_of(block: Header, form: HeaderForm, more: dict[str, object]) -> str:
    return header_hash(block, form, more).hex()


def test_the_first_block_of_ethereum_has_its_hash() -> None:
    expected = "d4e56740f876aef8c010b86a40d5f56745a118d0906a34e69aec8c0db1cb8fa3"
    assert header_hash(GENESIS).hex() == expected


def test_a_header_of_avalanche_has_its_hash() -> None:
    expected = "3fb8949661bb2f6f5eaa5b16318d3c7e7a0990f8c2382d1fe4389e0caac6519d"
    assert hash_of(AVALANCHE, HeaderForm.AVALANCHE, {**AVALANCHE_MORE}) == expected


@pytest.mark.parametrize(
    "more", [{"auraStep": STEP, "auraSeal": SEAL}, {"step": STEP, "signature": SEAL}]
)
def test_a_header_of_gnosis_from_before_the_merge_has_its_hash(more: dict[str, object]) -> None:
    assert hash_of(GNOSIS, HeaderForm.AURA, more) == GNOSIS_HASH


def test_a_header_of_gnosis_since_the_merge_has_the_form_of_ethereum() -> None:
    merged = replace(GNOSIS, difficulty="0x0")
    assert header(merged, HeaderForm.AURA) == header(merged)


def test_a_header_of_tempo_has_its_hash() -> None:
    expected = "3e6995242d2c6d491e02042ef7ed15b45c729e5f66fbdcb1be21777ebe8aa8c1"
    assert hash_of(TEMPO, HeaderForm.TEMPO, {**TEMPO_MORE}) == expected


@pytest.mark.parametrize(
    ("form", "block", "more"),
    [
        (HeaderForm.AURA, GNOSIS, {}),
        (HeaderForm.AVALANCHE, AVALANCHE, {}),
        (HeaderForm.TEMPO, TEMPO, {}),
        (HeaderForm.TEMPO, TEMPO, {**TEMPO_MORE, "consensusContext": {"epoch": 1}}),
    ],
)
def test_a_header_cannot_be_encoded_without_the_fields_of_its_form(
    form: HeaderForm, block: Header, more: dict[str, object]
) -> None:
    with pytest.raises(NoEncoding):
        header(block, form, more)


def test_fields_of_newer_forks_are_appended() -> None:
    newer = replace(TEMPO, block_access_list_hash="0x" + "ab" * 32, slot_number="0x1")
    fields = reference.unrlp(header(newer, more={"unrelated": "0x2"}))
    assert isinstance(fields, list)
    assert fields[-2:] == [b"\xab" * 32, b"\x01"]
    assert fields[:-2] == reference.unrlp(header(TEMPO))


def test_every_hashed_field_is_decoded_and_has_a_column() -> None:
    hashed = {name for name in vars(HeaderFields) if not name.startswith("_")}
    assert hashed <= set(structs.Header.__struct_fields__)
    columns = {column.name for column in BLOCKS.columns} | {"number", "timestamp"}  # in every table
    assert hashed <= columns


def test_a_gap_before_the_last_appended_field_is_an_empty_string() -> None:
    block = replace(GENESIS, base_fee_per_gas="0x7", excess_blob_gas="0x9")
    fields = reference.unrlp(header(block))
    assert isinstance(fields, list)
    assert fields[15:] == [b"\x07", b"", b"", b"\x09"]


@pytest.mark.parametrize(
    "damage",
    [
        {"mix_hash": None},
        {"logs_bloom": None},
        {"state_root": "0x12"},
        {"extra_data": "0x1"},
        {"number": "0xzz"},
    ],
)
def test_a_damaged_header_raises_value_error(damage: dict[str, str | None]) -> None:
    with pytest.raises(ValueError, match=r"."):
        header(replace(GENESIS, **damage))  # type: ignore[arg-type]


@pytest.mark.parametrize("step", ["13862b3f", "0X13862b3f", "xx13862b3f", "0x", "0x 1", 5, None])
def test_a_field_that_no_decoder_has_examined_must_have_its_form(step: object) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        header(GNOSIS, HeaderForm.AURA, {"auraStep": step, "auraSeal": SEAL})
