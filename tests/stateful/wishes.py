"""The backfills that may be requested: small ones, of every shape, order and policy."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
from hypothesis import strategies as st

from gapless.core.chunk import Order
from gapless.core.partitions import Scheme, block_heights, static
from gapless.core.retry import RetryKind, RetryPolicy
from gapless.core.selector import Explicit, Range, Selector, resolve, summary
from gapless.ledger.groups import Hook
from gapless.ledger.records import BackfillRequest

QUEUES = ("priority", "default", "backlog")
JOBS = (("copy", 1), ("copy", 2), ("hook", 1))
LEASE = 60.0
POLICIES = {
    RetryKind.BACKOFF: RetryPolicy(
        RetryKind.BACKOFF, base=4, max_delay=30, retries=1, lost_limit=3
    ),
    RetryKind.UNBOUNDED: RetryPolicy(
        RetryKind.UNBOUNDED, base=4, max_delay=30, retries=1, lost_limit=2
    ),
    RetryKind.SCHEDULE: RetryPolicy(RetryKind.SCHEDULE, delays=(5, 50), lost_limit=2),
    RetryKind.HALT: RetryPolicy(RetryKind.HALT, lost_limit=2),
}
HOOK = msgspec.json.encode(Hook("hook", 1, "default", POLICIES[RetryKind.BACKOFF])).decode()


@dataclass(frozen=True)
class Wish:
    """Everything that a person specifies."""

    shape: str = "range"
    partitions: int = 1
    chunk_size: int = 1
    max_concurrent: int = 1
    queue: str = "default"
    order: Order = Order.OLDEST
    retry: RetryKind = RetryKind.BACKOFF
    group: str | None = None
    lease: float = LEASE
    job_version: int = 1

    @property
    def keys(self) -> list[str]:
        """The requested partitions, by position."""
        places = range(self.partitions)
        match self.shape:
            case "range":
                return [str(100 + at) for at in places]
            case "explicit":  # 7, 11, 13, 17, …: all apart, so that no two form a span
                return [str(7 + 3 * at + at % 2) for at in places]
            case _:  # k0, k5, k10, k2, …: in an order of their own
                return [f"k{at * 5 % 13}" for at in places]

    def request(self, backfill_id: str) -> BackfillRequest:
        selector, scheme = self._selector()
        return BackfillRequest(
            id=backfill_id,
            job="copy",
            job_version=self.job_version,
            selector=summary(selector),
            selection=resolve(selector, scheme),
            chunk_size=self.chunk_size,
            max_concurrent_runs=self.max_concurrent,
            queue=self.queue,
            order=self.order,
            retry=POLICIES[self.retry],
            lease_seconds=self.lease,
            group=self.group,
            hook=HOOK if self.group else None,
        )

    def _selector(self) -> tuple[Selector, Scheme]:
        keys = self.keys
        match self.shape:
            case "range":
                return Range(keys[0], keys[-1]), block_heights()
            case "explicit":
                return Explicit.of(reversed(keys)), block_heights()
            case _:
                return Explicit.of(keys), static(sorted(keys))


WISHES = st.builds(
    Wish,
    shape=st.sampled_from(["range", "explicit", "static"]),
    partitions=st.integers(1, 12),
    chunk_size=st.integers(1, 5),
    max_concurrent=st.sampled_from([1, 2, 3, 4, 4]),
    queue=st.sampled_from(["default", "priority", "backlog"]),
    order=st.sampled_from(Order),
    retry=st.sampled_from(RetryKind),
    group=st.sampled_from([None, "g"]),
    lease=st.sampled_from([LEASE, 10.0]),
    job_version=st.sampled_from([1, 1, 2]),
)
