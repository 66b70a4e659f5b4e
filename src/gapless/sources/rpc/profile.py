"""What was learned of a provider, kept from one start to the next. Nothing in it is secret.

What is read back counts as learned at the start, so it is believed for a while and then tried
again like everything that was learned (`limits.PROBE_AFTER`).
"""

from __future__ import annotations

import msgspec


class Profile(msgspec.Struct, frozen=True, omit_defaults=True):
    """Limits and lacks of one endpoint; None: none was met."""

    batch_calls: int | None = None  # calls in one request
    batch_bytes: int | None = None  # of the answer to one request
    concurrency: int | None = None  # requests in flight, as it was last
    earliest_block: int = 0
    lacks: tuple[str, ...] = ()  # methods
