"""Turns a draft into a typed transaction with fees, a signature, an encoding and a hash."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from gapless.chains.evm.codec.hexrlp import EMPTY, data, listed, number, packed, string_head, words
from gapless.chains.evm.codec.keccak import keccak
from gapless.devnode.evm.drafts import Draft

GAS_PER_BLOB = 1 << 17
BLOB_GAS_PRICE = "0x1"  # the least, as no blob gas is in excess

# Cumulative shares of the types 0, 1, 3 and 4; the rest are of type 2.
_SHARES = ((0.15, 0), (0.22, 1), (0.27, 3), (0.32, 4))
_DYNAMIC, _BLOBS, _DELEGATING = 2, 3, 4
_BLOB_FEE = hex(1_000_000_000)


class Fees(NamedTuple):
    """The values that all transactions of a block share."""

    chain_id: int
    base_fee: int


class Envelope(NamedTuple):
    """A transaction without its place in a block."""

    draft: Draft
    sender: str
    nonce: int
    type: str
    hash: str
    encoded: bytes
    price: str
    blobs: int
    fields: str  # as JSON, from `from` on


def sealed(
    it: Draft, rng: Random, account: tuple[str, int], fees: Fees, blobs_left: int
) -> Envelope:
    """The draft as a transaction of this account's address and nonce."""
    kind = _kind(rng, it, blobs_left)
    sender, at = account
    tip, chain = rng.getrandbits(30), hex(fees.chain_id)
    limit, price = hex(2 * fees.base_fee), hex(fees.base_fee + min(fees.base_fee, tip))
    nonce, gas, value = hex(at), hex(it.gas_used * 5 // 4), hex(it.value)
    move = f"{number(gas)}{EMPTY if it.to is None else '94' + it.to[2:]}{number(value)}"
    move += data(it.input)
    keys = _access(rng, it) if kind and rng.getrandbits(3) == 0 else _NO_ACCESS
    blobs = _blob_hashes(rng, min(3, blobs_left)) if kind == _BLOBS else ()
    names = f'"from":"{sender}","chainId":"{chain}","gasPrice":"{price}",'
    if kind < _DYNAMIC:
        text = f"{number(nonce)}{number(price)}{move}"
        if kind:
            text = f"{number(chain)}{text}{keys.encoded}"
    else:
        reward = hex(tip)
        names += f'"maxPriorityFeePerGas":"{reward}","maxFeePerGas":"{limit}",'
        text = f"{number(chain)}{number(nonce)}{number(reward)}{number(limit)}{move}{keys.encoded}"
    if kind:
        names += f'"accessList":{keys.json},'
    if kind == _BLOBS:
        listing = '","'.join(blobs)
        names += f'"maxFeePerBlobGas":"{_BLOB_FEE}","blobVersionedHashes":["{listing}"],'
        text += number(_BLOB_FEE) + words(blobs)
    elif kind == _DELEGATING:
        grants = _authorizations(rng, it, chain)
        names += f'"authorizationList":{grants.json},'
        text += grants.encoded
    signature = _signature(rng, kind, fees.chain_id)
    encoded = packed(_typed(kind, text + signature.encoded))
    to = "null" if it.to is None else f'"{it.to}"'
    names += (
        f'"nonce":"{nonce}","gas":"{gas}","to":{to},"value":"{value}","input":"{it.input}",'
        f"{signature.json}"
    )
    own = f"0x{keccak(encoded).hex()}"
    return Envelope(it, sender, at, hex(kind), own, encoded, price, len(blobs), names)


class _Part(NamedTuple):
    """A part of a transaction, as JSON and as RLP in hex."""

    json: str
    encoded: str


_NO_ACCESS = _Part("[]", "c0")


def _kind(rng: Random, it: Draft, blobs_left: int) -> int:
    lot = rng.random()
    kind = next((kind for share, kind in _SHARES if lot < share), _DYNAMIC)
    if (kind > _DYNAMIC and it.to is None) or (kind == _BLOBS and blobs_left <= 0):
        return _DYNAMIC
    return kind


def _typed(kind: int, text: str) -> str:
    return f"{kind:02x}{listed(text)}" if kind else listed(text)


def _signature(rng: Random, kind: int, chain_id: int) -> _Part:
    dice = rng.getrandbits(511)
    parity, r, s = dice & 1, hex(dice >> 256), hex(dice >> 1 & (1 << 254) - 1)
    v = hex(parity if kind else 2 * chain_id + 35 + parity)
    text = f'"v":"{v}","r":"{r}","s":"{s}"'
    if kind:
        text += f',"yParity":"{v}"'
    return _Part(text, number(v) + number(r) + number(s))


def _access(rng: Random, it: Draft) -> _Part:
    """An access list with one entry, of one or two storage keys."""
    where = it.to or f"0x{rng.getrandbits(160):040x}"
    keys = [f"0x{rng.getrandbits(256):064x}" for _ in range(1 + rng.getrandbits(1))]
    listing = '","'.join(keys)
    text = f'[{{"address":"{where}","storageKeys":["{listing}"]}}]'
    return _Part(text, listed(listed(f"94{where[2:]}{words(keys)}")))


def _blob_hashes(rng: Random, most: int) -> tuple[str, ...]:
    count = rng.randint(1, most)
    return tuple(f"0x01{rng.getrandbits(248):062x}" for _ in range(count))


def _authorizations(rng: Random, it: Draft, chain: str) -> _Part:
    """One or two permissions to act as a contract."""
    texts, encoded = [], ""
    for _ in range(1 + rng.getrandbits(1)):
        signature = _signature(rng, _DELEGATING, 0)
        nonce = hex(rng.getrandbits(8))
        signed = signature.json.partition(",")[2]  # an authorization has `yParity`, no `v`
        texts.append(f'{{"chainId":"{chain}","address":"{it.to}","nonce":"{nonce}",{signed}}}')
        encoded += listed(
            f"{number(chain)}{string_head(20)}{(it.to or '0x')[2:]}{number(nonce)}"
            f"{signature.encoded}"
        )
    return _Part(f"[{','.join(texts)}]", listed(encoded))
