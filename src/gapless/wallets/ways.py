"""How movements are looked for where no stored table has them, and where a scan has looked.

A way is what is requested. A source is what was done for a range of blocks: stored tables need no
request, and whether accounts of the past are known is up to the nodes.
"""

from __future__ import annotations

from enum import StrEnum


class Way(StrEnum):
    """How to look. The later one finds all that the earlier one finds."""

    EVENTS = "events"  # of the addresses; and coins, where accounts of the past are known
    SCAN = "scan"  # in every block
    TRACES = "traces"  # in every block, and within its transactions

    @property
    def reads_all(self) -> bool:
        """Whether every block is read."""
        return self is not Way.EVENTS

    def includes(self, other: Way) -> bool:
        return _ORDER.index(self) >= _ORDER.index(other)


_ORDER = [*Way]


class Evidence(StrEnum):
    """Where a scan has looked."""

    EVENTS = "events"  # in events of the addresses, and in the blocks that have some
    ACCOUNTS = "accounts"  # and in the blocks that changed the coins of an account
    TABLES = "tables"  # in stored tables
    BLOCKS = "blocks"  # in every block
    TRACES = "traces"  # in every block, and within its transactions


def knows_coins(source: str) -> bool:
    """Whether coins were looked for in every block."""
    return source != Evidence.EVENTS


def suffices(source: str, way: Way) -> bool:
    """Whether what was searched there need not be searched again in a way."""
    if way is Way.TRACES:
        return source == Evidence.TRACES
    return way is Way.EVENTS or knows_coins(source)


def strength(source: str) -> int:
    """The order in which sources find more."""
    return _SOURCES.index(source) if source in _SOURCES else -1


_SOURCES = [*map(str, Evidence)]
