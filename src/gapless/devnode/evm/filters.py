"""Which logs an `eth_getLogs` filter selects: by address, and by topic at each position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from gapless.devnode.limits import CallRefused


class _Keys(Struct, gc=False):
    address: str
    topics: list[str]


class _Receipt(Struct, gc=False):
    logs: list[Raw]


_receipts = msgspec.json.Decoder(list[_Receipt]).decode
_keys = msgspec.json.Decoder(_Keys).decode


def matching(receipts: bytes, wanted: dict[str, Any]) -> list[bytes]:
    """The logs in some receipts that a filter selects, each as JSON."""
    logs = [bytes(log) for receipt in _receipts(receipts) for log in receipt.logs]
    addresses, topics = _addresses(wanted), _topics(wanted)
    if addresses is None and not topics:
        return logs
    return [log for log in logs if _fits(_keys(log), addresses, topics)]


def _fits(
    log: _Keys, addresses: frozenset[str] | None, topics: Sequence[frozenset[str] | None]
) -> bool:
    if addresses is not None and log.address.lower() not in addresses:
        return False
    if len(topics) > len(log.topics):
        return False
    return all(
        any_of is None or topic.lower() in any_of
        for any_of, topic in zip(topics, log.topics, strict=False)
    )


def _addresses(wanted: dict[str, Any]) -> frozenset[str] | None:
    given = wanted.get("address")
    return None if given is None or given == [] else _any_of(given)


def _topics(wanted: dict[str, Any]) -> list[frozenset[str] | None]:
    given = wanted.get("topics") or []
    return [None if each is None or each == [] else _any_of(each) for each in given]


def _any_of(given: Any) -> frozenset[str]:
    listed: list[Any] = given if isinstance(given, list) else [given]
    if not all(isinstance(each, str) for each in listed):
        raise CallRefused(-32602, "invalid argument 0: an address or topic is not text")
    return frozenset(each.lower() for each in listed)
