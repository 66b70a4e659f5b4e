"""Who may write what at the same time: advisory locks that end with the transaction.

    the whole sink     shared by everyone who writes; alone, whoever makes tables or goes far
    cells of heights   alone, each that the range or its neighbours lie in, ascending

So writers of far ranges work at the same time, and no two that overlap or touch ever interleave.
All take their locks in this order, hence nobody waits in a circle. A key is a hash of what it
stands for: where two are the same by chance, someone waits for nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256

from gapless.core.ranges import Span

CELL = 256
MOST_CELLS = 64
"""A range over more cells than these takes the whole sink."""


def to_write(sink_id: str, chain_id: int, span: Span) -> str:
    """SQL that waits for all who write blocks of the span, or next to it."""
    cells = range((span.first - 1) // CELL, (span.last + 1) // CELL + 1)
    if len(cells) > MOST_CELLS:
        return to_change(sink_id)
    return "; ".join(_narrow(sink_id, chain_id, cells))


def to_change(sink_id: str) -> str:
    """SQL that waits for all who write anything."""
    return f"SELECT pg_advisory_xact_lock({_key(sink_id)})"


def to_create(schema: str) -> str:
    """SQL that waits for whoever makes a sink of the schema."""
    return f"SELECT pg_advisory_xact_lock({_key('found', schema)})"


def to_request(sink_id: str) -> str:
    """SQL that waits for whoever changes requests."""
    return f"SELECT pg_advisory_xact_lock({_key(sink_id, 'requests')})"


def to_index(sink_id: str) -> str:
    """SQL that waits for whoever builds an index."""
    return f"SELECT pg_advisory_xact_lock({_key(sink_id, 'indexes')})"


def _narrow(sink_id: str, chain_id: int, cells: range) -> Iterator[str]:
    yield f"SELECT pg_advisory_xact_lock_shared({_key(sink_id)})"
    for cell in cells:
        yield f"SELECT pg_advisory_xact_lock({_key(sink_id, chain_id, cell)})"


def _key(*parts: object) -> int:
    digest = sha256("/".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
