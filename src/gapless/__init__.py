"""Gapless: a durable backfill engine.

import gapless

gapless.fetch_sync("ethereum", "18M:+5000", rpc="https://…", to="eth.db")
assert gapless.verify_sync("eth.db").complete

@gapless.job(partitions=gapless.block_heights())
async def my_job(chunk, context): ...

async with gapless.Engine("sqlite:///ledger.db") as engine:
    backfill = await engine.backfill(my_job, gapless.Range("0", "9999"))
    await backfill.wait()
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gapless.blocks.functions import FetchProgress, fetch, fetch_sync, verify, verify_sync
    from gapless.blocks.result import FetchResult
    from gapless.core.errors import GaplessError, PermanentError, TransientError
    from gapless.core.partitions import block_heights, daily, epochs, hourly, monthly, static
    from gapless.core.retry import RetryPolicy
    from gapless.core.selector import Explicit, Filter, Range
    from gapless.following.functions import FOLLOW_SLOTS, FollowHandle, follow
    from gapless.operations.wallets import (
        label_wallet,
        list_wallets,
        override_movement,
        show_wallet,
        wallet_balances,
        wallet_history,
        wallet_overrides,
    )
    from gapless.providers import Providers
    from gapless.runtime.context import BlockingContext, Context
    from gapless.runtime.engine import BackfillHandle, Engine
    from gapless.runtime.job import Chunk, Job, job
    from gapless.verification import Report
    from gapless.wallets.functions import add_wallets, remove_wallets, sync_wallets

    __version__: str

__all__ = [
    "FOLLOW_SLOTS",
    "BackfillHandle",
    "BlockingContext",
    "Chunk",
    "Context",
    "Engine",
    "Explicit",
    "FetchProgress",
    "FetchResult",
    "Filter",
    "FollowHandle",
    "GaplessError",
    "Job",
    "PermanentError",
    "Providers",
    "Range",
    "Report",
    "RetryPolicy",
    "TransientError",
    "__version__",
    "add_wallets",
    "block_heights",
    "daily",
    "epochs",
    "fetch",
    "fetch_sync",
    "follow",
    "hourly",
    "job",
    "label_wallet",
    "list_wallets",
    "monthly",
    "override_movement",
    "remove_wallets",
    "show_wallet",
    "static",
    "sync_wallets",
    "verify",
    "verify_sync",
    "wallet_balances",
    "wallet_history",
    "wallet_overrides",
]

_HOMES = {
    "gapless.core.errors": ("GaplessError", "PermanentError", "TransientError"),
    "gapless.core.partitions": ("block_heights", "daily", "epochs", "hourly", "monthly", "static"),
    "gapless.core.retry": ("RetryPolicy",),
    "gapless.core.selector": ("Explicit", "Filter", "Range"),
    "gapless.runtime.context": ("BlockingContext", "Context"),
    "gapless.runtime.engine": ("BackfillHandle", "Engine"),
    "gapless.blocks.result": ("FetchResult",),
    "gapless.following.functions": ("FOLLOW_SLOTS", "FollowHandle", "follow"),
    "gapless.blocks.functions": (
        "FetchProgress",
        "fetch",
        "fetch_sync",
        "verify",
        "verify_sync",
    ),
    "gapless.runtime.job": ("Chunk", "Job", "job"),
    "gapless.operations.wallets": (
        "label_wallet",
        "list_wallets",
        "override_movement",
        "show_wallet",
        "wallet_balances",
        "wallet_history",
        "wallet_overrides",
    ),
    "gapless.providers": ("Providers",),
    "gapless.verification": ("Report",),
    "gapless.wallets.functions": ("add_wallets", "remove_wallets", "sync_wallets"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first used: the command line must start fast."""
    if name == "__version__":
        value: Any = importlib.import_module("importlib.metadata").version("gapless")
    elif name in _HOME_OF:
        value = getattr(importlib.import_module(_HOME_OF[name]), name)
    else:
        raise AttributeError(f"module `gapless` has no `{name}`")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
