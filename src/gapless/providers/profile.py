"""What was learned about a provider, kept from one start to the next. Nothing in it is secret.

Everything carries the time at which it was learned, by the clock on the wall. So it ages from one
process to the next, and is tried again after `limits.PROBE_AFTER` seconds, however often it is
read back and saved in between.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")


class Learned(msgspec.Struct, Generic[T], frozen=True, array_like=True):
    """A value, and when it was learned in seconds since 1970."""

    value: T
    at: float


class Profile(msgspec.Struct, frozen=True, omit_defaults=True):
    """Limits of one endpoint and what it lacks; None: no limit was met."""

    batch_calls: Learned[int] | None = None  # calls in one request
    batch_bytes: Learned[int] | None = None  # of the answer to one request
    concurrency: Learned[int] | None = None  # requests in flight, as it was last
    rate: Learned[float] | None = None  # calls per second
    earliest: dict[str, Learned[int]] = {}  # by method: the first block that it is answered for
    lacks: dict[str, float] = {}  # methods, and when each was found to be missing
