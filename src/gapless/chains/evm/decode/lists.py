"""Access lists and authorization lists: nested JSON, stored as JSON text in one notation.

An item has the keys of its kind, each in its form, so that no text is stored that the roots would
not distinguish from the right one. Other keys of an item are kept as the node wrote them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from gapless.chains.evm.decode.documents import MOST_DEPTH, check_depth
from gapless.chains.evm.decode.form import ADDRESS, HASH, U64, U256, ValueForm
from gapless.chains.evm.decode.structs import is_given

_DEPTH_ABOVE = 3  # the block, its transactions, the transaction


class AccessEntry(Struct, gc=False, rename="camel"):
    """Storage that a transaction announces to use."""

    address: str
    storage_keys: list[str]


class _OnlyKnown(AccessEntry, gc=False, rename="camel", forbid_unknown_fields=True):
    """An entry without other keys."""


class Authorization(Struct, gc=False, rename="camel"):
    """A signature by which an account adopts the code of a contract."""

    chain_id: str
    address: str
    nonce: str
    r: str
    s: str
    y_parity: str | UnsetType = UNSET
    v: str | UnsetType = UNSET


_FORMS: dict[str, ValueForm] = {
    "address": ADDRESS,
    "storageKeys": HASH,
    "chainId": U256,
    "nonce": U64,
    "r": U256,
    "s": U256,
    "yParity": U64,
    "v": U64,
}
_DECODERS: Mapping[str, msgspec.json.Decoder[list[Any]]] = {
    "access_list": msgspec.json.Decoder(list[AccessEntry]),
    "authorization_list": msgspec.json.Decoder(list[Authorization]),
}
_KEYS = {
    "access_list": frozenset(AccessEntry.__struct_encode_fields__),
    "authorization_list": frozenset(Authorization.__struct_encode_fields__),
}
_usual = msgspec.json.Decoder(list[_OnlyKnown]).decode
_members = msgspec.json.Decoder(list[dict[str, Raw]]).decode

_WORDS = '"0x[0-9a-f]{64}"'
_ENTRY = rf'\{{"address":"0x[0-9a-f]{{40}}","storageKeys":\[(?:{_WORDS}(?:,{_WORDS})*)?\]\}}'
_has_usual_form = re.compile(rf"\[(?:{_ENTRY}(?:,{_ENTRY})*)?\]").fullmatch


def list_text(raw: Raw, name: str) -> str | None:
    """Return the text of a list to store; raise an error if it is malformed."""
    if not is_given(raw):
        return None
    if name == "access_list":
        try:
            text = msgspec.json.encode(_usual(raw), order="sorted").decode()
        except msgspec.ValidationError:
            text = ""  # another key, or a wrong type
        if _has_usual_form(text):
            return text
    return _normal_text(raw, name)


def _normal_text(raw: Raw, name: str) -> str:
    check_depth(raw, MOST_DEPTH - _DEPTH_ABOVE)
    for item in _DECODERS[name].decode(raw):  # this checks the types of repeated keys as well
        if isinstance(item, Authorization) and item.y_parity is UNSET and item.v is UNSET:
            raise ValueError("an authorization has neither `yParity` nor `v`")
    known = _KEYS[name]
    items = [
        {key: _normal(value, key) if key in known else value for key, value in members.items()}
        for members in _members(raw)
    ]
    return msgspec.json.encode(items, order="sorted").decode()


def _normal(raw: Raw, key: str) -> str | list[str]:
    value: str | list[str] = msgspec.json.decode(raw)
    form = _FORMS[key]
    for each in [value] if isinstance(value, str) else value:
        form.check(each)
    return value.lower() if isinstance(value, str) else [each.lower() for each in value]
