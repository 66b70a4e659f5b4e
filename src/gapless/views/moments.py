"""Times of the ledger as views show them: in UTC, to the second."""

from __future__ import annotations

from datetime import UTC, datetime

from gapless.views.figures import LAST_SECOND


def utc(seconds: float) -> datetime:
    """A time of the ledger; one beyond the calendar becomes its last second.

    >>> utc(1_700_000_000.9).isoformat()
    '2023-11-14T22:13:20+00:00'
    """
    return datetime.fromtimestamp(min(seconds, LAST_SECOND), UTC).replace(microsecond=0)


def utc_or_none(seconds: float | None) -> datetime | None:
    return None if seconds is None else utc(seconds)
