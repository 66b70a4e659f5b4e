"""Blocks whose hash is known from elsewhere: from a person, an explorer, a finalized checkpoint."""

from __future__ import annotations

from typing import NamedTuple


class Anchor(NamedTuple):
    """The hash that the block at a height must have."""

    height: int
    hash: bytes
