"""Durations as people write them: `90`, `2m`, `1.5h`."""

from __future__ import annotations

import re

from gapless.core.errors import UsageError

_UNITS = {"": 1, "ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_LONGEST = 100 * 365.0 * 86400


def parse_duration(text: str, at_least: float = 0.0) -> float:
    """The seconds of a duration, written with or without a unit.

    >>> parse_duration("1.5h")
    5400.0
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|)", text.strip())
    if match is None:
        raise UsageError(f"`{text}` is not a duration", hint="write `90`, `2m` or `1.5h`")
    seconds = float(match[1]) * _UNITS[match[2]]
    if not at_least <= seconds <= _LONGEST:
        raise UsageError(f"`{text}` is not between {at_least:g} s and 100 years")
    return seconds
