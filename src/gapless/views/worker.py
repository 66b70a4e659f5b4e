"""What a worker has done, for all its processes."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

OUTCOMES = {
    "completed": "completed",
    "failure": "failed",
    "givenback": "given_back",
    "dropped": "lease_lost",
}
"""How a run may end: as the worker counts it, and as it is shown."""


class WorkerView(Struct, frozen=True, kw_only=True):
    """Runs by how they ended, and what they have done."""

    completed: int
    failed: int
    given_back: int
    lease_lost: int
    partitions: int
    blocks: int
    batches: int
    seconds: float
    partitions_per_second: float


def worker_view(
    ended: Mapping[str, int], partitions: int, blocks: int, batches: int, seconds: float
) -> WorkerView:
    """`ended` has the number of runs by outcome, as the worker counts them."""
    return WorkerView(
        **{name: ended.get(kind, 0) for kind, name in OUTCOMES.items()},
        partitions=partitions,
        blocks=blocks,
        batches=batches,
        seconds=round(seconds, 3),
        partitions_per_second=round(partitions / seconds, 1) if seconds else 0.0,
    )
