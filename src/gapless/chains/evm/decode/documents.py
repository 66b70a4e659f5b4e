"""What holds for the whole text of an answer, whatever its keys: it is UTF-8, and not too deep.

The parser validates the rest of the JSON. But it skips undeclared keys without decoding their
texts, and its own limit of depth depends on the stack of the caller, so both are checked here. An
answer of 650 KB takes less than 0.1 ms: the number of brackets shows that nothing is nested in an
undeclared key, and only otherwise is the depth computed.
"""

from __future__ import annotations

import re

import numpy as np
from msgspec import Raw
from numpy.typing import NDArray

MOST_DEPTH = 64  # lists and objects that are open at once

_KNOWN_DEPTH = 6  # from a block to the storage keys in an access list
_OTHERS = MOST_DEPTH - _KNOWN_DEPTH
_LAST_ASCII = 0x7F
_LOWER = np.uint8(0x20)  # the bit that distinguishes `{` from `[`
_OPEN = np.uint8(ord("{"))
_PIECE = 1 << 17
_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)


def check_document(raw: bytes | Raw, expected: int) -> None:
    """Raise `ValueError` if valid JSON is not UTF-8 or too deep.

    `expected` lists and objects are known, and only a few of them can be open at once.
    """
    text = np.frombuffer(raw, np.uint8)
    if text.max(initial=0) > _LAST_ASCII:
        bytes(raw).decode()
    if _opened(text) - expected > _OTHERS:
        check_depth(raw)


def _opened(text: NDArray[np.uint8]) -> int:
    """Count `[` and `{`, a piece at a time, so that the intermediate results stay in the cache."""
    count, lowered = 0, np.empty(_PIECE, np.uint8)
    opening = lowered.view(np.bool_)
    for start in range(0, len(text), _PIECE):
        piece = text[start : start + _PIECE]
        size = len(piece)
        np.bitwise_or(piece, _LOWER, out=lowered[:size])
        count += int(np.count_nonzero(np.equal(lowered[:size], _OPEN, out=opening[:size])))
    return count


def check_depth(raw: bytes | Raw, most: int = MOST_DEPTH) -> None:
    """Raise `ValueError` if valid JSON has more lists and objects open at once than allowed."""
    depth = 0
    for token in _TOKENS.finditer(raw):
        first = token[0]
        if first in (b"[", b"{"):
            depth += 1
            if depth > most:
                raise ValueError(f"more than {MOST_DEPTH} lists and objects are open at once")
        elif first in (b"]", b"}"):
            depth -= 1
