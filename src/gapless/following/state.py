"""What a follow knows about its chain, as its cursor in the ledger stores it.

Heights below `next` are planned: those up to the final block as history, the others one by one. For
the blocks from the final one up to `next - 1`, the state has the hashes that they were planned
with, so that a change of the chain can be noticed and its depth be told.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from gapless.core.errors import Unreadable
from gapless.core.ranges import Span
from gapless.core.remedies import RemoveFollow
from gapless.ledger.cursor import Cursor


class Retraction(msgspec.Struct, frozen=True):
    """A branch that is being removed from the sink."""

    chunk_index: int
    first: int
    last: int

    @property
    def span(self) -> Span:
        return Span(self.first, self.last)


class FollowState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a follow knows about its chain."""

    start: int  # the lowest height to store
    next: int  # the lowest height that is not planned yet
    final: int = -1  # the highest height that is known to be final
    base: int = 0  # the height of the first hash
    hashes: tuple[str, ...] = ()  # of the blocks from `base` to `next - 1`, in hex
    retraction: Retraction | None = None  # while it lasts, nothing is planned
    alarm: str | None = None  # why the follow has stopped by itself

    @property
    def last(self) -> int:
        """The highest planned height."""
        return self.next - 1

    def hash(self, height: int) -> bytes | None:
        """The hash of a block that was planned above finality."""
        at = height - self.base
        return bytes.fromhex(self.hashes[at]) if 0 <= at < len(self.hashes) else None

    def known(self) -> range:
        """The heights whose hashes are known."""
        return range(self.base, self.base + len(self.hashes))

    def extended(self, hashes: Iterable[bytes], final: int) -> FollowState:
        """The state after planning the next blocks; forgets hashes below the final block."""
        grown = [*self.hashes, *(each.hex() for each in hashes)]
        return self._since(final, grown, self.base + len(grown))

    def restarted(self, base: int, hashes: Iterable[bytes], final: int) -> FollowState:
        """The state whose known hashes begin anew, at a height that is final."""
        known = [each.hex() for each in hashes]
        fresh = msgspec.structs.replace(self, base=base)
        return fresh._since(final, known, base + len(known))

    def cut(self, fork: int, retraction: Retraction | None) -> FollowState:
        """The state while the blocks above a fork are retracted."""
        kept = self.hashes[: fork + 1 - self.base]
        return msgspec.structs.replace(self, next=fork + 1, hashes=kept, retraction=retraction)

    def _since(self, final: int, known: list[str], upto: int) -> FollowState:
        base = max(self.base, min(final, upto - 1))
        return msgspec.structs.replace(
            self,
            next=upto,
            final=max(self.final, final),
            base=base,
            hashes=tuple(known[base - self.base :]),
        )


def follow_state(cursor: Cursor) -> FollowState:
    """The state that a cursor stores; raises `Unreadable` if it is damaged."""
    if cursor.unreadable is not None:
        raise Unreadable(
            cursor.unreadable,
            backfill_id=cursor.backfill_id,
            remedy=RemoveFollow(cursor.follow),
        )
    try:
        return msgspec.convert(cursor.state, FollowState)
    except msgspec.ValidationError as error:
        raise Unreadable(
            f"the state of the follow `{cursor.follow}` cannot be read: {error}",
            backfill_id=cursor.backfill_id,
            remedy=RemoveFollow(cursor.follow),
        ) from error
