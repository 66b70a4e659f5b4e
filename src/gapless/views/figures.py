"""Numbers, times and foreign text as people read them. Pure, and readable without colour."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from gapless.core.ranges import Span

LAST_SECOND = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()


def moment(seconds: float) -> str:
    """A time in UTC, to the second.

    >>> moment(1_700_000_000)
    '2023-11-14T22:13:20Z'
    """
    return datetime.fromtimestamp(min(seconds, LAST_SECOND), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def time_text(at: datetime) -> str:
    """A time of a view, as `moment` writes it."""
    return moment(at.timestamp())


def duration(seconds: float) -> str:
    """A length of time in two figures that matter: `0.4s`, `12s`, `3m05s`, `2h10m`, `3d04h`."""
    if seconds > 1000 * 86400:
        return "1000d+"
    if seconds < 9.95:
        return f"{max(seconds, 0.0):.1f}s"
    rest = round(seconds)
    if rest < 60:
        return f"{rest}s"
    minutes, rest = divmod(rest, 60)
    if minutes < 60:
        return f"{minutes}m{rest:02d}s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours}h{minutes:02d}m"
    days, hours = divmod(hours, 24)
    return f"{days}d{hours:02d}h"


def short(number: float) -> str:
    """A number in three figures or so: `7`, `0.4`, `950`, `3.1k`, `14.3M`."""
    if number < 9.95 and number != int(number):
        return f"{number:.1f}"
    for unit in ("", "k", "M", "B"):
        if number < 999.5 or unit == "B":
            break
        number /= 1000
    return f"{number:.0f}{unit}" if not unit or number >= 99.95 else f"{number:.1f}{unit}"


def span_text(span: Span) -> str:
    """Heights for people: `7`, `1,000-1,999`."""
    first, last = span
    return f"{first:,}" if first == last else f"{first:,}-{last:,}"


def spans_text(spans: Sequence[Span], most: int = 4) -> str:
    """The first few of some ranges: `0-99, 200-299 and 4 more`."""
    more = f" and {len(spans) - most:,} more" if len(spans) > most else ""
    return ", ".join(map(span_text, spans[:most])) + more


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """`1 chunk`, `2,000 chunks`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def plain_lines(text: str) -> list[str]:
    """A stranger's text line by line, indented as it was, with the same precaution."""
    return [
        "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in line.rstrip())
        for line in text.expandtabs().split("\n")
    ]


def cut(text: str, width: int) -> str:
    """The text, its end replaced by `…` where it is too long."""
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"[:width]
