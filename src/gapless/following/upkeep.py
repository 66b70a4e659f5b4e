"""What keeps a follow flat and whole over months.

Blocks that became final need no chunk each, and no record each: the ledger and the sink fold them.
A dead letter of a new block is planned once more every hour, so a gap at the head never needs a
person to notice it.
"""

from __future__ import annotations

from collections.abc import Callable

from gapless.blocks.block_pipeline import BlockPipeline
from gapless.core.anchors import Anchor
from gapless.core.ranges import RangeSet, Span
from gapless.following.spec import FollowSpec, LiveChunk
from gapless.following.state import FollowState
from gapless.ledger import Ledger
from gapless.ledger.cursor import Cursor
from gapless.ledger.records import Append, DeadLetter, NewChunk
from gapless.ledger.views import EVERYTHING
from gapless.sinks import Request
from gapless.sinks.sink import FOLD_LIMIT

FOLD_EVERY = 16  # blocks that became final
REPLAN_AFTER = 3600.0  # seconds
_AT_ONCE = 1000  # rows


class Upkeep:
    """The upkeep of one follow, by its leader."""

    def __init__(
        self, ledger: Ledger, spec: FollowSpec, owner: str, clock: Callable[[], float]
    ) -> None:
        self._ledger, self._spec, self._owner, self._clock = ledger, spec, owner, clock
        self._folded_to = -1
        self._looked_at = clock()

    async def tidy(self, cursor: Cursor, state: FollowState, pipeline: BlockPipeline) -> None:
        """Folds what has become final since the last time, and plans lost blocks again."""
        final = min(state.final, state.last)
        looks = self._clock() - self._looked_at >= REPLAN_AFTER / 12
        new = final - self._folded_to
        if new >= FOLD_EVERY:
            # Usually only new records can be folded; reading old ones takes longer every day.
            limit = FOLD_LIMIT if looks else min(FOLD_LIMIT, new + FOLD_EVERY)
            await self._fold(cursor, final, pipeline, limit)
            self._folded_to = final
        if looks:
            self._looked_at = self._clock()
            await self._plan_again(state)

    async def _fold(self, cursor: Cursor, final: int, pipeline: BlockPipeline, limit: int) -> None:
        spec = self._spec
        if final >= spec.start:
            anchors = frozenset(map(Anchor.parse, spec.anchors))
            datasets, checks = frozenset(spec.datasets), frozenset(spec.checks)
            request = Request(Span(spec.start, final), datasets, checks, anchors)
            await pipeline.sink.request(spec.chain_id, request)
        await pipeline.sink.fold(spec.chain_id, final, await self._unfinished(cursor), limit)
        await self._ledger.fold(spec.name, self._owner, cursor.fence, final, _AT_ONCE)

    async def _unfinished(self, cursor: Cursor) -> RangeSet:
        """The heights that a run of this follow may still write."""
        open_chunks = await self._ledger.open_chunks(cursor.backfill_id, _AT_ONCE)
        found = RangeSet(chunk.span for chunk in open_chunks)
        for each in await self._ledger.backfills(follow=cursor.follow, limit=EVERYTHING):
            if not each.standing and not each.state.ended:
                found |= (await self._ledger.selection(each.selection)).ordinals
        return found

    async def _plan_again(self, state: FollowState) -> None:
        cursor = await self._ledger.cursor(self._spec.name)
        if cursor.owner != self._owner or state.retraction is not None:
            return
        found = await self._ledger.dead(cursor.backfill_id, _AT_ONCE)
        now = (await self._ledger.backfill(cursor.backfill_id)).now
        due = [each for each in found if now - each.ended_at >= REPLAN_AFTER]
        if due:
            chunks = tuple(self._again(each, state) for each in due)
            await self._ledger.append(
                Append(
                    follow=cursor.follow,
                    owner=self._owner,
                    fence=cursor.fence,
                    version=cursor.version,
                    state=cursor.state,
                    chunks=chunks,
                    replace=tuple(each.chunk_index for each in due),
                )
            )

    def _again(self, letter: DeadLetter, state: FollowState) -> NewChunk:
        first, last = letter.missing.spans[0].first, letter.missing.spans[-1].last
        known = state.hash(first)
        payload = LiveChunk(hash=known.hex() if known else None).encode()
        return NewChunk(first, last, payload)
