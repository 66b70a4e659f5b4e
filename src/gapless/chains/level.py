"""How strictly to check a block: a level is a named set of checks, which each family defines.

    level      checks
    off        none
    links      cheap checks: height, parent link, counts, and other fields that must agree
    receipts   links, the block's hash, and the proof of its receipts
    auto       everything that the network commits to
    roots      auto, and every field that follows from proven ones by arithmetic
    senders    roots, and the sender of every transaction, recovered from its signature

A backfill stores the checks, not the level, so that later changes to a level do not affect it.
"""

from __future__ import annotations

from enum import StrEnum


class Level(StrEnum):
    """A named set of checks."""

    OFF = "off"
    LINKS = "links"
    RECEIPTS = "receipts"
    AUTO = "auto"
    ROOTS = "roots"
    SENDERS = "senders"
