"""The job `blocks`: fetches the blocks of a chain and their data into a sink."""

from __future__ import annotations

import msgspec

from gapless.blocks.block_pipeline import BlockPipeline, open_pipeline
from gapless.blocks.spec import BlocksSpec
from gapless.core.partitions import block_heights
from gapless.core.retry import RetryPolicy
from gapless.providers import Providers
from gapless.runtime.context import Context
from gapless.runtime.job import Chunk, Job

NAME, VERSION = "blocks", 2
PROVIDERS = "providers"
"""The key under which all runs of a worker share providers, across backfills."""


def job(pipeline: BlockPipeline | None = None) -> Job:
    """The job, on an open pipeline or on one opened from this process's configuration."""

    async def fetch_blocks(chunk: Chunk, context: Context) -> None:
        await (pipeline or await _shared_pipeline(context)).run(chunk, context)

    return Job(
        function=fetch_blocks,
        name=NAME,
        version=VERSION,
        partitions=block_heights(),
        retry=RetryPolicy(),
        chunk_size=1000,
        lease_seconds=60.0,
    )


async def _shared_pipeline(context: Context) -> BlockPipeline:
    """The pipeline that all runs of this backfill share in this process."""
    spec = msgspec.convert(context.spec, BlocksSpec)
    key = msgspec.json.encode(spec).decode()
    providers = await context.shared(
        PROVIDERS, lambda: Providers(context.config.fetch.workers, system=context.system)
    )
    return await context.shared(
        key, lambda: open_pipeline(spec, context.config, context.ledger, providers)
    )
