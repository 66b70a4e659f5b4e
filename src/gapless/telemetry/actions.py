"""The log's vocabulary: every line has a stable `action` and plain fields.

`docs/reference/telemetry.md` documents when each action is logged, and with which fields.

Context need not be passed down to the code that logs: a worker and a run set it once with `about`,
for everything inside, including tasks that are started there.

Each line is also counted by its action, even if nothing reads the log. Counters start at zero,
because an `increase` query would miss the first increment of a counter that did not exist before.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

from gapless.telemetry import metrics

ACTIONS = (
    "worker_started",
    "worker_draining",
    "worker_stopped",
    "chunk_completed",
    "chunk_failed",
    "chunk_abandoned",
    "chunk_given_back",
    "lease_lost",
    "run_orphaned",
    "backfill_settled",
    "group_drained",
    "job_unresolved",
    "catalog_drifted",
    "answer_refused",
    "endpoint_failed",
    "endpoint_recovered",
    "endpoint_distrusted",
    "ledger_unreachable",
    "ledger_recovered",
    "backfill_unreadable",
    "progress_failed",
    "chain_reorganised",
    "follow_stopped",
    "chain_stalled",
    "endpoint_behind",
    "subscription_lost",
    "follow_troubled",
    "follow_recovered",
    "follower_failed",
    "follows_unknown",
    "blocks_retracted",
    "publisher_troubled",
    "publisher_recovered",
    "publisher_failed",
    "tokens_unnamed",
)

_LOGGER = logging.getLogger("gapless")
_ABOUT: ContextVar[Mapping[str, Any]] = ContextVar("gapless_about", default=MappingProxyType({}))

for _action in ACTIONS:
    metrics.ACTIONS.add(0, _action)


def log(level: int, action: str, **fields: Any) -> None:
    """Logs one line; handlers also find the action and fields on the record."""
    metrics.ACTIONS.add(1, action)
    if _LOGGER.isEnabledFor(level):
        told = {**_ABOUT.get(), **fields}
        shown = " ".join(f"{name}={value}" for name, value in told.items())
        _LOGGER.log(level, "%s %s", action, shown, extra={"action": action, "fields": told})


@contextmanager
def about(**fields: Any) -> Iterator[None]:
    """Adds these fields to every line that is logged inside."""
    before = _ABOUT.set({**_ABOUT.get(), **fields})
    try:
        yield
    finally:
        _ABOUT.reset(before)
