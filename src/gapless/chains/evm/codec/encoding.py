"""Canonical encodings of the contents of a block: transactions, receipts, withdrawals.

These are the values in the tries whose roots are in the header. A legacy transaction or receipt is
encoded as a list, a typed one as the type's byte followed by the list. The encodings are built from
the node's hex strings (see `hexrlp`), and each object is converted to bytes once.

A malformed field raises `ValueError`. A transaction type without a public encoding raises
`NoEncoding`: the transactions of such a block cannot be proven, but the node is not at fault. All
receipt types seen so far, on any chain, have the same encoding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import Raw

from gapless.chains.evm.codec.bloom import bloom_of_logs
from gapless.chains.evm.codec.fields import (
    LogFields,
    NoEncoding,
    NotSigned,
    ReceiptFields,
    TransactionFields,
    WithdrawalFields,
)
from gapless.chains.evm.codec.hexrlp import (
    EMPTY,
    EMPTY_LIST,
    address,
    bloom,
    data,
    list_head,
    listed,
    number,
    packed,
    string_head,
    word,
    words,
)

LEGACY = 0x00
BLOB = 0x03
DEPOSIT = 0x7E  # Optimism and other OP Stack chains
ARBITRUM_INTERNAL = 0x6A
_UNSIGNED = (DEPOSIT, ARBITRUM_INTERNAL)
PROTECTED = 35  # from this value on, `v` of a legacy transaction contains the chain id (EIP-155)
_UNPROTECTED = 27

_KINDS = {None: LEGACY} | {hex(kind): kind for kind in range(256)}
_KIND_BYTES = ("", *(f"{kind:02x}" for kind in range(1, 256)))

_parsed = msgspec.json.Decoder().decode


def kind_of(type_: str | None) -> int:
    """Return the number of an envelope type; old nodes omit the type of legacy envelopes."""
    kind = _KINDS.get(type_)
    if kind is None:
        raise ValueError(f"`{type_}` is not an envelope type")
    return kind


def transaction(it: TransactionFields) -> bytes:
    """Encode a transaction for the transactions trie; its hash is the Keccak of the result."""
    kind = kind_of(it.type)
    layout = _LAYOUTS.get(kind)
    if layout is None:
        raise NoEncoding(f"transactions of type {kind:#x} have no public encoding")
    values_of, encoders = layout
    try:
        parts = [encode(value) for encode, value in zip(encoders, values_of(it), strict=True)]
        if kind not in _UNSIGNED:
            parts.append(_signature(it))
    except (TypeError, KeyError, AttributeError):
        raise ValueError(f"a transaction of type {kind:#x} lacks a field") from None
    return packed(_typed(kind, "".join(parts)))


def signing_payload(it: TransactionFields) -> bytes:
    """Return the bytes whose Keccak the sender signed; raise `NotSigned` if it is unsigned."""
    kind = kind_of(it.type)
    if kind in _UNSIGNED or kind not in _LAYOUTS:
        raise NotSigned(f"transactions of type {kind:#x} have no known signature")
    values_of, encoders = _LAYOUTS[kind]
    try:
        parts = [encode(value) for encode, value in zip(encoders, values_of(it), strict=True)]
    except (TypeError, KeyError, AttributeError):
        raise ValueError(f"a transaction of type {kind:#x} lacks a field") from None
    if kind == LEGACY and (v := _v(it)) >= PROTECTED:
        parts += (number(hex((v - PROTECTED) // 2)), EMPTY, EMPTY)
    return packed(_typed(kind, "".join(parts)))


def recovery_id(it: TransactionFields) -> int:
    """Return which of the two keys that match the signature is the signer's: 0 or 1."""
    v = _v(it)
    if kind_of(it.type) == LEGACY:
        v = (v - PROTECTED) % 2 if v >= PROTECTED else v - _UNPROTECTED
    if v not in (0, 1):
        raise ValueError(f"`v` cannot be {v:#x}")
    return v


def _v(it: TransactionFields) -> int:
    field = it.y_parity if it.v is None else it.v
    if field is None:
        raise ValueError("a transaction has no `v`")
    return int(field, 16)


def receipt(it: ReceiptFields) -> bytes:
    """Encode a receipt for the receipts trie."""
    filter_ = bloom_of_logs(it.logs) if it.logs_bloom is None else it.logs_bloom
    logs = "".join([_log(log) for log in it.logs])
    text = (
        f"{_outcome(it)}{number(it.cumulative_gas_used)}{bloom(filter_)}"
        f"{list_head(len(logs) >> 1)}{logs}"
    )
    kind = kind_of(it.type)
    if kind == DEPOSIT and it.deposit_receipt_version is not None:
        text += _optional_number(it.deposit_nonce) + number(it.deposit_receipt_version)
    return packed(_typed(kind, text))


def withdrawal(it: WithdrawalFields) -> bytes:
    """Encode a withdrawal for the withdrawals trie."""
    text = number(it.index) + number(it.validator_index) + address(it.address) + number(it.amount)
    return packed(listed(text))


def _typed(kind: int, text: str) -> str:
    """Encode the list of already encoded fields, prefixed with its type."""
    return f"{_KIND_BYTES[kind]}{list_head(len(text) >> 1)}{text}"


def _outcome(it: ReceiptFields) -> str:
    """Encode the status; before Byzantium, the state root after the transaction instead."""
    if it.status is not None:
        return number(it.status)
    if it.root is None:
        raise ValueError("a receipt has neither `status` nor `root`")
    return word(it.root)


def _log(it: LogFields) -> str:
    emitter, topics, payload = it.address, it.topics, it.data
    digits = len(payload)
    if digits == 4:  # a single byte may be its own encoding, so its size is not known in advance
        return listed(address(emitter) + words(topics) + data(payload))
    before, before_topics, before_data = _log_heads(len(topics), len(emitter), digits)
    try:
        encoded = "".join([_TOPIC_HEADS[len(topic)] + topic[2:] for topic in topics])
    except KeyError:
        raise ValueError("a topic is not 32 bytes") from None
    return f"{before}{emitter[2:]}{before_topics}{encoded}{before_data}{payload[2:]}"


_TOPIC_HEADS = {66: "a0"}


@lru_cache(4096)
def _log_heads(topics: int, address_digits: int, data_digits: int) -> tuple[str, str, str]:
    """Return the RLP prefixes of a log's address, topics and data, which depend only on sizes."""
    if address_digits != 42 or data_digits & 1:
        raise ValueError("a log's address is not 20 bytes, or its data has an odd digit")
    data_size = (data_digits >> 1) - 1
    before_topics, before_data = list_head(33 * topics), string_head(data_size)
    size = 21 + (len(before_topics + before_data) >> 1) + 33 * topics + data_size
    return f"{list_head(size)}94", before_topics, before_data


def _signature(it: TransactionFields) -> str:
    """Encode `v`, `r` and `s`; typed transactions may have `yParity` in place of `v`."""
    parity: Any = it.y_parity if it.v is None else it.v
    r: Any = it.r
    s: Any = it.s
    return number(parity) + number(r) + number(s)


def _optional_number(field: str | None) -> str:
    return EMPTY if field is None else number(field)


def _recipient(field: str | None) -> str:
    """Encode the recipient; empty if the transaction creates a contract."""
    return EMPTY if field is None or field == "0x" else address(field)


def _flag(field: bool | None) -> str:
    return "01" if field else EMPTY


def _access_list(field: Raw) -> str:
    raw = bytes(field)
    if raw in _EMPTY_LISTS:
        return EMPTY_LIST
    entries = [listed(address(it["address"]) + words(it["storageKeys"])) for it in _parsed(raw)]
    return listed("".join(entries))


def _authorization_list(field: Raw) -> str:
    raw = bytes(field)
    if raw in _EMPTY_LISTS:
        return EMPTY_LIST
    return listed("".join(map(_authorization, _parsed(raw))))


def _authorization(it: dict[str, Any]) -> str:
    parity = it["yParity"] if "yParity" in it else it["v"]
    signature = number(parity) + number(it["r"]) + number(it["s"])
    return listed(number(it["chainId"]) + address(it["address"]) + number(it["nonce"]) + signature)


def _blob_hashes(field: Sequence[str] | None) -> str:
    return words(field or ())


_EMPTY_LISTS = (b"", b"null", b"[]")

_ENCODERS: dict[str, Callable[[Any], str]] = {
    "access_list": _access_list,
    "authorization_list": _authorization_list,
    "blob_versioned_hashes": _blob_hashes,
    "chain_id": number,
    "from_": address,
    "gas": number,
    "gas_price": number,
    "input": data,
    "is_system_tx": _flag,
    "max_fee_per_blob_gas": number,
    "max_fee_per_gas": number,
    "max_priority_fee_per_gas": number,
    "mint": _optional_number,
    "nonce": number,
    "source_hash": word,
    "to": _recipient,
    "value": number,
}

_MOVE = "gas to value input"
_DYNAMIC = f"chain_id nonce max_priority_fee_per_gas max_fee_per_gas {_MOVE} access_list"
_FIELDS = {
    LEGACY: f"nonce gas_price {_MOVE}",
    0x01: f"chain_id nonce gas_price {_MOVE} access_list",
    0x02: _DYNAMIC,
    BLOB: f"{_DYNAMIC} max_fee_per_blob_gas blob_versioned_hashes",
    0x04: f"{_DYNAMIC} authorization_list",
    ARBITRUM_INTERNAL: "chain_id input",
    DEPOSIT: "source_hash from_ to mint value gas is_system_tx input",
}
# By type: how to get a transaction's fields, and how to encode each, except for the signature.
_LAYOUTS = {
    kind: (attrgetter(*names.split()), tuple(_ENCODERS[name] for name in names.split()))
    for kind, names in _FIELDS.items()
}
