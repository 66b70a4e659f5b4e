"""How much is asked of a block: a level is a name for a set of checks, which each family defines.

    level      checks
    off        none
    links      whatever is cheap: height, parent link, counts, and other things that must agree
    receipts   links, the block's hash, and what proves its receipts
    auto       whatever the network commits to
    roots      auto, and every field that follows from proven ones by arithmetic
    senders    roots, and the sender of every transaction, recovered from its signature

A backfill stores the checks, not the level, so that it keeps its meaning when a level changes.
"""

from __future__ import annotations

from enum import StrEnum


class Level(StrEnum):
    """A set of checks that people ask for by name."""

    OFF = "off"
    LINKS = "links"
    RECEIPTS = "receipts"
    AUTO = "auto"
    ROOTS = "roots"
    SENDERS = "senders"
