"""What the arguments of a JSON-RPC call mean: heights, tags, hashes, addresses."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from gapless.devnode.limits import FINALITY_DEPTH, CallRefused, FinalityTags
from gapless.devnode.view import View

INVALID = -32602
"""The code of a refusal because of an argument."""
_QUANTITY = re.compile(r"0x[0-9a-fA-F]{1,16}")
_HASH = re.compile(r"0x[0-9a-fA-F]{64}")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")


def argument(params: list[Any], at: int) -> Any:
    """The argument at a position, which must be there."""
    if at >= len(params):
        raise CallRefused(INVALID, f"missing value for required argument {at}")
    return params[at]


def flag(params: list[Any], at: int) -> bool:
    found = argument(params, at)
    if not isinstance(found, bool):
        raise CallRefused(INVALID, f"invalid argument {at}: not a boolean")
    return found


def hash_of(given: object) -> str:
    """A hash in lower case."""
    if not isinstance(given, str) or not _HASH.fullmatch(given):
        raise CallRefused(INVALID, "invalid argument 0: not a hash of 32 bytes")
    return given.lower()


def address_of(given: object) -> str:
    """An address in lower case."""
    if not isinstance(given, str) or not _ADDRESS.fullmatch(given):
        raise CallRefused(INVALID, "invalid argument 0: not an address of 20 bytes")
    return given.lower()


def height_of(view: View, which: object) -> int:
    """Resolves a height or a tag."""
    if isinstance(which, str) and which in _TAGS:
        return _TAGS[which](view)
    if isinstance(which, str) and _QUANTITY.fullmatch(which):
        return int(which, 16)
    raise CallRefused(INVALID, "invalid argument 0: hex string without 0x prefix")


def block_of(view: View, which: object) -> int | None:
    """Resolves a height, a tag or a hash, also within an object; None if no block has the hash."""
    if isinstance(which, dict):
        which = which.get("blockHash") or which.get("blockNumber")
    if isinstance(which, str) and _HASH.fullmatch(which):
        return view.height_of(which.lower())
    return height_of(view, which)


def _settled(view: View, depth: int | None) -> int:
    match view.limits.finality:
        case FinalityTags.ERROR:
            raise CallRefused(-39001, "Unknown block")
        case FinalityTags.NULL:
            return view.head + 1
        case FinalityTags.ZERO:
            return 0
    return view.settled(FINALITY_DEPTH if depth is None else depth)


_TAGS: dict[str, Callable[[View], int]] = {
    "earliest": lambda view: view.limits.pruned_below,
    "finalized": lambda view: _settled(view, view.limits.finality_depth),
    "latest": lambda view: view.head,
    "pending": lambda view: view.head,
    "safe": lambda view: _settled(view, view.limits.safe_depth),
}
