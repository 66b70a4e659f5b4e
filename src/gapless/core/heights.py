"""Ranges of heights as people write them, and what they mean on a chain with a head.

    18M:18.005M             from 18,000,000 to 18,005,000, both included
    18000000:+5000          5,000 blocks
    18M:latest              to the head; `18M:finalized`, or `18M:`, to the last block that is final
    :latest                 from the first block
    18M                     one block
    2024-01-01:2024-01-31   all blocks of January, by their times in UTC
    2024-01-01T12:00:00Z:   from the first block at or after noon

Both ends are included: a range that ends with a day includes that day until midnight. Dates and
tags are resolved once, when the backfill is created. Blocks that are not final may still change, so
a range that ends after the last final block is clipped there, and the person is told.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from gapless.core.errors import BadSelector
from gapless.core.ranges import Span, parse_number
from gapless.core.similar import did_you_mean

HIGHEST = 2**63 - 1
"""The highest height: the largest integer of the databases."""
_GRAMMAR = "write `18M:18.005M`, `18000000:+5000`, `18M:latest` or `2024-01-01:2024-01-31`"
_DAY = r"\d{4}-\d\d-\d\d"
_END = rf"{_DAY}(?:T\d\d:\d\d(?::\d\d)?Z?)?|[^:]*"
_RANGE = re.compile(rf"(?P<first>{_END}?)\s*(?:(?P<colon>:)\s*(?P<last>{_END}))?")
_SIMPLE = rf"{_DAY}|\d[\d_]*(?:,\d{{3}})*(?:\.\d+)?[kKmMbB]?"
_BETWEEN = r"\s*(?:\.\.+|[-,])\s*|\s+"
_WITHOUT_COLON = re.compile(rf"({_SIMPLE})(?:{_BETWEEN})({_SIMPLE}|latest|finalized)")


class Tag(StrEnum):
    LATEST = "latest"
    FINALIZED = "finalized"


@dataclass(frozen=True)
class Moment:
    """A day or a second in UTC, as seconds since 1970: `begins` is included, `ends` is not."""

    text: str
    begins: int
    ends: int

    @classmethod
    def parse(cls, text: str) -> Moment:
        is_day = "T" not in text
        if not is_day and not text.endswith("Z"):
            raise BadSelector(f"`{text}` has no time zone", hint=f"for UTC, write `{text}Z`")
        try:
            begins = datetime.fromisoformat(text.removesuffix("Z")).replace(tzinfo=UTC)
            ends = begins + (timedelta(days=1) if is_day else timedelta(seconds=1))
        except (ValueError, OverflowError):
            kind = "day" if is_day else "time"
            raise BadSelector(
                f"there is no {kind} `{text}`", hint="write `2024-01-31` or `2024-01-31T12:00:00Z`"
            ) from None
        return cls(text, int(begins.timestamp()), int(ends.timestamp()))

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Count:
    """A number of blocks after a first one whose height is not known yet."""

    blocks: int

    def __str__(self) -> str:
        return f"+{self.blocks}"


@dataclass(frozen=True)
class Heights:
    """From a height or a moment to another, or to a tag."""

    first: int | Moment
    last: int | Moment | Count | Tag

    @classmethod
    def parse(cls, text: str) -> Heights:
        found = _RANGE.fullmatch(text.strip())
        start, end = (found["first"], found["last"]) if found else ("", "")
        if not (start or end) or start in set(Tag):
            raise BadSelector(f"`{text}` is not a range of blocks", hint=_GRAMMAR)
        assert found is not None
        if found["colon"] is None:
            only = _end(start)
            return cls(only, only)
        first = _end(start) if start else 0
        if end in set(Tag) or not end:
            return cls(first, Tag(end or Tag.FINALIZED))
        if end.startswith("+"):
            count = parse_number(end[1:])
            if count < 1:
                raise BadSelector(f"`{text}` selects no block", hint="`+N` counts from 1")
            if isinstance(first, Moment):
                return cls(first, Count(count))
            return cls(first, _height(str(first + count - 1)))
        last = _end(end)
        if _is_before(last, first):
            raise BadSelector(
                f"`{text}` ends before it begins", hint=f"write `{last}:{first}`, or `{first}:+N`"
            )
        return cls(first, last)

    @property
    def is_dated(self) -> bool:
        """Whether it has dates whose heights are not known yet."""
        return isinstance(self.first, Moment) or isinstance(self.last, Moment)

    def __str__(self) -> str:
        return f"{self.first}:{self.last}"


def text_of(heights: str | range | tuple[int, int]) -> str:
    """A range as text; a pair includes both of its heights."""
    if isinstance(heights, str):
        return heights
    if not isinstance(heights, range):
        first, last = heights
        return f"{first}:{last}"
    if heights.step != 1 or not heights:
        raise BadSelector(
            f"`{heights}` is not a range of consecutive blocks", hint="write `range(100, 200)`"
        )
    return f"{heights[0]}:{heights[-1]}"


def _end(text: str) -> int | Moment:
    if re.fullmatch(rf"{_DAY}(T.*)?", text):
        return Moment.parse(text)
    if re.fullmatch(r"\d{4}-\d\d", text):
        raise BadSelector(f"`{text}` is not a day", hint=f"write `{text}-01`")
    try:
        return _height(text)
    except BadSelector:
        if meant := _what_was_meant(text):
            raise BadSelector(f"`{text}` is not a height", hint=meant) from None
        raise


def _what_was_meant(text: str) -> str | None:
    """A hint for text that is not a height: the person may have meant a range or a tag."""
    if found := _WITHOUT_COLON.fullmatch(text):
        return f"write a range as `{found[1]}:{found[2]}`"
    return did_you_mean(text, Tag)


def _is_before(last: int | Moment, first: int | Moment) -> bool:
    """Whether `last` is certainly before `first`; unknown, so False, for a date and a height."""
    if isinstance(last, Moment) and isinstance(first, Moment):
        return last.ends <= first.begins
    return isinstance(last, int) and isinstance(first, int) and last < first


def _height(text: str) -> int:
    height = parse_number(text)
    if height > HIGHEST:
        raise BadSelector(f"`{text}` is above any block", hint=f"heights end at {HIGHEST:,}")
    return height


@dataclass(frozen=True)
class Tip:
    """The head of a chain, and its latest final block."""

    head: int
    final: int
    by_depth: bool  # the node reports none: `final` is a number of blocks below the head

    def pin(self, heights: Heights) -> Span:
        """The heights as numbers, up to the latest final block. Dates must be resolved before."""
        assert isinstance(heights.first, int)
        last = heights.last if isinstance(heights.last, int) else self.head
        if heights.first > self.final:
            raise BadSelector(
                f"block {heights.first:,} is not final yet;"
                f" the latest final block is {self.final:,}",
                hint=f"the head is at {self.head:,}; fetch it later",
            )
        return Span(heights.first, min(last, self.final))
