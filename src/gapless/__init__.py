"""Gapless: a durable backfill engine.

import gapless

@gapless.job(partitions=gapless.blocks())
async def my_job(chunk, context): ...

async with gapless.Engine("sqlite:///ledger.db") as engine:
    backfill = await engine.backfill(my_job, gapless.Range("0", "9999"))
    await backfill.wait()
"""

from gapless.core.errors import GaplessError, PermanentError, TransientError
from gapless.core.partitions import blocks, daily, epochs, hourly, monthly, static
from gapless.core.retry import RetryPolicy
from gapless.core.selector import Explicit, Filter, Range
from gapless.runtime.context import BlockingContext, Context
from gapless.runtime.engine import BackfillHandle, Engine
from gapless.runtime.job import Chunk, Job, job

__all__ = [
    "BackfillHandle",
    "BlockingContext",
    "Chunk",
    "Context",
    "Engine",
    "Explicit",
    "Filter",
    "GaplessError",
    "Job",
    "PermanentError",
    "Range",
    "RetryPolicy",
    "TransientError",
    "blocks",
    "daily",
    "epochs",
    "hourly",
    "job",
    "monthly",
    "static",
]
