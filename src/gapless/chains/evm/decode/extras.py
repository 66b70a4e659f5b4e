"""The JSON text of the column `extra`, which holds what no other column does, and of JSON columns.

Three things are stored in `extra`: undeclared keys (found by `lossless.py`), declared fields that
are too rare for a column, and values that contradict what the row implies, such as the chain id
that Polygon's nodes compute for state-sync transactions. The keys of a receipt are nested under
`receipt`, because a transaction and its receipt may use the same key for different things.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec
from msgspec import Raw

from gapless.chains.evm.decode.arrays import BadField, Fields
from gapless.chains.evm.decode.columns import BadValue
from gapless.chains.evm.decode.form import TEXT
from gapless.chains.evm.decode.frame import Frame
from gapless.chains.evm.decode.lists import list_text
from gapless.chains.evm.decode.structs import (
    ABSENT,
    EXTRA_KEY,
    UNREADABLE,
    Receipt,
    is_given,
    was_sent,
)
from gapless.schema import Table

Texts = list[str | None]
Stray = tuple[int, str, Any]  # row, key, value

_EMPTY = Raw(b"[]")
_LEGACY, _PROTECTED = 27, 35  # the smallest `v` without and with a chain id (EIP-155)

_objects = msgspec.json.Decoder(dict[str, Raw])

_RARE = (
    "l1_fee_scalar",
    "l1_base_fee_scalar",
    "l1_blob_base_fee",
    "l1_blob_base_fee_scalar",
    "operator_fee_scalar",
    "operator_fee_constant",
    "da_footprint_gas_scalar",
    "timeboosted",
)
_KEYS = dict(zip(Receipt.__struct_fields__, Receipt.__struct_encode_fields__, strict=True))


def extra_texts(frame: Frame, table: Table, extras: Sequence[Raw]) -> Texts:
    """Return the `extra` of each row of a table where it holds only undeclared keys."""
    try:
        return _texts(len(extras), _gathered(_undeclared(extras)))
    except BadField as error:
        raise frame.refusal(table.name, error) from error


def transaction_extra_texts(rows: Fields, receipts: Fields, chain_id: int) -> Texts:
    """Return the `extra` of each transaction, including that of its receipt."""
    found = _gathered(
        _undeclared(rows["extra"]),
        _stray_chains(rows["chain_id"], chain_id),
        _stray_parities(rows["v"], rows["y_parity"]),
    )
    for row, keys in _gathered(_undeclared(receipts["extra"]), _rare(receipts)).items():
        found.setdefault(row, {})["receipt"] = keys
    return _texts(len(rows["extra"]), found)


def list_texts(values: Sequence[list[str] | None]) -> Texts:
    return [None if each is None else msgspec.json.encode(each).decode() for each in values]


def raw_texts(rows: Fields, name: str) -> Texts:
    """Normalize lists, so that the text does not depend on the node's spaces and key order."""
    values: Sequence[Raw] = rows[name]
    if values.count(ABSENT) == len(values):
        return [None] * len(values)
    texts: Texts = []
    for row, raw in enumerate(values):
        try:
            texts.append(None if raw is ABSENT else "[]" if raw == _EMPTY else list_text(raw, name))
        except (ValueError, *UNREADABLE) as error:
            raise BadField(name, row, BadValue(row, bytes(raw), f"such a list: {error}")) from error
    return texts


def _undeclared(extras: Sequence[Raw | None]) -> Iterator[Stray]:
    if extras.count(ABSENT) == len(extras):
        return
    for row, raw in enumerate(extras):
        if raw is None:
            continue
        if was_sent(raw):
            raise BadField("extra", row, BadValue(row, EXTRA_KEY, "a key that a node may send"))
        if is_given(raw):
            yield from ((row, key, value) for key, value in _objects.decode(raw).items())


def _stray_chains(chains: Sequence[str | None], chain_id: int) -> Iterator[Stray]:
    implied = {None, hex(chain_id)}
    if not implied.issuperset(chains):
        yield from (
            (row, "chainId", value) for row, value in enumerate(chains) if value not in implied
        )


def _stray_parities(vs: Sequence[str | None], parities: Sequence[str | None]) -> Iterator[Stray]:
    stray = {pair for pair in {*zip(vs, parities, strict=True)} if _contradict(*pair)}
    if stray:
        for row, pair in enumerate(zip(vs, parities, strict=True)):
            if pair in stray:
                yield row, "yParity", pair[1]


def _contradict(v: str | None, parity: str | None) -> bool:
    """Whether a parity, which is in its usual notation, does not follow from `v`."""
    if v is None or parity is None:
        return False
    try:
        number = int(v, 16)
    except ValueError:
        return False  # decoding the column will raise an error
    return parity not in (hex(number), _parity(number))


def _parity(v: int) -> str | None:
    """Return the parity of a legacy `v`, which is 27 + parity or 35 + 2 * chain id + parity."""
    if v < _LEGACY:
        return None
    return hex((v - _LEGACY) % 2 if v < _PROTECTED else (v - _PROTECTED) % 2)


def _rare(receipts: Fields) -> Iterator[Stray]:
    for name in _RARE:
        values = receipts[name]
        if values.count(None) < len(values):
            key = _KEYS[name]
            for row, value in enumerate(values):
                if value is not None:
                    _check_text(name, row, value)
                    yield row, key, value


def _check_text(name: str, row: int, value: str | bool) -> None:
    try:
        if isinstance(value, str):
            TEXT.check(value)
    except BadValue as error:
        raise BadField(name, row, error) from error


def _gathered(*strays: Iterable[Stray]) -> dict[int, dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {}
    for row, key, value in chain(*strays):
        found.setdefault(row, {})[key] = value
    return found


def _texts(count: int, found: Mapping[int, dict[str, Any]]) -> Texts:
    texts: Texts = [None] * count
    for row, keys in found.items():
        texts[row] = msgspec.json.encode(keys, order="sorted").decode()
    return texts
