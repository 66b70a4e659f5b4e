"""The changes of a sink, in the tables of its database. The same SQL for every database.

    _gapless_feeds            the latest position of each chain that was ever read
    _gapless_changes          the changes that some reader has not acknowledged
    _gapless_change_readers   the readers of each chain, and what they have acknowledged

Raising the latest position is the last thing that a transaction does before its commit, and locks
the row until then. So positions are in the order of the commits, and a transaction that is rolled
back leaves no hole.

Readers come and go while nothing is written, so a transaction either sees a new reader, or was
committed before the reader looks at the rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from gapless.core.errors import SinkUnusable
from gapless.core.ranges import RangeSet, Span
from gapless.sinks import requests
from gapless.sinks.changes import Change, ChangeReader, from_row, refuse_lost, to_row

FEEDS, CHANGES, READERS = "_gapless_feeds", "_gapless_changes", "_gapless_change_readers"
TABLES = (FEEDS, CHANGES, READERS)
PLACES = {name: name for name in (*TABLES, requests.TABLE)}
"""The tables that statements name, in a database without schemas."""

_CREATE = (
    """
CREATE TABLE IF NOT EXISTS {_gapless_feeds} (
  chain_id {number} NOT NULL,
  position {number} NOT NULL{key_of_feeds}
)
""",
    """
CREATE TABLE IF NOT EXISTS {_gapless_changes} (
  chain_id {number} NOT NULL,
  position {number} NOT NULL,
  first {number} NOT NULL,
  last {number} NOT NULL,
  fence {number} NOT NULL,
  retracted {number} NOT NULL,  -- 0 or 1
  old_hashes TEXT NOT NULL,     -- of blocks that are not final, as height:hash
  new_hashes TEXT NOT NULL{key_of_changes}
)
""",
    """
CREATE TABLE IF NOT EXISTS {_gapless_change_readers} (
  chain_id {number} NOT NULL,
  name TEXT NOT NULL,
  position {number} NOT NULL{key_of_readers}
)
""",
)
_KEYS = {
    "key_of_feeds": ",\n  PRIMARY KEY (chain_id)",
    "key_of_changes": ",\n  PRIMARY KEY (chain_id, position)",
    "key_of_readers": ",\n  PRIMARY KEY (chain_id, name)",
}

IS_READ = "SELECT count(*) FROM {_gapless_change_readers} WHERE chain_id = $1"
_FINAL = "SELECT max(last) FROM {_gapless_requests} WHERE chain_id = $1"
_LATEST = "SELECT position FROM {_gapless_feeds} WHERE chain_id = $1"
_BEGIN = "INSERT INTO {_gapless_feeds} VALUES ($1, 0)"
_NEXT = "UPDATE {_gapless_feeds} SET position = position + 1 WHERE chain_id = $1 RETURNING position"
_APPEND = "INSERT INTO {_gapless_changes} VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"
_AFTER = """
SELECT * FROM {_gapless_changes} WHERE chain_id = $1 AND position > $2 ORDER BY position LIMIT $3
"""
_SPANS = "SELECT first, last FROM {_gapless_changes} WHERE chain_id = $1"
_READERS = """
SELECT name, position FROM {_gapless_change_readers} WHERE chain_id = $1 ORDER BY name
"""
_ADD = "INSERT INTO {_gapless_change_readers} VALUES ($1, $2, $3)"
_REMOVE = "DELETE FROM {_gapless_change_readers} WHERE chain_id = $1 AND name = $2"
_ACKNOWLEDGE = """
UPDATE {_gapless_change_readers} SET position = $3
WHERE chain_id = $1 AND name = $2 AND position < $3
"""
_PRUNE = """
DELETE FROM {_gapless_changes} WHERE chain_id = $1 AND position <= coalesce(
  (SELECT min(position) FROM {_gapless_change_readers} WHERE chain_id = $1),
  (SELECT position FROM {_gapless_feeds} WHERE chain_id = $1))
"""


class FeedTransaction(Protocol):
    """The operations that a feed needs from the sink's current transaction."""

    async def execute(self, statement: str, *values: object) -> Sequence[Sequence[Any]]:
        """Run a statement and return its rows.

        It has `$1` in place of its first value, and `{name}` in place of a table.
        """


def create(places: Mapping[str, str], number: str, *, keyed: bool = True) -> tuple[str, ...]:
    """Return statements that create the tables, with the database's type for numbers."""
    keys = _KEYS if keyed else dict.fromkeys(_KEYS, "")
    return tuple(each.format_map({**places, **keys, "number": number}) for each in _CREATE)


async def final(tx: FeedTransaction, chain_id: int) -> int:
    """Return the highest block that is final, as far as the sink knows; see `final_height`."""
    ((highest,),) = await tx.execute(_FINAL, chain_id)
    return -1 if highest is None else int(highest)


async def append(tx: FeedTransaction, change: Change) -> None:
    """Append a change at the next position; of its hashes, keep those of blocks not yet final."""
    kept = change.above(await final(tx, change.chain_id))
    ((position,),) = await tx.execute(_NEXT, change.chain_id)
    await tx.execute(_APPEND, *to_row(replace(kept, position=position)))


async def changes(tx: FeedTransaction, chain_id: int, after: int, limit: int) -> list[Change]:
    """Return the changes after a position; see `Sink.changes`."""
    found = [from_row(row) for row in await tx.execute(_AFTER, chain_id, after, limit)]
    refuse_lost(found, after, await _latest(tx, chain_id) or 0)
    return found


async def unread(tx: FeedTransaction, chain_id: int) -> RangeSet:
    """Return the heights of the changes that some reader has not acknowledged."""
    return RangeSet(Span(*row) for row in await tx.execute(_SPANS, chain_id))


async def readers(tx: FeedTransaction, chain_id: int) -> dict[str, ChangeReader]:
    """Return the readers; see `Sink.change_readers`."""
    latest = await _latest(tx, chain_id) or 0
    found = await tx.execute(_READERS, chain_id)
    return {name: ChangeReader(position, latest - position) for name, position in found}


async def add_reader(tx: FeedTransaction, chain_id: int, name: str) -> int:
    """Register a reader; see `Sink.add_change_reader`. Requires that nothing is written."""
    known = await readers(tx, chain_id)
    if name in known:
        return known[name].position
    position = await _latest(tx, chain_id)
    if position is None:
        await tx.execute(_BEGIN, chain_id)
    if not known:  # nothing was recorded until now: no earlier position is the latest one
        ((position,),) = await tx.execute(_NEXT, chain_id)
    await tx.execute(_ADD, chain_id, name, position)
    assert position is not None
    return position


async def remove_reader(tx: FeedTransaction, chain_id: int, name: str) -> None:
    """Remove a reader; see `Sink.remove_change_reader`. Requires that nothing is written."""
    await tx.execute(_REMOVE, chain_id, name)
    await tx.execute(_PRUNE, chain_id)


async def acknowledge(tx: FeedTransaction, chain_id: int, name: str, through: int) -> None:
    """Record what a reader has read; see `Sink.acknowledge_changes`."""
    if name not in await readers(tx, chain_id):
        raise SinkUnusable(
            f"`{name}` is not registered as a reader of changes of chain {chain_id}",
            hint="register it, then compare what it has published with the rows",
        )
    latest = await _latest(tx, chain_id)
    if latest is None or through > latest:
        raise ValueError(f"no change has position {through}: the latest one is {latest}")
    await tx.execute(_ACKNOWLEDGE, chain_id, name, through)
    await tx.execute(_PRUNE, chain_id)


async def _latest(tx: FeedTransaction, chain_id: int) -> int | None:
    found = await tx.execute(_LATEST, chain_id)
    return found[0][0] if found else None
