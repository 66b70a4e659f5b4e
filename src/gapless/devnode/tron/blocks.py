"""One block of a simulated TRON chain: generated, encoded, hashed and rendered as java-tron does.

As with a real node, fields with their default value are left out of the JSON, the genesis has
transactions without signatures and infos, and its witness is a text.

Signatures are random: every id and root is correct, but no signature recovers to its account.
"""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from gapless.chains.tron.hashing import (
    block_id,
    header_bytes,
    merkle_root,
    transaction_bytes,
    transaction_id,
)
from gapless.chains.tron.networks import chain_id_of
from gapless.chains.tron.protobuf import bytes_field, item_field, number_field
from gapless.core.errors import UsageError
from gapless.devnode.building import BlockNames, Built, Parameters
from gapless.devnode.tron.dialect import TronDialect
from gapless.devnode.tron.drafts import REVERT, TronDraft, TronWorld, draft, transfer

GENESIS_MS = 1_700_000_000_000
BLOCK_MS = 3000
_EXPIRES_MS, _SENT_MS = 57_000, 2500  # after and before the block
_WITNESSES = 27
_VERSION = 32
_NOBODY = b"0x000000000000000000000".hex()  # the payer of the genesis, as on mainnet
_RESULTS = {"SUCCESS": 1, REVERT: 2}
_TYPE_URL = "type.googleapis.com/protocol."
_BANDWIDTH = 134  # bytes that a transaction uses beside its raw data
_ENERGY_PRICE = 100  # in SUN
_REVERTED = b"REVERT opcode executed".hex()

_encode = msgspec.json.Encoder().encode


class _Named(Struct, gc=False):
    id: str = msgspec.field(name="txID")


class _Names(Struct, gc=False):
    id: str = msgspec.field(name="blockID")
    transactions: list[_Named] = []


_names = msgspec.json.Decoder(_Names).decode


class _Sealed(NamedTuple):
    """A transaction with its id, without its place in a block."""

    draft: TronDraft
    id: bytes
    size: int  # of its raw data
    encoded: bytes
    json: dict[str, Any]


class TronBuilder:
    """Builds the blocks of a chain."""

    version = 2
    folder = "devnode-tron"
    no_parent = "00" * 32
    derives_chain_id = True

    def __init__(self, parameters: Parameters) -> None:
        if parameters.economy:
            raise UsageError(
                "a simulated TRON chain has no economy", hint="only EVM chains can have one"
            )
        self.parameters, self.dialect = parameters, TronDialect()
        self._world = TronWorld(parameters.seed)

    def build(self, height: int, parent: str, branch: int = 0) -> Built:
        rng = self.parameters.chance(branch, height)
        time = GENESIS_MS + BLOCK_MS * height if height else 0
        sealed = self._genesis() if height == 0 else self._sealed(rng, height, parent, time)
        witness = self._witness(rng, height)
        root = merkle_root([each.encoded for each in sealed])
        version = _VERSION if height else 0
        own = block_id(
            height,
            header_bytes(
                timestamp=time,
                transactions_root=root,
                parent_hash=bytes.fromhex(parent),
                number=height,
                witness_address=bytes.fromhex(witness),
                version=version,
            ),
        ).hex()
        fields = {"number": height, "txTrieRoot": root.hex(), "witness_address": witness}
        fields |= {"parentHash": parent, "version": version, "timestamp": time}
        header: dict[str, Any] = {"raw_data": _given(fields)}
        if height:
            header["witness_signature"] = _signature(Random(own))  # one block has one
        block: dict[str, Any] = {"blockID": own, "block_header": header}
        if sealed:
            block["transactions"] = [each.json for each in sealed]
        infos = [_info(rng, each, height, time) for each in sealed] if height else []
        return Built(own, _encode(block), _encode(infos), branch)

    def chain_id(self, genesis: str) -> int:
        return chain_id_of(bytes.fromhex(genesis))

    def names(self, block: bytes) -> BlockNames:
        found = _names(block)
        return BlockNames(found.id, [each.id for each in found.transactions])

    def _genesis(self) -> list[_Sealed]:
        """The first balances, which nobody signed."""
        paid = [transfer(_NOBODY, to, 99_000_000_000_000_000) for to in self._world.wallets[:2]]
        return [_seal(each, b"", {}, []) for each in paid]

    def _sealed(self, rng: Random, height: int, parent: str, time: int) -> list[_Sealed]:
        before = height - 1
        reference = {
            "ref_block_bytes": f"{before & 0xFFFF:04x}",
            "ref_block_hash": parent[16:32],
            "expiration": time + _EXPIRES_MS,
        }
        encoded = bytes_field(1, bytes.fromhex(f"{before & 0xFFFF:04x}"))
        encoded += bytes_field(4, bytes.fromhex(parent[16:32]))
        encoded += number_field(8, time + _EXPIRES_MS)
        return [
            _seal(
                draft(rng, self._world),
                encoded,
                {**reference, "timestamp": time - _SENT_MS + at},
                [_signature(rng)],
            )
            for at in range(self.parameters.transactions(rng, height))
        ]

    def _witness(self, rng: Random, height: int) -> str:
        if height == 0:  # it tells chains apart, and so their ids
            return f"gapless devnode {self.parameters.seed}".encode().hex()
        return self._world.wallets[rng.randrange(_WITNESSES)]


def _seal(
    it: TronDraft, reference: bytes, fields: dict[str, Any], signatures: list[str]
) -> _Sealed:
    """Encodes and signs a draft; `reference` are the fields before the contract."""
    contract = number_field(1, it.number)
    url = f"{_TYPE_URL}{it.type}"
    contract += item_field(2, bytes_field(1, url.encode()) + bytes_field(2, it.message))
    raw = reference + item_field(11, contract)
    raw += number_field(14, fields.get("timestamp", 0)) + number_field(18, it.fee_limit)
    parameter = {"value": it.value, "type_url": url}
    said = {"contract": [{"parameter": parameter, "type": it.type}], **fields}
    json: dict[str, Any] = {"txID": transaction_id(raw).hex()}
    results = []
    if signatures:
        json |= {"ret": [{"contractRet": it.result}], "signature": signatures}
        results = [number_field(3, _RESULTS[it.result])]
    json["raw_data"] = {**said, "fee_limit": it.fee_limit} if it.fee_limit else said
    json["raw_data_hex"] = raw.hex()
    signed = [bytes.fromhex(each) for each in signatures]
    encoded = transaction_bytes(raw, signed, results)
    return _Sealed(it, transaction_id(raw), len(raw), encoded, json)


def _info(rng: Random, sealed: _Sealed, height: int, time: int) -> dict[str, Any]:
    """What a transaction did."""
    it = sealed.draft
    receipt: dict[str, Any] = {"net_usage": _BANDWIDTH + sealed.size}
    fee = it.energy * _ENERGY_PRICE
    info: dict[str, Any] = {"id": sealed.id.hex()}
    if fee:
        info["fee"] = fee
        receipt |= {"energy_fee": fee, "energy_usage_total": it.energy, "result": it.result}
    info |= {"blockNumber": height, "blockTimeStamp": time, "contractResult": [""]}
    if it.contract:
        info["contract_address"] = it.contract
        info["contractResult"] = ["" if it.result == REVERT else f"{1:064x}"]
    info["receipt"] = receipt
    if it.logs:
        info["log"] = it.logs
    if it.result == REVERT:
        info |= {"result": "FAILED", "resMessage": _REVERTED}
    if it.inner:
        info["internal_transactions"] = [
            {"hash": f"{rng.getrandbits(256):064x}", **each} for each in it.inner
        ]
    return info


def _given(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields that do not have their default value."""
    return {name: value for name, value in fields.items() if value}


def _signature(rng: Random) -> str:
    return f"{rng.getrandbits(512):0128x}{rng.getrandbits(1):02x}"
