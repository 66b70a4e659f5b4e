"""What was learned about a provider, saved from one start to the next. It contains no secrets.

Each value carries the wall-clock time at which it was learned. So it ages across processes and
expires after `limits.PROBE_AFTER` seconds, however often it is loaded and saved in between.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")


class Learned(msgspec.Struct, Generic[T], frozen=True, array_like=True):
    """A value, and when it was learned, in seconds since 1970."""

    value: T
    at: float


class Profile(msgspec.Struct, frozen=True, omit_defaults=True):
    """The limits of one endpoint and the methods that it lacks; None: no limit is known."""

    batch_calls: Learned[int] | None = None  # calls in one request
    batch_bytes: Learned[int] | None = None  # of the answer to one request
    concurrency: Learned[int] | None = None  # requests in flight, at last
    rate: Learned[float] | None = None  # calls per second
    earliest: dict[str, Learned[int]] = {}  # by method: the first block with an answer
    lacks: dict[str, float] = {}  # methods, and when each was found to be missing
