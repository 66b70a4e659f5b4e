"""The changes of a sink, for those who pass its blocks on.

A publisher has to learn of every range that was stored, replaced or retracted, in the order in
which that happened. So a sink appends a change to `_gapless_changes` in the same transaction as the
rows: a change is there if and only if its rows are. Positions are given out at the end of the
transaction, to one transaction after the other. So no change ever appears below a position that a
reader has seen, and no position is skipped.

Only registered readers make a sink record changes, and only for the chains that they read. Each
reader acknowledges what it has passed on; what all have acknowledged is deleted. A reader that is
new, or has lost its place, starts with the rows:

    position = await sink.add_change_reader(chain_id, "events")   # from here on, changes are kept
    ...                                      # pass on what `sink.stored` lists
    changes = await sink.changes(chain_id, position)
    ...                                      # pass on, then
    await sink.acknowledge_changes(chain_id, "events", changes[-1].position)

Rows may be newer than the change that is being read: a later change tells of them too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gapless.core.errors import ChangesPruned
from gapless.core.ranges import Span

CHANGES_LIMIT = 1000
"""How many changes one call of `Sink.changes` returns at most."""


@dataclass(frozen=True)
class Change:
    """A range of blocks that a transaction stored, replaced or retracted."""

    position: int  # one more than that of the change of this chain that was committed before
    chain_id: int
    span: Span
    fence: int
    retracted: bool  # whether the blocks were removed and not replaced
    # Hashes of blocks that are not final, by height; nothing is known of final ones.
    old: Mapping[int, bytes] = field(default_factory=dict)  # removed, or replaced by another block
    new: Mapping[int, bytes] = field(default_factory=dict)  # stored

    def above(self, final: int) -> Change:
        """Return the change with only those hashes that are of blocks above the final one."""
        old, new = (
            {height: it for height, it in hashes.items() if height > final}
            for hashes in (self.old, self.new)
        )
        return replace(self, old=old, new=new)


@dataclass(frozen=True)
class ChangeReader:
    """How far a reader of changes is."""

    position: int  # the last change that it has acknowledged
    unread: int  # later changes, which the sink keeps for it


Row = tuple[int, int, int, int, int, int, str, str]


def to_row(change: Change) -> Row:
    """Return the change as a row of `_gapless_changes`."""
    hashes = _to_text(change.old), _to_text(change.new)
    return (
        change.chain_id,
        change.position,
        *change.span,
        change.fence,
        int(change.retracted),
        *hashes,
    )


def from_row(row: Sequence[Any]) -> Change:
    """Return the change of a row that `to_row` made."""
    chain_id, position, first, last, fence, retracted, old, new = row
    return Change(
        position,
        chain_id,
        Span(first, last),
        fence,
        bool(retracted),
        _from_text(old),
        _from_text(new),
    )


def _to_text(hashes: Mapping[int, bytes]) -> str:
    return " ".join(f"{height}:{hash_.hex()}" for height, hash_ in sorted(hashes.items()))


def _from_text(text: str) -> dict[int, bytes]:
    pairs = (each.split(":") for each in text.split())
    return {int(height): bytes.fromhex(hash_) for height, hash_ in pairs}


def refuse_lost(found: Sequence[Change], after: int, latest: int) -> None:
    """Raise `ChangesPruned` unless the changes that were found continue after a position.

    `latest` is the position of the last change that the sink has recorded.
    """
    if (found[0].position - 1 if found else latest) != after:
        raise ChangesPruned(
            f"the sink does not have all changes after position {after:,}",
            hint="compare what was published with the rows, and read on from the latest position",
        )
