"""Blocks whose hash is known from another source: a person, an explorer, a finalized checkpoint.

A block names its parent by hash, so a block that is linked up to an anchor belongs to the anchor's
chain, whichever node it came from.

    >>> Anchor.parse("20M:d24fd73f794058a3807db926d8898c6481e902b7edb91ce0d479d6760f276183").height
    20000000
"""

from __future__ import annotations

import re
from typing import NamedTuple

from gapless.core.errors import UsageError
from gapless.core.ranges import parse_number

_HASH = re.compile(r"(?:0x)?([0-9a-fA-F]{64})")


class Anchor(NamedTuple):
    """The hash that the block at a height must have."""

    height: int
    hash: bytes

    @classmethod
    def parse(cls, text: str) -> Anchor:
        height, _, hash_ = (part.strip() for part in text.partition(":"))
        found = _HASH.fullmatch(hash_)
        if found is None:
            raise UsageError(
                f"`{text}` does not name a block by height and hash",
                hint="write `HEIGHT:0x` and the 64 digits of the block's hash",
            )
        return cls(parse_number(height), bytes.fromhex(found[1]))

    def __str__(self) -> str:
        return f"{self.height}:0x{self.hash.hex()}"
