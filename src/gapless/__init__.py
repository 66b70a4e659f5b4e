"""Gapless: a durable backfill engine.

import gapless

@gapless.job(partitions=gapless.blocks())
async def my_job(chunk, context): ...

async with gapless.Engine("sqlite:///ledger.db") as engine:
    backfill = await engine.backfill(my_job, gapless.Range("0", "9999"))
    await backfill.wait()
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gapless.core.errors import GaplessError, PermanentError, TransientError
    from gapless.core.partitions import blocks, daily, epochs, hourly, monthly, static
    from gapless.core.retry import RetryPolicy
    from gapless.core.selector import Explicit, Filter, Range
    from gapless.runtime.context import BlockingContext, Context
    from gapless.runtime.engine import BackfillHandle, Engine
    from gapless.runtime.fetching import FetchResult, fetch
    from gapless.runtime.job import Chunk, Job, job

__all__ = [
    "BackfillHandle",
    "BlockingContext",
    "Chunk",
    "Context",
    "Engine",
    "Explicit",
    "FetchResult",
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
    "fetch",
    "hourly",
    "job",
    "monthly",
    "static",
]

_HOMES = {
    "gapless.core.errors": ("GaplessError", "PermanentError", "TransientError"),
    "gapless.core.partitions": ("blocks", "daily", "epochs", "hourly", "monthly", "static"),
    "gapless.core.retry": ("RetryPolicy",),
    "gapless.core.selector": ("Explicit", "Filter", "Range"),
    "gapless.runtime.context": ("BlockingContext", "Context"),
    "gapless.runtime.engine": ("BackfillHandle", "Engine"),
    "gapless.runtime.fetching": ("FetchResult", "fetch"),
    "gapless.runtime.job": ("Chunk", "Job", "job"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first used: the command line must start fast."""
    if name not in _HOME_OF:
        raise AttributeError(f"module `gapless` has no `{name}`")
    value = globals()[name] = getattr(importlib.import_module(_HOME_OF[name]), name)
    return value
