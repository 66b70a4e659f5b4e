"""The compiled core hashes the headers of all networks as the reference does."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import pytest
from msgspec import to_builtins
from msgspec.structs import fields

from gapless.chains.evm.check_names import Check
from gapless.chains.evm.codec.header import header_hash
from gapless.chains.evm.decode.structs import Block
from gapless.chains.family import Reading
from tests.evm import evm_network
from tests.evm_answers import raw_block, wanted_of
from tests.evm_core import assert_agree, with_core
from tests.unit.evm.test_header import (
    AVALANCHE,
    AVALANCHE_MORE,
    GNOSIS,
    SEAL,
    STEP,
    TEMPO,
    TEMPO_MORE,
    Header,
)

pytestmark = with_core
_KEYS = {field.name: field.encode_name for field in fields(Block)}
REAL: dict[str, tuple[Header, dict[str, Any]]] = {
    "gnosis": (GNOSIS, {"auraStep": STEP, "auraSeal": SEAL}),
    "avalanche": (AVALANCHE, {**AVALANCHE_MORE}),
    "tempo": (TEMPO, {**TEMPO_MORE}),
}
OTHERS: tuple[object, ...] = (
    None,
    5,
    "",
    "0x",
    "5",
    "0x0",
    "0x05",
    "0X5",
    "xx5",
    "0x5 ",
    "0xAB",
    "0x" + "0" * 65,
    [],
)


def agreed(network: str, block: Header, more: dict[str, Any]) -> Reading:
    """Read a block without transactions, whose header is to be hashed; both must agree."""
    known, given = REAL[network]
    own = header_hash(known, evm_network(network).header, given)
    answer = {_KEYS[name]: value for name, value in asdict(block).items()}
    answer |= {"hash": f"0x{own.hex()}", "transactions": [], "uncles": [], **more}
    height = int(block.number, 16)
    raw = raw_block(height, json.dumps(to_builtins(answer)).encode(), b"[]")
    wanted = replace(wanted_of(network, 1), checks=frozenset({Check.HEADER_HASH}))
    return assert_agree([raw], wanted, {height})


@pytest.mark.parametrize("network", REAL)
def test_real_headers(network: str) -> None:
    found = agreed(network, *REAL[network])
    (block,) = found.blocks.values()
    assert block.proof.proven == {Check.HEADER_HASH}


@pytest.mark.parametrize(
    ("network", "key"), [(network, key) for network, (_, more) in REAL.items() for key in more]
)
def test_other_values_of_keys_without_a_column(network: str, key: str) -> None:
    block, more = REAL[network]
    text = more[key]
    for value in (*OTHERS, text.upper(), "0x0" + text[2:], "zz" + text[2:], text[2:]):
        agreed(network, block, {**more, key: value})
    agreed(network, block, {name: value for name, value in more.items() if name != key})
    agreed(network, block, {**more, "consensusContext": None})


@pytest.mark.parametrize("network", REAL)
def test_headers_without_a_field(network: str) -> None:
    block, more = REAL[network]
    for without in (
        replace(block, difficulty=None),
        replace(block, mix_hash=None),
        replace(block, nonce=None),
        replace(block, logs_bloom=None),
        replace(block, base_fee_per_gas=None),
    ):
        agreed(network, without, more)
