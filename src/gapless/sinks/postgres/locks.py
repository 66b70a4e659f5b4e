"""Advisory locks that decide who may write at the same time. They end with the transaction.

    the whole sink     shared by writers; exclusive to create tables or to write a long range
    cells of heights   exclusive: every cell of the range and its neighbours, ascending
    companions         exclusive: the companions' tables of a chain

So writers of distant ranges run concurrently, and writers of overlapping or touching ranges never
interleave. All locks are taken in this order, so there are no deadlocks. A key is a hash of what is
locked; if two hashes collide, a writer waits needlessly.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256

from gapless.core.ranges import Span

CELL = 256
MOST_CELLS = 64
"""A range with more cells than this locks the whole sink."""


def to_write(sink_id: str, chain_id: int, span: Span) -> str:
    """Return SQL that locks the blocks of the span and those next to it."""
    cells = range((span.first - 1) // CELL, (span.last + 1) // CELL + 1)
    if len(cells) > MOST_CELLS:
        return to_change(sink_id)
    return "; ".join(_narrow(sink_id, chain_id, cells))


def to_change(sink_id: str) -> str:
    """Return SQL that locks the whole sink."""
    return f"SELECT pg_advisory_xact_lock({_key(sink_id)})"


def to_create(schema: str) -> str:
    """Return SQL that locks the creation of a sink in the schema."""
    return f"SELECT pg_advisory_xact_lock({_key('found', schema)})"


def to_accompany(sink_id: str, chain_id: int) -> str:
    """Return SQL that locks the companions' tables of a chain, after any of the locks above."""
    return f"SELECT pg_advisory_xact_lock({_key(sink_id, chain_id, 'companions')})"


def to_request(sink_id: str) -> str:
    """Return SQL that locks the requests."""
    return f"SELECT pg_advisory_xact_lock({_key(sink_id, 'requests')})"


def to_acknowledge(sink_id: str) -> str:
    """Return SQL that locks the acknowledgements of changes, which writers do not wait for."""
    return f"SELECT pg_advisory_xact_lock({_key(sink_id, 'acknowledgements')})"


def to_index(sink_id: str) -> str:
    """Return SQL that locks the building of indexes."""
    return f"SELECT pg_advisory_xact_lock({_key(sink_id, 'indexes')})"


def _narrow(sink_id: str, chain_id: int, cells: range) -> Iterator[str]:
    yield f"SELECT pg_advisory_xact_lock_shared({_key(sink_id)})"
    for cell in cells:
        yield f"SELECT pg_advisory_xact_lock({_key(sink_id, chain_id, cell)})"


def _key(*parts: object) -> int:
    digest = sha256("/".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
