"""Selectors, and the selections that they resolve to.

A selector is what a person requests: `Range`, `Explicit` or `Filter`. It is resolved against the
job's partition scheme **once**, when the backfill is created; the resulting `Selection` is
immutable and hashed. Everything later counts in *positions* within it: 0 is the first selected
partition, whether it is a height, a day or a key.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

import msgspec

from gapless.core.errors import BadSelector
from gapless.core.partitions import (
    CALENDARS,
    OrdinalScheme,
    Partition,
    Scheme,
    StaticScheme,
    checked_text,
)
from gapless.core.ranges import HIGHEST, RangeSet, parse_number


class Range(msgspec.Struct, frozen=True, tag="range", tag_field="kind"):
    """Every partition from `start` to `end`, both included."""

    start: str
    end: str

    @classmethod
    def parse(cls, text: str) -> Range:
        """`A:B` (both included) or `A:+N` (N partitions, starting with A)."""
        start, colon, end = (part.strip() for part in text.rpartition(":"))
        if not (colon and start and end):
            raise BadSelector(
                f"`{text}` is not a range", hint="write `A:B`, both included, or `A:+N`"
            )
        return cls(start, end)


class Explicit(msgspec.Struct, frozen=True, tag="explicit", tag_field="kind"):
    """Exactly these partitions."""

    keys: tuple[str, ...]

    @classmethod
    def of(cls, keys: Iterable[str | int]) -> Explicit:
        return cls(tuple(str(key) for key in keys))


class Filter(msgspec.Struct, frozen=True, tag="filter", tag_field="kind"):
    """Every partition that has all these tags."""

    tags: dict[str, str]


Selector = Range | Explicit | Filter


class ExplicitSummary(msgspec.Struct, frozen=True, tag="explicit", tag_field="kind"):
    """The first few of the explicit partitions, and how many more there are."""

    keys: list[str]
    more: int


Summary = Range | ExplicitSummary | Filter
"""A selector in the small form that events and backfills store."""

_SMALL = 400  # bytes of a selector in an event, which must be smaller than a kilobyte


class Selection(msgspec.Struct, frozen=True, dict=True):
    """The selected partitions: ordinals of one kind, or keys."""

    kind: str
    spans: tuple[tuple[int, int], ...] = ()
    keys: tuple[str, ...] = ()

    @cached_property
    def ordinals(self) -> RangeSet:
        return RangeSet(self.spans)

    def __len__(self) -> int:
        return len(self.keys) if self.kind == "static" else len(self.ordinals)

    @property
    def is_identity(self) -> bool:
        """Whether each position is the ordinal itself."""
        return len(self.spans) == 1 and self.spans[0][0] == 0

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {key: position for position, key in enumerate(self.keys)}

    def partition(self, position: int) -> Partition:
        """The partition at a position, as a job sees it."""
        if self.kind == "static":
            return self.keys[position]
        return CALENDARS[self.kind].partition(self.ordinals.at(position))

    def key(self, position: int) -> str:
        return str(self.partition(position))

    def position(self, partition: Partition) -> int:
        """The position of a partition or its key."""
        try:
            if self.kind == "static":
                return self._positions[str(partition)]
            return self.ordinals.position(CALENDARS[self.kind].parse(str(partition)))
        except (KeyError, ValueError):
            raise BadSelector(f"`{partition}` is not in this selection") from None

    def slice(self, first: int, last: int) -> Iterator[Partition]:
        """The partitions at the positions `first` to `last`, both included."""
        if self.kind == "static":
            yield from self.keys[first : last + 1]
        else:
            calendar = CALENDARS[self.kind]
            for ordinal in self.ordinals.slice(first, last):
                yield calendar.partition(ordinal)

    def all_keys(self) -> list[str]:
        return [str(partition) for partition in self.slice(0, len(self) - 1)]

    def pick(self, positions: RangeSet) -> Selection:
        """The selection of the partitions at these positions."""
        if self.kind == "static":
            return Selection(self.kind, keys=tuple(self.keys[at] for at in positions))
        picked = (self.ordinals.slice(*span).spans for span in positions.spans)
        return of_ordinals(self.kind, RangeSet(span for spans in picked for span in spans))

    def without(self, other: Selection) -> Selection:
        """The partitions that the other selection, of the same kind, does not have."""
        if self.kind == "static":
            gone = set(other.keys)
            return Selection(self.kind, keys=tuple(key for key in self.keys if key not in gone))
        return of_ordinals(self.kind, self.ordinals - other.ordinals)

    def describe(self, positions: RangeSet, limit: int = 5) -> list[str]:
        """The keys at these positions as people write them, runs as `first to last`."""
        shown = []
        for first, last in positions.spans[:limit]:
            ends = self.key(first), self.key(last)
            shown.append(ends[0] if first == last else f"{ends[0]} to {ends[1]}")
        rest = len(positions.spans) - limit
        return [*shown, f"and {rest} more"] if rest > 0 else shown

    def encode(self) -> bytes:
        return zlib.compress(msgspec.json.encode(self))

    @classmethod
    def decode(cls, data: bytes) -> Selection:
        return msgspec.json.decode(zlib.decompress(data), type=cls)


def all_heights() -> Selection:
    """Every block height that there can be: the position of a height is the height itself."""
    return Selection("blocks", spans=((0, HIGHEST),))


def of_ordinals(kind: str, ordinals: RangeSet) -> Selection:
    return Selection(kind, spans=tuple((span.first, span.last) for span in ordinals.spans))


def resolve(selector: Selector, scheme: Scheme) -> Selection:
    """Resolves a selector against a scheme."""
    _check_texts(selector)
    if isinstance(scheme, StaticScheme):
        selection = Selection("static", keys=_static_keys(selector, scheme))
    else:
        selection = of_ordinals(scheme.kind, _ordinals(selector, scheme))
    if not len(selection):
        raise BadSelector("the selector selects no partition", hint="check its keys or tags")
    return selection


def summary(selector: Selector) -> dict[str, Any]:
    """The selector in a form that is small, however much it selects."""
    _check_texts(selector)
    if isinstance(selector, Explicit):
        shown = [key[:64] for key in selector.keys[:3]]
        while len(msgspec.json.encode(shown)) > _SMALL:
            shown.pop()
        return _form(ExplicitSummary(shown, len(selector.keys) - len(shown)))
    if len(msgspec.json.encode(selector)) > _SMALL:
        raise BadSelector("the selector's text is too long", hint="use fewer or shorter tags")
    return _form(selector)


def _form(small: Summary) -> dict[str, Any]:
    form: dict[str, Any] = msgspec.to_builtins(small)
    return form


def _check_texts(selector: Selector) -> None:
    for text in _texts(selector):
        checked_text("the selector's text", text, BadSelector)


def _texts(selector: Selector) -> Iterable[str]:
    match selector:
        case Range(start, end):
            return start, end
        case Explicit(keys):
            return keys
        case Filter(tags):
            return (text for tag in tags.items() for text in tag)


def _ordinals(selector: Selector, scheme: OrdinalScheme) -> RangeSet:
    match selector:
        case Range(start, end):
            first = scheme.ordinal(start)
            if _is_count(end):
                end = scheme.key(first + _counted(start, end) - 1)
            last = scheme.ordinal(end)
            if last < first:
                raise BadSelector(
                    f"the range `{start}:{end}` is inverted", hint=f"write `{end}:{start}`"
                )
            return RangeSet.of((first, last))
        case Explicit(keys):
            return RangeSet.from_members(scheme.ordinal(key) for key in keys)
        case Filter(tags):
            if scheme.last is None:
                raise BadSelector(
                    f"open-ended {scheme.kind} partitions cannot be filtered",
                    hint="give the job's partitions an end, or select a range",
                )
            return RangeSet.from_members(
                ordinal
                for ordinal in range(scheme.first, scheme.last + 1)
                if _matches(tags, scheme.calendar.tags(ordinal))
            )


def _is_count(end: str) -> bool:
    return end.startswith("+")


def _counted(start: str, end: str) -> int:
    """The number of partitions of a range `A:+N`."""
    count = parse_number(end[1:])
    if not count:
        raise BadSelector(f"the range `{start}:{end}` is empty")
    return count


def _static_keys(selector: Selector, scheme: StaticScheme) -> tuple[str, ...]:
    catalog = list(scheme.catalog)
    match selector:
        case Range(start, end):
            first = _index(catalog, start)
            last = first + _counted(start, end) - 1 if _is_count(end) else _index(catalog, end)
            if last < first:
                raise BadSelector(
                    f"`{end}` stands before `{start}` in the catalog", hint=f"write `{end}:{start}`"
                )
            if last >= len(catalog):
                raise BadSelector(
                    f"the range `{start}:{end}` goes beyond the catalog",
                    hint=f"there are {len(catalog) - first} from `{start}` on",
                )
            return tuple(catalog[first : last + 1])
        case Explicit(keys):
            for key in keys:
                if key not in scheme.catalog:
                    raise _unknown(catalog, key)
            return tuple(dict.fromkeys(keys))
        case Filter(tags):
            return tuple(key for key, own in scheme.catalog.items() if _matches(tags, own))


def _index(catalog: list[str], key: str) -> int:
    try:
        return catalog.index(key)
    except ValueError:
        raise _unknown(catalog, key) from None


def _unknown(catalog: list[str], key: str) -> BadSelector:
    known = ", ".join(f"`{known}`" for known in catalog[:5])
    more = ", …" if len(catalog) > 5 else ""
    return BadSelector(f"there is no partition `{key}`", hint=f"the catalog has {known}{more}")


def _matches(wanted: Mapping[str, str], tags: Mapping[str, str]) -> bool:
    return all(tags.get(name) == value for name, value in wanted.items())
