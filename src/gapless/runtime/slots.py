"""Slots: how many worker loops serve which queue.

Every slot serves `priority` first and then its own queue; a `priority` slot serves nothing else.
So the head of a chain takes precedence everywhere, and backfills cannot occupy its reserved slots.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from gapless.core.errors import UsageError
from gapless.lanes import Lane

PRIORITY = "priority"
FOREGROUND = "foreground"
"""The queue of backfills whose endpoints are known only to the process that started them."""
FOREGROUND_PRIORITY = "foreground-priority"
DEFAULT_SLOTS = 4
_SLOTS = re.compile(r"(?:(?P<queue>[A-Za-z0-9_.-]{1,64})=)?(?P<count>[0-9]{1,4})")


def parse_slots(text: str) -> dict[str, int]:
    """`priority=1,backlog=13,default=1`, or a number of `default` slots."""
    slots: dict[str, int] = {}
    for part in text.split(","):
        match = _SLOTS.fullmatch(part.strip())
        queue = match and (match["queue"] or "default")
        if match is None or queue is None or queue in slots:
            raise UsageError(
                f"`{text}` is not a number of slots", hint="write `priority=1,backlog=13` or `4`"
            )
        slots[queue] = int(match["count"])
    return checked(slots)


def checked(slots: Mapping[str, int]) -> dict[str, int]:
    if not any(slots.values()) or min(slots.values()) < 0:
        raise UsageError("a worker needs at least one slot", hint="give one, such as `default=4`")
    return {queue: count for queue, count in slots.items() if count}


def queues_of(slot: str) -> tuple[str, ...]:
    """The queues a slot takes from, in order."""
    first = FOREGROUND_PRIORITY if slot in (FOREGROUND, FOREGROUND_PRIORITY) else PRIORITY
    return (first,) if slot == first else (first, slot)


def lane_of(queue: str) -> Lane:
    """The lane of the runs of a queue."""
    first = queue in (PRIORITY, FOREGROUND_PRIORITY)
    return Lane.PRIORITY if first else Lane.ORDINARY


def announced(slots: Mapping[str, int], only: str | None) -> dict[str, int]:
    """The slots as the ledger shows them; slots for one backfill only carry its id."""
    return {f"{queue}@{only}" if only else queue: count for queue, count in slots.items()}


def serves(slot: str, queue: str, *names: str | None) -> bool:
    """Whether an announced slot takes chunks of a backfill with this id or follow."""
    own, _, only = slot.partition("@")
    return queue in queues_of(own) and only in ("", *names)
