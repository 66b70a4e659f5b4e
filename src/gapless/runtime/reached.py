"""The progress of a run: what is done, and what was left out.

A chunk is done up to `last`, except for its holes. While a run heals, it retries one hole: its
progress then fills the hole, and `last` does not change.
"""

from __future__ import annotations

from dataclasses import replace

from gapless.core.errors import BadSelector
from gapless.core.partitions import Partition
from gapless.core.ranges import RangeSet, Span
from gapless.core.selector import Selection
from gapless.ledger.records import Claim, Progress


class Reached:
    """The progress of one run, in positions of the selection."""

    def __init__(self, claim: Claim, selection: Selection) -> None:
        self._claim = claim
        self._selection = selection
        self._healing: Span | None = None
        self.last = claim.last_processed
        self.holes = claim.holes

    def position(self, partition: Partition) -> int:
        """The position of a partition of this chunk."""
        position = self._selection.position(partition)
        if not self._claim.span.first <= position <= self._claim.span.last:
            raise BadSelector(f"`{partition}` is not in chunk `{self._claim.chunk_id}`")
        return position

    @property
    def progress(self) -> Progress:
        return Progress(self.last, self.holes)

    @property
    def next(self) -> int:
        """The first position that is not done yet."""
        if self._healing is not None:
            undone = self.holes & RangeSet.of(self._healing)
            return undone.spans[0].first if undone else self._healing.last + 1
        return self._claim.span.first if self.last is None else self.last + 1

    def heal(self, hole: Span) -> None:
        """Starts to retry this hole."""
        self._healing = hole

    def after(self, position: int) -> Progress:
        """The progress once everything up to this position is done."""
        if self._healing is not None and self._healing.first <= position:
            healed = RangeSet.of((self._healing.first, position))
            return replace(self.progress, holes=self.holes - healed)
        reached = position if self.last is None else max(self.last, position)
        return replace(self.progress, last_processed=reached)

    def advance(self, position: int) -> None:
        after = self.after(position)
        self.last, self.holes = after.last_processed, after.holes

    def leave_out(self, span: Span) -> None:
        """Leaves these positions out; a hole that is being retried remains a hole."""
        if self._healing is None:
            self.advance(span.last)
            self.holes |= RangeSet.of(span)
