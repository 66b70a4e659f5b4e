"""Columns that hold JSON or a word, and what they mean.

Nobody but Gapless writes them, yet a ledger lives long: text that makes no sense is reported as
`Unreadable`, with its backfill, so that one bad row never stops the others.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from gapless.core.backfill import Lifecycle, State, Stop
from gapless.core.errors import Unreadable, UsageError
from gapless.core.ranges import RangeSet
from gapless.core.retry import RetryPolicy
from gapless.core.selector import Summary

T = TypeVar("T")
NO_HOLES = RangeSet()
SPEC = msgspec.json.Decoder(dict[str, Any]).decode
RETRY = lru_cache(maxsize=256)(msgspec.json.Decoder(RetryPolicy).decode)  # read by every claim
SELECTOR: Callable[[str], Summary] = msgspec.json.Decoder(Summary).decode
SPANS = msgspec.json.Decoder(list[tuple[int, int]]).decode
_FAILURES = (msgspec.MsgspecError, UsageError, TypeError, ValueError)


def json_text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def read(backfill_id: str, what: str, text: str, reader: Callable[[str], T]) -> T:
    """The value of a backfill's column; raises `Unreadable` if the reader cannot read it."""
    try:
        return reader(text)
    except _FAILURES as error:
        raise Unreadable(
            f"the {what} of backfill `{backfill_id}` cannot be read: {error}",
            backfill_id=backfill_id,
            hint="start a new backfill in its place",
        ) from error


def encode_holes(holes: RangeSet) -> str | None:
    return json_text(holes.spans) if holes else None


def decode_holes(text: str | None, backfill_id: str | None = None) -> RangeSet:
    if not text:
        return NO_HOLES
    try:
        return RangeSet(SPANS(text))
    except _FAILURES as error:
        raise Unreadable(
            f"the holes of a chunk cannot be read: {error}", backfill_id=backfill_id
        ) from error


def lifecycle(backfill_id: str, state: str, version: int, stopping: str | None) -> Lifecycle:
    return Lifecycle(backfill_id, State(state), version, Stop(stopping) if stopping else None)
