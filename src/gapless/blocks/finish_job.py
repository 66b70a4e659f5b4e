"""The job `finish`: makes a sink ready to be queried, once all that workers load into it is there.

Indexes are dear while much is loaded, so they are built at the end. `gapless fetch` does that
itself. What it leaves to workers ends in no process that would know; but the backfills of one sink
are a group, and this is the hook that runs when the group is drained: durably, once an epoch.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec

from gapless.blocks.spec import BlocksSpec
from gapless.chains.opening import open_sink
from gapless.core.partitions import epochs
from gapless.core.retry import RetryPolicy
from gapless.ledger.groups import Hook
from gapless.ledger.records import BackfillRequest
from gapless.runtime.context import Context
from gapless.runtime.job import Chunk, Job
from gapless.sinks import Access

NAME, VERSION = "finish", 1


def job() -> Job:
    async def finish(_chunk: Chunk, context: Context) -> None:
        spec = msgspec.convert(context.spec, BlocksSpec)
        opened = open_sink(context.config.sink(spec.sink), Access.WRITE, system=context.system)
        async with await opened as sink:
            if sink.id == spec.sink_id:  # another one is not ours to finish
                await sink.finish()

    return Job(
        function=finish,
        name=NAME,
        version=VERSION,
        partitions=epochs(),
        retry=RetryPolicy(),
        chunk_size=1,
        lease_seconds=60.0,
    )


def finished_by_workers(request: BackfillRequest) -> BackfillRequest:
    """The request of a fetch that nobody waits for: workers finish its sink as well."""
    hook = Hook(NAME, VERSION, request.queue, RetryPolicy(), request.spec)
    sink_id = msgspec.convert(request.spec, BlocksSpec).sink_id
    return replace(request, group=f"sink-{sink_id}", hook=msgspec.json.encode(hook).decode())
