"""Groups of backfills, and the hook that runs once each time a group is drained.

A group is drained when none of its backfills has a pending or running chunk and a chunk has
completed since the last time. The worker that notices locks the group, checks again, and creates a
backfill for the new epoch, whose only partition is the epoch. So the hook is as durable as any
other work, runs once per epoch, and never runs because a queue merely looked empty. Ids that begin
with `drained-` are reserved for these backfills; if an older ledger uses one, its epoch is skipped.

A chunk that waits for a retry does not delay an epoch, however long it waits; when it completes, it
makes another one. Backfills that are added one by one would make an epoch each: a group may wait
for `quiet_seconds` after the latest of them, or after the latest request for its hook.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from gapless.core.errors import Conflict, Unreadable, UsageError
from gapless.core.retry import RetryPolicy
from gapless.core.selector import Range, Selection, summary
from gapless.core.spec import encode_spec
from gapless.ledger import control
from gapless.ledger.database import LedgerTransaction, one_as
from gapless.ledger.records import RESERVED, Backfill, BackfillRequest
from gapless.ledger.rows.backfill import DrainedGroup, Group
from gapless.ledger.rows.texts import read


class Hook(msgspec.Struct, frozen=True):
    """The job that a drained group runs, as the group's row stores it."""

    job: str
    job_version: int
    queue: str
    retry: RetryPolicy
    spec: dict[str, Any] = {}  # of the backfill that requested the hook
    timeout: float | None = None


UNREADABLE_HOOK = Hook("unreadable", 1, "default", RetryPolicy())


def epoch_id(group: str, epoch: int) -> str:
    return f"{RESERVED}{group}-{epoch}"


async def drained(
    tx: LedgerTransaction, names: Sequence[str] | None, *, hurry: bool = False
) -> list[str]:
    """The groups, among these or all, that look drained; with `hurry`, even if not quiet yet."""
    if names is not None and not names:
        return []
    wanted = None if names is None else list(names)
    found = await tx.fetch_as(DrainedGroup, "drained", names=wanted, hurry=hurry)
    return [group.name for group in found]


async def close_epoch(tx: LedgerTransaction, group: str, *, hurry: bool = False) -> Backfill | None:
    """Starts the group's next epoch and its hook, if the group is still drained."""
    row = await one_as(tx, Group, "lock_group", name=group)
    still = await one_as(tx, DrainedGroup, "drained", names=[group], hurry=hurry)
    if row is None or still is None:
        return None
    while True:
        ((epoch,),) = await tx.fetch("next_epoch", name=group, completed=still.completed)
        try:
            return await _start(tx, epoch_id(group, epoch), epoch, row.hook)
        except Conflict:
            continue


async def request_epochs(tx: LedgerTransaction, names: Iterable[str]) -> None:
    """Lets the hooks of groups run once more when drained, although nothing has completed."""
    await tx.fetch("request_epochs", names=sorted(set(names)))


async def _start(tx: LedgerTransaction, backfill_id: str, epoch: int, stored: str) -> Backfill:
    """Creates the backfill of a hook; a hook that cannot be read becomes a failed backfill."""
    problem = None
    try:
        hook = read(backfill_id, "hook", stored, msgspec.json.Decoder(Hook).decode)
        encode_spec(hook.spec)
    except (Unreadable, UsageError) as error:
        hook, problem = UNREADABLE_HOOK, str(error)
    created = await control.create(
        tx,
        BackfillRequest(
            id=backfill_id,
            job=hook.job,
            job_version=hook.job_version,
            spec=hook.spec,
            selector=summary(Range(str(epoch), str(epoch))),
            selection=Selection("epochs", spans=((epoch, epoch),)),
            chunk_size=1,
            queue=hook.queue,
            retry=hook.retry,
            timeout=hook.timeout,
        ),
    )
    if problem is not None:
        await control.condemn(tx, backfill_id, problem)
    return created
