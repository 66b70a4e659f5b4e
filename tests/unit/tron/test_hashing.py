"""Hashes of TRON, compared with the one block that anyone can build: the genesis of the mainnet."""

from __future__ import annotations

from hashlib import sha256

from gapless.chains.tron.address import address_of
from gapless.chains.tron.hashing import (
    NO_TRANSACTIONS,
    block_id,
    header_bytes,
    merkle_root,
    transaction_bytes,
)
from gapless.chains.tron.networks import MAINNET_GENESIS, TRON_NETWORKS, chain_id_of
from gapless.chains.tron.protobuf import bytes_field, number_field

# From the configuration that every node of the mainnet has.
PARENT = "e58f33f9baf9305dc6f82b9f1934ea8f0ade2defb951258d50167028c780351f"
BALANCES = {
    "TLLM21wteSPs4hKjbxgmH1L6poyMjeTbHm": 99_000_000_000_000_000,
    "TXmVpin5vq5gdZsciyyjdZgKRUju4st1wM": 0,
    "TLsV52sRDL79HXGGm9yzwKibb6BeruhUzy": -(2**63),
}
OWNER = b"0x000000000000000000000"
WITNESS = (
    b"A new system must allow existing systems to be linked together"
    b" without requiring any central control or coordination"
)
TYPE = b"type.googleapis.com/protocol.TransferContract"


def genesis_transaction(receiver: str, amount: int) -> bytes:
    to = b"\x41" + address_of(receiver)
    value = bytes_field(1, OWNER) + bytes_field(2, to) + number_field(3, amount)
    parameter = bytes_field(1, TYPE) + bytes_field(2, value)
    return bytes_field(11, number_field(1, 1) + bytes_field(2, parameter))


def test_the_genesis_of_the_mainnet() -> None:
    raw = [genesis_transaction(*each) for each in BALANCES.items()]
    root = merkle_root([transaction_bytes(each, [], []) for each in raw])
    header = header_bytes(
        timestamp=0,
        transactions_root=root,
        parent_hash=bytes.fromhex(PARENT),
        number=0,
        witness_address=WITNESS,
        version=0,
    )
    assert block_id(0, header).hex() == MAINNET_GENESIS


def test_chain_ids_follow_from_the_genesis() -> None:
    assert chain_id_of(bytes.fromhex(MAINNET_GENESIS)) == 728_126_428
    assert [each.chain_id for each in TRON_NETWORKS] == [728126428, 3448148188, 2494104990, None]


def test_a_node_without_a_neighbour_moves_up() -> None:
    one, two, three = leaves = [sha256(each).digest() for each in (b"a", b"b", b"c")]
    assert merkle_root([]) == NO_TRANSACTIONS
    assert merkle_root([b"a"]) == one
    assert merkle_root([b"a", b"b"]) == sha256(one + two).digest()
    assert merkle_root([b"a", b"b", b"c"]) == sha256(sha256(one + two).digest() + three).digest()
    five = [*leaves, one, two]
    left = sha256(sha256(b"".join(five[:2])).digest() + sha256(b"".join(five[2:4])).digest())
    assert merkle_root([b"a", b"b", b"c", b"a", b"b"]) == sha256(left.digest() + two).digest()
