"""The log's vocabulary: every line has a stable `action` and plain fields.

| action             | level   | fields                                          |
|--------------------|---------|-------------------------------------------------|
| worker_started     | info    | worker, slots, freed                            |
| worker_draining    | info    | worker, running                                 |
| worker_stopped     | info    | worker                                          |
| chunk_completed    | debug   | worker, chunk, fence                            |
| chunk_failed       | warning | worker, chunk, fence, error, retry_in           |
| chunk_abandoned    | error   | worker, chunk, fence, error                     |
| chunk_given_back   | info    | worker, chunk, fence                            |
| lease_lost         | warning | worker, chunk, fence                            |
| backfill_settled   | info    | worker, backfill, state, seconds                |
| group_drained      | info    | worker, hook                                    |
| job_unresolved     | warning | worker, job, reason                             |
| catalog_drifted    | warning | worker, backfill, drift                         |
| answer_refused     | info    | worker, chunk, fence, height, error             |
| ledger_unreachable | warning | worker, error                                   |

What a line is about need not be handed down to whoever writes it: a worker and a run say it once,
with `about`, for all that is done within, in tasks that are started there too.

Each line is also counted by its action, whether anybody reads the log or not.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

from gapless.telemetry import metrics

_LOGGER = logging.getLogger("gapless")
_ABOUT: ContextVar[Mapping[str, Any]] = ContextVar("gapless_about", default=MappingProxyType({}))


def log(level: int, action: str, **fields: Any) -> None:
    """Writes one line; handlers find action and fields on the record too."""
    metrics.ACTIONS.add(1, action)
    if _LOGGER.isEnabledFor(level):
        told = {**_ABOUT.get(), **fields}
        shown = " ".join(f"{name}={value}" for name, value in told.items())
        _LOGGER.log(level, "%s %s", action, shown, extra={"action": action, "fields": told})


@contextmanager
def about(**fields: Any) -> Iterator[None]:
    """Has every line that is written within carry these fields."""
    before = _ABOUT.set({**_ABOUT.get(), **fields})
    try:
        yield
    finally:
        _ABOUT.reset(before)
