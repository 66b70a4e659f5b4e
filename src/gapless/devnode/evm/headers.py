"""The header of a simulated block, with every field of the Prague fork."""

from __future__ import annotations

from hashlib import sha256
from typing import NamedTuple

from gapless.chains.evm.codec.hexrlp import data, listed, number, packed
from gapless.chains.evm.codec.keccak import keccak
from gapless.chains.evm.codec.rlp import EMPTY_LIST

_NO_UNCLES = keccak(EMPTY_LIST).hex()
_NO_REQUESTS = sha256().hexdigest()
_GAS_LIMIT = hex(60_000_000)
_EXTRA_DATA = f"0x{b'gapless devnode'.hex()}"
_NONCE = "0" * 16


class Head(NamedTuple):
    """What differs from block to block; numbers begin with `0x`, the rest is bare hex."""

    parent: str  # with `0x`, as the parent's own hash is kept
    height: str
    time: str
    miner: str
    noise: tuple[str, ...]  # state root, mix hash and beacon root, which cannot be checked
    roots: tuple[str, str, str]  # of transactions, receipts and withdrawals
    bloom: str
    gas_used: str
    base_fee: str
    blob_gas: str


def encoded_header(it: Head) -> bytes:
    """The encoded header, whose hash is the block's hash."""
    state, mix, beacon = it.noise
    transactions, receipts, withdrawals = it.roots
    return packed(
        listed(
            f"a0{it.parent[2:]}a0{_NO_UNCLES}94{it.miner}a0{state}a0{transactions}a0{receipts}"
            f"b90100{it.bloom}80{number(it.height)}{number(_GAS_LIMIT)}{number(it.gas_used)}"
            f"{number(it.time)}{data(_EXTRA_DATA)}a0{mix}88{_NONCE}{number(it.base_fee)}"
            f"a0{withdrawals}{number(it.blob_gas)}80a0{beacon}a0{_NO_REQUESTS}"
        )
    )


def header_json(it: Head) -> str:
    """The members of the block's JSON object that its hash covers."""
    state, mix, beacon = it.noise
    transactions, receipts, withdrawals = it.roots
    return (
        f'"parentHash":"{it.parent}","sha3Uncles":"0x{_NO_UNCLES}","miner":"0x{it.miner}",'
        f'"stateRoot":"0x{state}","transactionsRoot":"0x{transactions}",'
        f'"receiptsRoot":"0x{receipts}","logsBloom":"0x{it.bloom}","difficulty":"0x0",'
        f'"number":"{it.height}","gasLimit":"{_GAS_LIMIT}","gasUsed":"{it.gas_used}",'
        f'"timestamp":"{it.time}","extraData":"{_EXTRA_DATA}","mixHash":"0x{mix}",'
        f'"nonce":"0x{_NONCE}","baseFeePerGas":"{it.base_fee}",'
        f'"withdrawalsRoot":"0x{withdrawals}","blobGasUsed":"{it.blob_gas}",'
        f'"excessBlobGas":"0x0","parentBeaconBlockRoot":"0x{beacon}",'
        f'"requestsHash":"0x{_NO_REQUESTS}"'
    )
