"""The job `blocks`: fetches the blocks of a chain and their data into a sink."""

from __future__ import annotations

from typing import Protocol, TypeVar

import msgspec

from gapless.blocks.block_pipeline import BlockPipeline, open_pipeline
from gapless.blocks.spec import BlocksSpec
from gapless.config import Config
from gapless.core.partitions import block_heights
from gapless.core.retry import RetryPolicy
from gapless.ledger import Ledger
from gapless.providers import Providers
from gapless.runtime.context import Context
from gapless.runtime.job import Chunk, Job
from gapless.runtime.shared import Opening
from gapless.system import System

T = TypeVar("T")
NAME, VERSION = "blocks", 2
PROVIDERS = "providers"
"""The key under which all runs of a worker share providers, across backfills."""


def job(pipeline: BlockPipeline | None = None) -> Job:
    """The job, on an open pipeline or on one opened from this process's configuration."""

    async def fetch_blocks(chunk: Chunk, context: Context) -> None:
        spec = spec_of(context)
        shared = pipeline or await shared_pipeline(context, spec)
        await shared.run(chunk, context, final=spec.final)

    return Job(
        function=fetch_blocks,
        name=NAME,
        version=VERSION,
        partitions=block_heights(),
        retry=RetryPolicy(),
        chunk_size=1000,
        lease_seconds=60.0,
    )


class Host(Protocol):
    """What can open a pipeline and share it: a run, or the engine that it runs in."""

    @property
    def ledger(self) -> Ledger: ...
    @property
    def system(self) -> System: ...
    @property
    def config(self) -> Config: ...
    async def shared(self, key: str, open: Opening[T]) -> T: ...  # noqa: A002


def spec_of(context: Context) -> BlocksSpec:
    return msgspec.convert(context.spec, BlocksSpec)


async def shared_pipeline(host: Host, spec: BlocksSpec) -> BlockPipeline:
    """The pipeline that runs with this specification share in this process.

    A follow and all parts of its history share one, too.
    """
    spec = msgspec.structs.replace(spec, final=None)
    key = msgspec.json.encode(spec).decode()
    providers = await host.shared(
        PROVIDERS, lambda: Providers(host.config.fetch.workers, system=host.system)
    )
    return await host.shared(key, lambda: open_pipeline(spec, host.config, host.ledger, providers))
