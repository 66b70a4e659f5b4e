"""Partition schemes: how the units of a job are named and counted.

Ordinal schemes (heights, time windows, epochs) map every key to an integer and back, so that a
selection of ten million partitions is two numbers. A static scheme is a catalog of tagged keys.

    >>> daily("2024-01-01").key(daily("2024-01-01").ordinal("2024-02-29") + 1)
    '2024-03-01'
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Protocol

from gapless.core.errors import BadSelector, UsageError
from gapless.core.ranges import parse_number


class Window(str):
    """A time window's key that knows its bounds: `start` included, `end` excluded, in UTC."""

    __slots__ = ("end", "start")
    start: datetime
    end: datetime


Partition = int | str
"""What a job sees: an int for heights and epochs, a `Window` for time, a str for static keys."""


class Calendar(Protocol):
    """How one kind of ordinal partition is written, independent of bounds."""

    @property
    def kind(self) -> str: ...
    def parse(self, key: str) -> int: ...
    def key(self, ordinal: int) -> str: ...
    def partition(self, ordinal: int) -> Partition: ...
    def tags(self, ordinal: int) -> Mapping[str, str]: ...


@dataclass(frozen=True)
class Counted:
    """Plain integers: block heights, or the epochs of a drained group."""

    kind: str

    def parse(self, key: str) -> int:
        return parse_number(key)

    def key(self, ordinal: int) -> str:
        return str(ordinal)

    def partition(self, ordinal: int) -> int:
        return ordinal

    def tags(self, ordinal: int) -> Mapping[str, str]:
        raise BadSelector(
            f"partitions of kind `{self.kind}` have no tags to filter by",
            hint="give a range or keys",
        )


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FORMATS = {"hourly": "%Y-%m-%dT%H", "daily": "%Y-%m-%d", "monthly": "%Y-%m"}
_STEPS = {"hourly": timedelta(hours=1), "daily": timedelta(days=1)}


@dataclass(frozen=True)
class Windows:
    """Hours, days or months, counted from 1970 in UTC."""

    kind: str

    def parse(self, key: str) -> int:
        try:
            moment = datetime.strptime(key, _FORMATS[self.kind]).replace(tzinfo=UTC)
        except ValueError:
            example = self.key(self.parse_moment(datetime(2024, 1, 31, 5, tzinfo=UTC)))
            raise BadSelector(
                f"`{key}` is not a key of {self.kind} partitions", hint=f"write it as `{example}`"
            ) from None
        ordinal = self.parse_moment(moment)
        self.start(ordinal + 1)  # its end must exist too
        return ordinal

    def parse_moment(self, moment: datetime) -> int:
        if self.kind == "monthly":
            return (moment.year - 1970) * 12 + moment.month - 1
        return (moment - _EPOCH) // _STEPS[self.kind]

    def start(self, ordinal: int) -> datetime:
        try:
            if self.kind == "monthly":
                return datetime(1970 + ordinal // 12, ordinal % 12 + 1, 1, tzinfo=UTC)
            return _EPOCH + ordinal * _STEPS[self.kind]
        except (OverflowError, ValueError):
            raise BadSelector(
                f"there are {self.kind} partitions from the year 1 to the year 9999 only"
            ) from None

    def key(self, ordinal: int) -> str:
        start = self.start(ordinal)
        return f"{start.year:04d}" + start.strftime(_FORMATS[self.kind].removeprefix("%Y"))

    def partition(self, ordinal: int) -> Window:
        window = Window(self.key(ordinal))
        window.start, window.end = self.start(ordinal), self.start(ordinal + 1)
        return window

    def tags(self, ordinal: int) -> Mapping[str, str]:
        start = self.start(ordinal)
        tags = {"year": str(start.year), "month": str(start.month)}
        if self.kind != "monthly":
            tags |= {"day": str(start.day), "weekday": start.strftime("%A").lower()}
        if self.kind == "hourly":
            tags["hour"] = str(start.hour)
        return tags


CALENDARS: Mapping[str, Calendar] = {
    "blocks": Counted("blocks"),
    "epochs": Counted("epochs"),
    "hourly": Windows("hourly"),
    "daily": Windows("daily"),
    "monthly": Windows("monthly"),
}


@dataclass(frozen=True)
class OrdinalScheme:
    """An ordinal kind with the first and the last partition; `last` None means open-ended."""

    calendar: Calendar
    first: int = 0
    last: int | None = None

    @property
    def kind(self) -> str:
        return self.calendar.kind

    @property
    def default_chunk_size(self) -> int:
        return 1000 if self.kind == "blocks" else 1

    def key(self, ordinal: int) -> str:
        return self.calendar.key(ordinal)

    def ordinal(self, key: str) -> int:
        """The ordinal of an existing partition."""
        ordinal = self.calendar.parse(key)
        if ordinal < self.first or (self.last is not None and ordinal > self.last):
            until = "on" if self.last is None else f"to `{self.key(self.last)}`"
            raise BadSelector(
                f"there is no partition `{key}`",
                hint=f"the job's {self.kind} partitions go from `{self.key(self.first)}` {until}",
            )
        return ordinal


@dataclass(frozen=True)
class StaticScheme:
    """A fixed, ordered catalog of keys, each with tags to filter by."""

    catalog: Mapping[str, Mapping[str, str]] = field(hash=False)

    kind = "static"
    default_chunk_size = 1

    def __post_init__(self) -> None:
        if not self.catalog:
            raise UsageError("a static partition scheme needs at least one key")
        for key, tags in self.catalog.items():
            checked_text("partition key", key)
            for name, value in tags.items():
                checked_text(f"tag of `{key}`", name)
                checked_text(f"tag `{name}` of `{key}`", value)


Scheme = OrdinalScheme | StaticScheme

LONGEST_TEXT = 512


def checked_text(what: str, text: object, error: type[UsageError] = UsageError) -> str:
    """The text, if every ledger, log and terminal can hold it; raises otherwise."""
    if not isinstance(text, str):
        raise error(f"{what} {text!r:.80} is not text", hint="write it as a `str`")
    if 0 < len(text) <= LONGEST_TEXT and text.isascii() and "\0" not in text:
        return text
    problems = {
        "is empty": not text,
        f"has more than {LONGEST_TEXT} characters": len(text) > LONGEST_TEXT,
        "holds a NUL character": "\0" in text,
        "holds half of a surrogate pair": any("\ud800" <= each <= "\udfff" for each in text),
    }
    for problem, found in problems.items():
        if found:
            raise error(f"{what} {text!r:.80} {problem}", hint="use short text that can be printed")
    return text


def _bounded(kind: str, start: str | int, end: str | int | None) -> OrdinalScheme:
    calendar = CALENDARS[kind]
    first = calendar.parse(str(start))
    last = None if end is None else calendar.parse(str(end))
    if last is not None and last < first:
        raise BadSelector(f"{kind} partitions end at `{end}`, before their start `{start}`")
    return OrdinalScheme(calendar, first, last)


def block_heights(start: int | str = 0, end: int | str | None = None) -> OrdinalScheme:
    """Block heights from `start` to `end` (included), or open-ended."""
    return _bounded("blocks", start, end)


def hourly(start: str, end: str | None = None) -> OrdinalScheme:
    """Hours in UTC, as `2024-01-31T05`; `end` is included."""
    return _bounded("hourly", start, end)


def daily(start: str, end: str | None = None) -> OrdinalScheme:
    """Days in UTC, as `2024-01-31`; `end` is included."""
    return _bounded("daily", start, end)


def monthly(start: str, end: str | None = None) -> OrdinalScheme:
    """Months in UTC, as `2024-01`; `end` is included."""
    return _bounded("monthly", start, end)


def epochs() -> OrdinalScheme:
    """The epochs of a group: the partitions of a hook that runs when the group is drained."""
    return _bounded("epochs", 1, None)


def static(keys: Iterable[str] | Mapping[str, Mapping[str, str]]) -> StaticScheme:
    """A catalog: `static(["eth", "base"])` or `static({"eth": {"layer": "1"}, …})`."""
    if isinstance(keys, Mapping):
        return StaticScheme({key: dict(tags) for key, tags in keys.items()})
    return StaticScheme({key: {} for key in keys})
