"""What a follow is made of, as the ledger stores it; names, never a URL."""

from __future__ import annotations

import msgspec

from gapless.blocks import job as blocks
from gapless.blocks.spec import BlocksSpec
from gapless.core.chunk import Order
from gapless.core.errors import Unreadable
from gapless.core.heights import HIGHEST
from gapless.core.partitions import block_heights
from gapless.core.ranges import Span
from gapless.core.remedies import RemoveFollow
from gapless.core.retry import RetryPolicy
from gapless.core.selector import Range, Selection, all_heights, summary
from gapless.following.state import FollowState
from gapless.ledger.records import Backfill, BackfillRequest
from gapless.runtime.slots import FOREGROUND, FOREGROUND_PRIORITY, PRIORITY

JOB, VERSION = "follow", 1
BACKLOG = "backlog"
"""The queue of a follow's history."""
SLOTS = {PRIORITY: 1, BACKLOG: 13, "default": 1}
"""The slots of a worker that follows, unless it is told otherwise."""
FOREGROUND_SLOTS = {FOREGROUND_PRIORITY: 1, FOREGROUND: 14}
"""The slots of a process that follows with endpoints that only it knows."""

_MOST_RUNS = 10 * sum(SLOTS.values())
"""Runs of new blocks at once. Those of a process that died count until their leases end, and must
not keep others from the head."""


class FollowSpec(BlocksSpec, frozen=True, kw_only=True):
    """A follow: which blocks of a network go to which sink, from which height on."""

    name: str
    start: int
    chunk_size: int  # of history
    grid: int | None = None  # blocks that the sink stores at once, when all are final
    shared: bool = True  # whether other processes can look up its endpoints and its sink

    @property
    def blocks(self) -> BlocksSpec:
        """The part that its history shares with its new blocks: what is fetched, and where to."""
        names = BlocksSpec.__struct_fields__
        return BlocksSpec(**{name: getattr(self, name) for name in names})

    @property
    def queues(self) -> tuple[str, str]:
        """The queues of its new blocks and of its history."""
        return (PRIORITY, BACKLOG) if self.shared else (FOREGROUND_PRIORITY, FOREGROUND)

    @property
    def depth(self) -> int:
        """The deepest reorganisation that is followed."""
        return self.chain.reorg_depth

    @property
    def poll_seconds(self) -> float:
        """The longest time between two looks at the head."""
        return max(1.0, self.chain.block_time)

    @property
    def lease_seconds(self) -> float:
        """How long a leader may be silent before another one takes over."""
        return max(10.0, 3 * self.chain.block_time)


def follow_spec(backfill: Backfill) -> FollowSpec:
    """The follow that a standing backfill belongs to; raises `Unreadable` if it is damaged."""
    try:
        return msgspec.convert(backfill.spec, FollowSpec)
    except msgspec.ValidationError as error:
        raise Unreadable(
            f"the specification of `{backfill.id}` cannot be read: {error}",
            backfill_id=backfill.id,
            remedy=RemoveFollow(backfill.follow or backfill.id),
        ) from error


class LiveChunk(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a chunk of a standing backfill is about."""

    hash: str | None = None  # the hash, in hex, that its only block must have
    retracts: bool = False  # whether its blocks are to be removed

    def encode(self) -> str:
        return msgspec.json.encode(self).decode()

    @classmethod
    def decode(cls, payload: str | None) -> LiveChunk:
        return msgspec.json.decode(payload or "{}", type=cls)


def standing_id(name: str, generation: int) -> str:
    """The id of the n-th backfill of new blocks under this name."""
    return f"follow-{name}" if generation == 1 else f"follow-{name}.{generation}"


def is_history_of(backfill_id: str, standing_id: str) -> bool:
    """Whether this is the history of that backfill, and not of an earlier one under its name."""
    return backfill_id.startswith(f"{standing_id}-")


def standing(backfill_id: str, spec: FollowSpec, state: FollowState) -> BackfillRequest:
    """The request for the backfill of new blocks, which has no end."""
    return BackfillRequest(
        id=backfill_id,
        job=JOB,
        job_version=VERSION,
        selector=summary(Range(str(spec.start), str(HIGHEST))),
        selection=all_heights(),
        chunk_size=1,
        max_concurrent_runs=_MOST_RUNS,
        queue=spec.queues[0],
        order=Order.NEWEST,
        retry=RetryPolicy.schedule(),
        lease_seconds=60.0,
        spec=_plain(spec),
        standing=True,
        follow=spec.name,
        precedence=HIGHEST,
        cursor=msgspec.to_builtins(state),
    )


def history(backfill_id: str, spec: FollowSpec, span: Span) -> BackfillRequest:
    """The request for final blocks that are fetched behind the new ones of this backfill."""
    return BackfillRequest(
        id=f"{backfill_id}-{span.first}-{span.last}",
        job=blocks.NAME,
        job_version=blocks.VERSION,
        selector=summary(Range(str(span.first), str(span.last))),
        selection=Selection(block_heights().kind, ((span.first, span.last),)),
        chunk_size=spec.chunk_size,
        max_concurrent_runs=SLOTS[BACKLOG],
        queue=spec.queues[1],
        order=Order.NEWEST,
        retry=RetryPolicy.unbounded(),
        lease_seconds=60.0,
        spec=_plain(msgspec.structs.replace(spec.blocks, final=span.last)),
        follow=spec.name,
        precedence=span.last,
    )


def changed(backfill: Backfill, spec: FollowSpec) -> tuple[dict[str, object], str]:
    """The spec and the queue of a follow's backfill after its endpoints have changed."""
    if backfill.standing:
        return _plain(spec), spec.queues[0]
    return backfill.spec | {"endpoints": list(spec.endpoints)}, spec.queues[1]


def _plain(spec: BlocksSpec) -> dict[str, object]:
    found: dict[str, object] = msgspec.json.decode(msgspec.json.encode(spec))
    return found
