"""How far a follow is: its cursor, and what its leader saw of the head."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class HeadSeen:
    """What a leader saw of the head so far, and what keeps it from seeing it now."""

    ago: float | None = None  # seconds since it saw a head; None: not yet
    time: float | None = None  # of that head's block, in seconds since 1970
    trouble: str | None = None  # without secrets


@dataclass(frozen=True)
class Cursor:
    """How far a follow is, and who leads it; the fence proves who does."""

    follow: str
    backfill_id: str  # the standing one
    owner: str | None
    lease_until: float | None
    fence: int  # 0 if nobody has led it yet
    version: int  # one more with each append
    state: dict[str, Any] = field(hash=False)  # the follower's own
    updated_at: float
    head_seen_at: float | None  # when a leader last saw a head
    head_time: float | None  # the time of that head's block
    trouble: str | None  # why the leader does not see the head now
    now: float
    unreadable: str | None = None  # why there is no state

    def is_led(self, lease_seconds: float | None = None) -> bool:
        """Whether the owner's lease is valid, given how long a lease can be at most."""
        if self.lease_until is None or self.lease_until <= self.now:
            return False
        # A lease that ends impossibly late was taken before the clock jumped back.
        return lease_seconds is None or self.lease_until <= self.now + lease_seconds + 1
