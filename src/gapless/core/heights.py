"""Ranges of heights as people write them, and what they mean on a chain with a head.

    18M:18.005M       from 18,000,000 to 18,005,000, both included
    18000000:+5000    5,000 blocks
    18M:latest        to the head; `18M:finalized`, or `18M:`, to the last block that is final
    :latest           from the first block
    18M               one block

A tag is pinned once, when the backfill is created. What is not final may still change, so an end
beyond that is clipped, and the person is told.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gapless.core.errors import BadSelector
from gapless.core.ranges import Span, parse_number

HIGHEST = 2**63 - 1
"""No height is above it: databases count no further."""
_GRAMMAR = "write `18M:18.005M`, `18000000:+5000`, `18M:latest` or `:finalized`"


class Tag(StrEnum):
    LATEST = "latest"
    FINALIZED = "finalized"


@dataclass(frozen=True)
class Heights:
    """From a height to another, or to a tag."""

    first: int
    last: int | Tag

    @classmethod
    def parse(cls, text: str) -> Heights:
        start, colon, end = (part.strip() for part in text.partition(":"))
        if not (start or end) or start in set(Tag):
            raise BadSelector(f"`{text}` is no range of blocks", hint=_GRAMMAR)
        first = _height(start) if start else 0
        if not colon:
            return cls(first, first)
        if end in set(Tag) or not end:
            return cls(first, Tag(end or Tag.FINALIZED))
        if end.startswith("+"):
            count = parse_number(end[1:])
            if count < 1:
                raise BadSelector(f"`{text}` selects no block", hint="`+N` counts from 1")
            return cls(first, _height(str(first + count - 1)))
        last = _height(end)
        if last < first:
            raise BadSelector(
                f"`{text}` ends before it begins", hint=f"write `{last}:{first}`, or `{first}:+N`"
            )
        return cls(first, last)


def _height(text: str) -> int:
    height = parse_number(text)
    if height > HIGHEST:
        raise BadSelector(f"`{text}` is above any block", hint=f"heights end at {HIGHEST:,}")
    return height


@dataclass(frozen=True)
class Tip:
    """Where a chain stands: its head, and the last block that will not change."""

    head: int
    final: int
    by_depth: bool  # the node has no tag for it: so many blocks below the head

    def pin(self, heights: Heights) -> Span:
        """The heights as numbers, clipped to what is final."""
        last = heights.last if isinstance(heights.last, int) else self.head
        if heights.first > self.final:
            raise BadSelector(
                f"block {heights.first:,} is not final: the last that is, is {self.final:,}",
                hint=f"the head is at {self.head:,}; ask for it later",
            )
        return Span(heights.first, min(last, self.final))
