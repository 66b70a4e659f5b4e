"""The rows and columns that come from a transaction's info: costs, results, logs, internal calls.

No hash of the chain covers an info. Columns that follow from others are computed by functions of
their own, which also prove stored rows: what they return must equal what is stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from gapless.chains.tron.address import LENGTH, base58_of, without_version
from gapless.chains.tron.answers import (
    FAILED,
    RESULT_NUMBERS,
    InfoAnswer,
    InternalAnswer,
    LogAnswer,
    Members,
    ResourceReceipt,
    from_hex,
    others,
)
from gapless.chains.tron.contracts import Columns, address_columns
from gapless.chains.tron.parsed import ParsedInfo
from gapless.chains.tron.tokens import transfer_columns
from gapless.core.errors import BadAnswer

_HASH, _TOPICS = 32, 4
_LIMIT = 1 << 63
_USAGES = (
    *("energy_usage", "energy_fee", "origin_energy_usage", "energy_usage_total"),
    *("energy_penalty_total", "net_usage", "net_fee"),
)
_AMOUNTS = ("fee", "withdraw_amount", "unfreeze_amount", "withdraw_expire_amount")
INFO_COLUMNS = (
    *("is_failed", *_AMOUNTS, *_USAGES, "output", "message"),
    *("log_count", "internal_transaction_count"),
)
"""The columns of a transaction that every info fills in, and only an info."""


def info_columns(info: ParsedInfo) -> Columns:
    """Return the columns of a transaction that come from its info."""
    it = info.answer
    return {
        "receipt_result": RESULT_NUMBERS.get(it.receipt.result),
        "is_failed": it.result == FAILED,
        **{name: _int64(getattr(it, name), name) for name in _AMOUNTS},
        **{name: _int64(getattr(it.receipt, name), name) for name in _USAGES},
        "output": from_hex(it.outputs[0], "contractResult") if it.outputs else b"",
        "message": from_hex(it.message, "resMessage"),
        "log_count": len(it.logs),
        "internal_transaction_count": len(it.internals),
    }


def info_extra(info: ParsedInfo) -> dict[str, Any]:
    """Return what an info says beyond its columns."""
    it = info.answer
    extra = others(info.given, InfoAnswer)
    if more := others(info.given.get("receipt", {}), ResourceReceipt):
        extra["receipt"] = more
    if it.receipt.result not in RESULT_NUMBERS:
        extra["receipt_result"] = it.receipt.result
    if len(it.outputs) > 1:
        extra["contractResult"] = it.outputs
    return extra


def log_rows(info: ParsedInfo) -> Iterator[Columns]:
    """Yield the rows of a transaction's logs, without their place in the chain."""
    given = info.given.get("log", [])
    for position, (log, members) in enumerate(zip(info.answer.logs, given, strict=True)):
        row = {
            "log_position": position,
            "address": _log_address(log.address),
            **_topics(log.topics),
            "data": from_hex(log.data, "data of a log"),
            "extra": json_text(others(members, LogAnswer)),
        }
        yield {**row, **log_columns(row)}


def log_columns(row: Mapping[str, Any]) -> Columns:
    """Return the columns of a log that follow from its address, topics and data."""
    topics = [row[f"topic{at}"] for at in range(_TOPICS)]
    given = [each for each in topics if each is not None]
    return {
        "address_base58": base58_of(row["address"]),
        **{f"topic{at}": topic for at, topic in enumerate(given)},
        **transfer_columns(given, row["data"]),
    }


def internal_rows(info: ParsedInfo) -> Iterator[Columns]:
    """Yield the rows of a transaction's internal calls, without their place in the chain."""
    given = info.given.get("internal_transactions", [])
    for position, (it, members) in enumerate(zip(info.answer.internals, given, strict=True)):
        own = from_hex(it.hash, "hash of an internal transaction")
        extra = others(members, InternalAnswer) | ({"extra": it.extra} if it.extra else {})
        yield {
            "internal_position": position,
            "hash": own if len(own) == _HASH else None,
            **_address("caller", it.caller_address),
            **_address("to", it.to_address),
            **_values(it, members),
            "note": from_hex(it.note, "note"),
            "is_rejected": it.rejected,
            "extra": json_text(extra),
        }


def json_text(value: Mapping[str, Any] | Sequence[Any]) -> str | None:
    """Return a value as JSON; None if it is empty."""
    return msgspec.json.encode(value, order="sorted").decode() if value else None


def _values(it: InternalAnswer, members: Members) -> Columns:
    """Separate the TRX that was sent, which has no asset, from TRC-10 tokens."""
    coins = [each.value for each in it.values if not each.asset]
    given = members.get("callValueInfo", [])
    assets = [each for each in given if len(coins) > 1 or each.get("tokenId")]
    value = _int64(coins[0], "callValue") if len(coins) == 1 else None
    return {"call_value": value, "asset_values": json_text(assets)}


def _address(name: str, text: str) -> Columns:
    found = from_hex(text, f"{name} address of an internal transaction")
    return address_columns(name, without_version(found))


def _log_address(text: str) -> bytes:
    found = from_hex(text, "address of a log")
    found = without_version(found) or found
    if len(found) != LENGTH:
        raise BadAnswer(f"the address of a log has {len(found)} bytes, not {LENGTH}")
    return found


def _topics(texts: Sequence[str]) -> Columns:
    topics = [from_hex(each, "topic of a log") for each in texts]
    if len(topics) > _TOPICS or any(len(each) != _HASH for each in topics):
        raise BadAnswer("a log has more than four topics, or one that is not 32 bytes long")
    return {f"topic{at}": topics[at] if at < len(topics) else None for at in range(_TOPICS)}


def _int64(value: int, name: str) -> int:
    """Return a number as its two's complement."""
    if not -_LIMIT <= value < _LIMIT:
        raise BadAnswer(f"`{name}` is {value}, which has more than 64 bits")
    return value % (2 * _LIMIT)
