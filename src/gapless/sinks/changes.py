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

from collections.abc import Mapping
from dataclasses import dataclass, field

from gapless.core.ranges import Span

CHANGES_LIMIT = 1000
"""How many changes one call of `Sink.changes` returns at most."""


@dataclass(frozen=True)
class Change:
    """A range of blocks that a transaction stored, replaced or retracted."""

    position: int  # 1, 2, 3, … in the order of the commits, for each chain
    chain_id: int
    span: Span
    fence: int
    retracted: bool  # whether the blocks were removed and not replaced
    # Hashes of blocks that are not final, by height; nothing is known of final ones.
    old: Mapping[int, bytes] = field(default_factory=dict)  # removed, or replaced by another block
    new: Mapping[int, bytes] = field(default_factory=dict)  # stored
