"""The controller: turns what a person asks for into the ledger's terms.

It resolves selectors, checks numbers, and names backfills; the ledger decides everything else.
"""

from __future__ import annotations

import base64
import re
import secrets
from dataclasses import dataclass

import msgspec

from gapless.core.chunk import Order
from gapless.core.errors import BadSelector, UsageError
from gapless.core.retry import RetryPolicy
from gapless.core.selector import Selector, resolve, summary
from gapless.ledger import Ledger
from gapless.ledger.groups import Hook
from gapless.ledger.records import Backfill, BackfillRequest
from gapless.runtime.explain import Explanation, explain_chunk, explain_unplanned
from gapless.runtime.job import Job, at_least

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


@dataclass(frozen=True)
class BackfillOptions:
    """How a backfill is run; None stands for the job's own choice."""

    chunk_size: int | None = None
    max_concurrent_runs: int = 4
    queue: str = "default"
    order: Order | str = Order.OLDEST
    retry: RetryPolicy | str | None = None
    group: str | None = None
    on_drained: Job | None = None
    id: str | None = None


def request_for(job: Job, selector: Selector, options: BackfillOptions) -> BackfillRequest:
    """What to ask the ledger for; everything that can be wrong is found here."""
    if options.order not in set(Order):
        raise UsageError(f"there is no order `{options.order}`", hint="oldest or newest")
    retry = job.retry if options.retry is None else options.retry
    chunk_size = job.chunk_size if options.chunk_size is None else options.chunk_size
    return BackfillRequest(
        id=new_id() if options.id is None else _named("id", options.id),
        job=job.name,
        job_version=job.version,
        selector=summary(selector),
        selection=resolve(selector, job.partitions),
        chunk_size=at_least(1, "chunk size", chunk_size),
        max_concurrent_runs=at_least(1, "max concurrent", options.max_concurrent_runs),
        queue=_named("queue", options.queue),
        order=Order(options.order),
        retry=RetryPolicy.named(retry) if isinstance(retry, str) else retry,
        lease_seconds=job.lease_seconds,
        group=None if options.group is None else _named("group", options.group),
        hook=_hook(options),
    )


class Controller:
    """Retries and explains backfills."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def retry_failed(self, parent_id: str, request_id: str | None = None) -> Backfill:
        return await self._ledger.retry_failed(parent_id, new_id(), request_id)

    async def retry_dead(self, parent_id: str, indices: list[int]) -> Backfill:
        return await self._ledger.retry_dead(parent_id, new_id(), indices)

    async def explain(
        self, backfill_id: str, *, limit: int = 10, chunk_index: int | None = None
    ) -> list[Explanation]:
        """Why chunks run or wait: those that have not ended, or the one asked for."""
        backfill = await self._ledger.backfill(backfill_id)
        workers = await self._ledger.live_workers()
        unplanned = explain_unplanned(backfill, workers)
        if chunk_index is None:
            chunks = await self._ledger.open_chunks(backfill_id, limit)
        else:
            if not 0 <= chunk_index < backfill.chunks.total:
                raise BadSelector(
                    f"backfill `{backfill_id}` has no chunk {chunk_index}",
                    hint=f"its chunks are 0 to {backfill.chunks.total - 1}",
                )
            chunks = await self._ledger.chunks(backfill_id, chunk_index, chunk_index)
            if chunks:
                unplanned = None
        found = [explain_chunk(backfill, chunk, workers) for chunk in chunks]
        return [*found, unplanned] if unplanned else found


def new_id() -> str:
    """A short id that nobody else has drawn: 50 bits."""
    letters = base64.b32encode(secrets.token_bytes(10)).decode().lower()
    return f"bf_{letters[:10]}"


def _named(what: str, name: str) -> str:
    if not _NAME.fullmatch(name):
        raise UsageError(f"`{name}` is no {what}", hint="use letters, digits, `_`, `.` and `-`")
    return name


def _hook(options: BackfillOptions) -> str | None:
    hook = options.on_drained
    if hook is None:
        return None
    if options.group is None:
        raise UsageError("`on_drained` needs a group", hint="give the backfill a `group`")
    if hook.partitions.kind != "epochs":
        raise UsageError(
            f"`{hook.name}` cannot run when a group is drained",
            hint="declare it with `@gapless.job(partitions=gapless.epochs())`",
        )
    form = Hook(hook.name, hook.version, options.queue, hook.retry)
    return msgspec.json.encode(form).decode()
