"""The job `blocks`: the blocks of a chain, with all that belongs to them, into a sink."""

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
"""The key under which the runs of a worker share their providers, over all backfills."""


def job(plane: BlockPipeline | None = None) -> Job:
    """The job, on a plane that is open, or on the one that this process's configuration names."""

    async def fetch_blocks(chunk: Chunk, context: Context) -> None:
        await (plane or await _plane_of(context)).run(chunk, context)

    return Job(
        function=fetch_blocks,
        name=NAME,
        version=VERSION,
        partitions=block_heights(),
        retry=RetryPolicy(),
        chunk_size=1000,
        lease_seconds=60.0,
    )


async def _plane_of(context: Context) -> BlockPipeline:
    """The plane that all runs of this backfill share in this process."""
    spec = msgspec.convert(context.spec, BlocksSpec)
    key = msgspec.json.encode(spec).decode()
    providers = await context.shared(
        PROVIDERS, lambda: Providers(context.config.fetch.workers, system=context.system)
    )
    return await context.shared(
        key, lambda: open_pipeline(spec, context.config, context.ledger, providers)
    )
