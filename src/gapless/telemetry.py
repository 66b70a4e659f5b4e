"""The log's vocabulary: every line has a stable `action` and plain fields.

| action             | level   | fields                                          |
|--------------------|---------|-------------------------------------------------|
| worker_started     | info    | worker, slots, freed                            |
| worker_draining    | info    | worker, running                                 |
| worker_stopped     | info    | worker                                          |
| chunk_completed    | debug   | chunk, fence                                    |
| chunk_failed       | warning | chunk, fence, error, retry_in                   |
| chunk_abandoned    | error   | chunk, fence, error                             |
| chunk_given_back   | info    | chunk, fence                                    |
| lease_lost         | warning | chunk, fence                                    |
| backfill_settled   | info    | backfill                                        |
| group_drained      | info    | hook                                            |
| job_unresolved     | warning | job, reason                                     |
| catalog_drifted    | warning | backfill, drift                                 |
| answer_refused     | info    | height, error                                   |
| ledger_unreachable | warning | error                                           |
"""

from __future__ import annotations

import logging
from typing import Any

_LOGGER = logging.getLogger("gapless")


def log(level: int, action: str, **fields: Any) -> None:
    """Writes one line; handlers find action and fields on the record too."""
    if _LOGGER.isEnabledFor(level):
        shown = " ".join(f"{name}={value}" for name, value in fields.items())
        _LOGGER.log(level, "%s %s", action, shown, extra={"action": action, "fields": fields})
