"""The controller: turns a user's request into a request to the ledger.

It resolves selectors, validates numbers and assigns ids; the ledger decides everything else.
"""

from __future__ import annotations

import base64
import re
from contextlib import suppress
from typing import Any, TypedDict

import msgspec

from gapless.core.chunk import Order
from gapless.core.errors import BadSelector, Unreadable, UsageError
from gapless.core.partitions import Scheme, checked_text
from gapless.core.retry import RetryPolicy
from gapless.core.selector import Selection, Selector, resolve, summary
from gapless.ledger import Ledger
from gapless.ledger.groups import Hook
from gapless.ledger.records import RESERVED, Backfill, BackfillRequest
from gapless.runtime.explain import Explanation, explain_chunk, explain_unplanned
from gapless.runtime.job import SHORTEST_TIMEOUT, Job, at_least
from gapless.system import SYSTEM, System

LARGEST = 2**53  # the largest integer that JSON and every client can represent
CHEAP = 10_000  # number of keys that can be read without a noticeable delay
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class BackfillOptions(TypedDict, total=False):
    """How a backfill is run. Options that are omitted or None come from the job."""

    chunk_size: int | None
    max_concurrent_runs: int  # 4
    queue: str  # `default`
    order: Order | str  # oldest first
    retry: RetryPolicy | str | None
    timeout: float | None  # maximum seconds for a run
    group: str | None  # its hook runs when all backfills of the group are done
    on_drained: Job | None  # that hook
    spec: dict[str, Any]  # parameters of the job, stored as JSON: names, never secrets
    id: str | None  # reusing an id returns the same backfill


def request_for(
    job: Job, selector: Selector, options: BackfillOptions, system: System = SYSTEM
) -> BackfillRequest:
    """Builds and validates the request to the ledger."""
    order = options.get("order", Order.OLDEST)
    if order not in set(Order):
        raise UsageError(f"unknown order `{order}`", hint="use `oldest` or `newest`")
    retry = options.get("retry") or job.retry
    chunk_size, timeout = options.get("chunk_size"), options.get("timeout")
    backfill_id, group = options.get("id"), options.get("group")
    return BackfillRequest(
        id=new_id(system) if backfill_id is None else _own_id(backfill_id),
        job=checked_text("job name", job.name),
        job_version=job.version,
        selector=summary(selector),
        selection=_countable(selector, job.partitions),
        chunk_size=_count("chunk size", job.chunk_size if chunk_size is None else chunk_size),
        max_concurrent_runs=_count("max concurrent", options.get("max_concurrent_runs", 4)),
        queue=_named("queue", options.get("queue", "default")),
        order=Order(order),
        retry=RetryPolicy.named(retry) if isinstance(retry, str) else retry,
        lease_seconds=job.lease_seconds,
        timeout=_timeout(job.timeout if timeout is None else timeout),
        group=None if group is None else _named("group", group),
        hook=_hook(options),
        spec=options.get("spec", {}),
    )


class Controller:
    """Retries and explains backfills."""

    def __init__(self, ledger: Ledger, system: System = SYSTEM) -> None:
        self._ledger = ledger
        self._system = system

    async def retry_failed(self, parent_id: str, request_id: str | None = None) -> Backfill:
        if request_id is not None:
            checked_text("request id", request_id)
        return await self._ledger.retry_failed(parent_id, new_id(self._system), request_id)

    async def retry_dead(self, parent_id: str, indices: list[int]) -> Backfill:
        return await self._ledger.retry_dead(parent_id, new_id(self._system), indices)

    async def explain(
        self, backfill_id: str, *, limit: int = 10, chunk_index: int | None = None
    ) -> list[Explanation]:
        """Why chunks run or wait: all that have not ended, or the given one."""
        backfill = await self._ledger.backfill(backfill_id)
        workers = await self._ledger.live_workers()
        unplanned = explain_unplanned(backfill, workers)
        if chunk_index is None:
            chunks = await self._ledger.open_chunks(backfill_id, limit)
        else:
            if not 0 <= chunk_index < backfill.chunks.total:
                raise BadSelector(
                    f"backfill `{backfill_id}` has no chunk {chunk_index}",
                    hint=_chunks_hint(backfill.chunks.total),
                )
            chunks = await self._ledger.chunks(backfill_id, chunk_index, chunk_index)
            if chunks:
                unplanned = None
        selection = await self._cheap_selection(backfill) if chunks else None
        found = [explain_chunk(backfill, chunk, workers, selection) for chunk in chunks]
        return [*found, unplanned] if unplanned else found

    async def _cheap_selection(self, backfill: Backfill) -> Selection | None:
        """The selection, unless its keys are unreadable or reading them would take long."""
        if backfill.selector["kind"] != "range" and backfill.partitions > CHEAP:
            return None
        with suppress(Unreadable):
            return await self._ledger.selection(backfill.selection)
        return None


def new_id(system: System = SYSTEM) -> str:
    """A short random id of 50 bits."""
    letters = base64.b32encode(system.random_bytes(10)).decode().lower()
    return f"bf_{letters[:10]}"


def _own_id(name: str) -> str:
    if name.startswith(RESERVED):
        raise UsageError(
            f"the id `{name}` is reserved: ids of hooks start with `{RESERVED}`",
            hint="choose another id, or omit it",
        )
    return _named("id", name)


def _named(what: str, name: str) -> str:
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"`{name}` is not a valid {what}", hint="use letters, digits, `_`, `.` and `-`"
        )
    return name


def _count(what: str, value: int) -> int:
    if not 1 <= value <= LARGEST:
        raise UsageError(f"{what} is {value}", hint=f"it must be from 1 to {LARGEST:,}")
    return value


def _timeout(seconds: float | None) -> float | None:
    return None if seconds is None else at_least(SHORTEST_TIMEOUT, "timeout", seconds)


def _countable(selector: Selector, scheme: Scheme) -> Selection:
    """The selection, if it fits the ledger's integers."""
    with suppress(OverflowError):
        selection = resolve(selector, scheme)
        highest = max((last for _, last in selection.spans[-1:]), default=0)
        if len(selection) <= LARGEST and highest <= LARGEST:
            return selection
    raise BadSelector("the selector is too large", hint=f"stay below {LARGEST:,}")


def _chunks_hint(total: int) -> str:
    return f"its chunks are 0 to {total - 1}" if total else "it has no chunks yet"


def _hook(options: BackfillOptions) -> str | None:
    hook = options.get("on_drained")
    if hook is None:
        return None
    if options.get("group") is None:
        raise UsageError("`on_drained` needs a group", hint="give the backfill a `group`")
    if hook.partitions.kind != "epochs":
        raise UsageError(
            f"`{hook.name}` cannot run when a group is drained",
            hint="declare it with `@gapless.job(partitions=gapless.epochs())`",
        )
    queue, spec = options.get("queue", "default"), options.get("spec", {})
    form = Hook(hook.name, hook.version, queue, hook.retry, spec, hook.timeout)
    return msgspec.json.encode(form).decode()
