"""Range algebra over integers, on which all checks of completeness are based.

A `Span` is inclusive at both ends. A `RangeSet` is a sorted tuple of spans that neither overlap
nor touch, so that two sets with the same members are equal, and a gap is a difference.

    >>> RangeSet.of((1, 3), (4, 6), (9, 9))
    RangeSet(1-6, 9)
    >>> RangeSet.of((1, 9)) - RangeSet.of((4, 5))
    RangeSet(1-3, 6-9)
    >>> RangeSet.of((10, 12), (20, 22)).slice(2, 4)
    RangeSet(12, 20-21)
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from decimal import Decimal
from itertools import accumulate
from typing import NamedTuple

from gapless.core.errors import BadSelector

HIGHEST = 2**53 - 1
"""The highest position or height: JSON and every client can represent it exactly."""


class Span(NamedTuple):
    """Consecutive integers, `first` and `last` included."""

    first: int
    last: int

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"

    @property
    def size(self) -> int:
        return self.last - self.first + 1

    def overlap(self, other: Span) -> Span | None:
        """What two spans have in common."""
        first, last = max(self.first, other.first), min(self.last, other.last)
        return Span(first, last) if first <= last else None

    def windows(self, size: int) -> Iterator[Span]:
        """The span in pieces, split before the multiples of the size."""
        first = self.first
        while first <= self.last:
            last = min(first - first % size + size - 1, self.last)
            yield Span(first, last)
            first = last + 1


class RangeSet:
    """An immutable set of integers, held as disjoint spans in ascending order."""

    __slots__ = ("_starts", "spans")

    def __init__(self, spans: Iterable[tuple[int, int]] = ()) -> None:
        merged: list[Span] = []
        for first, last in sorted(spans):
            if first > last:
                raise ValueError(f"inverted span {first}-{last}")
            if merged and first <= merged[-1].last + 1:
                merged[-1] = Span(merged[-1].first, max(merged[-1].last, last))
            else:
                merged.append(Span(first, last))
        self.spans: tuple[Span, ...] = tuple(merged)
        # The position of each span's first member, followed by the total.
        self._starts: tuple[int, ...] = tuple(accumulate((span.size for span in merged), initial=0))

    @classmethod
    def of(cls, *spans: tuple[int, int]) -> RangeSet:
        return cls(spans)

    @classmethod
    def from_members(cls, members: Iterable[int]) -> RangeSet:
        return cls((member, member) for member in members)

    def __len__(self) -> int:
        return self._starts[-1]

    def __bool__(self) -> bool:
        return bool(self.spans)

    def __iter__(self) -> Iterator[int]:
        for first, last in self.spans:
            yield from range(first, last + 1)

    def __contains__(self, member: int) -> bool:
        at = bisect_right(self.spans, (member, _INFINITY)) - 1
        return at >= 0 and member <= self.spans[at].last

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RangeSet) and self.spans == other.spans

    def __hash__(self) -> int:
        return hash(self.spans)

    def __repr__(self) -> str:
        return f"RangeSet({', '.join(map(str, self.spans))})"

    def __or__(self, other: RangeSet) -> RangeSet:
        return RangeSet((*self.spans, *other.spans))

    def __sub__(self, other: RangeSet) -> RangeSet:
        kept: list[tuple[int, int]] = []
        holes = iter(other.spans)
        hole = next(holes, None)
        for first, last in self.spans:
            at = first
            while hole is not None and hole.first <= last:
                if hole.first > at:
                    kept.append((at, hole.first - 1))
                at = max(at, hole.last + 1)
                if hole.last > last:
                    break
                hole = next(holes, None)
            if at <= last:
                kept.append((at, last))
        return RangeSet(kept)

    def __and__(self, other: RangeSet) -> RangeSet:
        return self - (self - other)

    def overlaps(self, span: Span) -> bool:
        """Whether any member is in the span."""
        at = bisect_right(self.spans, (span.last, _INFINITY)) - 1
        return at >= 0 and span.first <= self.spans[at].last

    def at(self, position: int) -> int:
        """The member at a position, counted from 0 in ascending order."""
        if not 0 <= position < len(self):
            raise IndexError(position)
        span = bisect_right(self._starts, position) - 1
        return self.spans[span].first + position - self._starts[span]

    def position(self, member: int) -> int:
        """The position of a member; the inverse of `at`."""
        span = bisect_right(self.spans, (member, _INFINITY)) - 1
        if span < 0 or member > self.spans[span].last:
            raise ValueError(f"{member} is not in {self!r}")
        return self._starts[span] + member - self.spans[span].first

    def slice(self, first: int, last: int) -> RangeSet:
        """The members at the positions `first` to `last`, both included."""
        picked: list[tuple[int, int]] = []
        for nth in range(max(bisect_right(self._starts, first) - 1, 0), len(self.spans)):
            start, span = self._starts[nth], self.spans[nth]
            low, high = max(first - start, 0), min(last - start, span.size - 1)
            if low > high:
                break
            picked.append((span.first + low, span.first + high))
        return RangeSet(picked)


_INFINITY = float("inf")
_NUMBER = re.compile(r"((?:\d{1,3}(?:,\d{3})+|\d[\d_]*)(?:\.\d+)?)\s*([kKmMbB]?)")
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9}


def parse_number(text: str) -> int:
    """A count or height as people write it: `18000000`, `18,000,000`, `18M`, `18.005M`.

    A comma separates thousands and nothing else: `0,10` is not a number.
    """
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        raise BadSelector(
            f"`{text}` is not a number", hint="write `18000000`, `18_000_000`, `18M` or `18.005M`"
        )
    digits, unit = match.groups()
    value = Decimal(digits.replace("_", "").replace(",", "")) * _UNITS[unit.lower()]
    if value != int(value):
        raise BadSelector(f"`{text}` is not a whole number")
    return int(value)
