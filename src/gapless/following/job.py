"""The job `follow`: stores one new block, or removes blocks that are no longer on the chain.

Above finality nothing fails for good: an absent block, a refused answer or a broken link may be
right a moment later. So every error counts as temporary, and the schedule of retries decides.
"""

from __future__ import annotations

from gapless.blocks.block_pipeline import BlockPipeline
from gapless.blocks.job import shared_pipeline, spec_of
from gapless.blocks.spec import BlocksSpec
from gapless.core.errors import FencedOff, PermanentError, SourceError, TransientError
from gapless.core.partitions import block_heights
from gapless.core.ranges import Span
from gapless.core.retry import RetryPolicy
from gapless.following.spec import JOB, VERSION, LiveChunk
from gapless.runtime.context import Context
from gapless.runtime.job import Chunk, Job
from gapless.sinks import Sink

NOTHING_IS_FINAL = -1


def job() -> Job:
    """The job, on the pipeline that it shares with the follow's history."""

    async def follow_head(chunk: Chunk, context: Context) -> None:
        pipeline = await shared_pipeline(context, spec_of(context))
        about = LiveChunk.decode(context.payload)
        if about.retracts:
            await retract(pipeline, chunk.whole_spans[0], context)
            return
        try:
            expected = _expected(chunk, about)
            final = chunk.whole_spans[0].first if expected is None else NOTHING_IS_FINAL
            await pipeline.run(chunk, context, expected, final)
        except (PermanentError, SourceError) as error:
            raise TransientError(str(error)) from error

    return Job(
        function=follow_head,
        name=JOB,
        version=VERSION,
        partitions=block_heights(),
        retry=RetryPolicy.schedule(),
        chunk_size=1,
        lease_seconds=60.0,
    )


async def retract(pipeline: BlockPipeline, span: Span, context: Context) -> None:
    """Removes blocks from the sink, except those that a later writer has replaced."""
    try:
        await pipeline.sink.retract(pipeline.spec.chain_id, span, context.fence)
    except FencedOff:
        await _retract_one_by_one(pipeline.sink, pipeline.spec, span, context.fence)
    context.progress(span.last)


async def _retract_one_by_one(sink: Sink, spec: BlocksSpec, span: Span, fence: int) -> None:
    for height in range(span.last, span.first - 1, -1):
        try:
            await sink.retract(spec.chain_id, Span(height, height), fence)
        except FencedOff:
            continue  # written after the decision to retract, and planned again anyway


def _expected(chunk: Chunk, about: LiveChunk) -> dict[int, bytes] | None:
    if about.hash is None:  # it has become final in the meantime
        return None
    return {chunk.whole_spans[0].first: bytes.fromhex(about.hash)}
