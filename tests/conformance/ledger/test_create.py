"""Creating a backfill is idempotent by id, stores the request, and writes one event."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from gapless.core.backfill import State
from gapless.core.chunk import Order
from gapless.core.errors import Conflict, NotFound
from gapless.core.events import BackfillCreated
from gapless.core.remedies import ListBackfills
from gapless.core.retry import RetryPolicy
from gapless.core.selector import Selection
from gapless.ledger import Ledger
from tests.support import NOON, create, event_types, plan, request


async def test_a_new_backfill_is_pending_with_nothing_planned(ledger: Ledger) -> None:
    backfill = await create(ledger, partitions=10, chunk_size=4)
    assert backfill.state is State.PENDING
    assert backfill.lifecycle.state_version == 0
    assert (backfill.partitions, backfill.chunks.total, backfill.chunks.planned) == (10, 3, 0)
    assert backfill.progress_pct == 0
    assert (backfill.created_at, backfill.started_at, backfill.ended_at) == (NOON, None, None)
    assert await ledger.chunks("bf") == []


async def test_the_whole_request_is_stored(ledger: Ledger) -> None:
    wanted = request(
        max_concurrent_runs=7,
        queue="backlog",
        order=Order.NEWEST,
        retry=RetryPolicy.schedule(1, 2, 3),
        lease_seconds=180,
        group="wallets",
        spec={"network": "ethereum", "tables": ["blocks", "logs"], "deep": {"a": None}},
    )
    backfill = await ledger.create(wanted)
    for name in ("job", "job_version", "selector", "chunk_size", "max_concurrent_runs", "queue"):
        assert getattr(backfill, name) == getattr(wanted, name)
    for name in ("order", "retry", "lease_seconds", "group", "spec"):
        assert getattr(backfill, name) == getattr(wanted, name)
    assert await ledger.selection(backfill.selection) == wanted.selection
    created, _ = (await ledger.events("bf"))[0]
    assert isinstance(created, BackfillCreated)
    assert created.spec == wanted.spec


async def test_the_order_of_a_spec_does_not_matter(ledger: Ledger) -> None:
    await create(ledger, spec={"a": 1, "b": 2})
    await create(ledger, spec={"b": 2, "a": 1})
    assert len(await ledger.backfills()) == 1


async def test_the_same_request_again_returns_the_existing_backfill(ledger: Ledger) -> None:
    first = await create(ledger)
    await ledger.pause("bf")
    again = await create(ledger)
    assert again.created_at == first.created_at
    assert again.state is State.PAUSED
    assert len(await ledger.backfills()) == 1
    assert (await event_types(ledger)).count("BackfillCreated") == 1


@pytest.mark.parametrize(
    "change",
    [{"job": "move"}, {"partitions": 11}, {"chunk_size": 2}, {"spec": {"network": "sepolia"}}],
)
async def test_an_id_taken_by_another_request_is_a_conflict(
    ledger: Ledger, change: dict[str, Any]
) -> None:
    before = await create(ledger)
    with pytest.raises(Conflict, match="`bf` belongs to another backfill, of job `copy`"):
        await create(ledger, **change)
    assert await ledger.backfill("bf") == before


async def test_the_event_contains_the_request(ledger: Ledger) -> None:
    backfill = await create(ledger, partitions=10, chunk_size=4)
    ((event, row),) = await ledger.events("bf")
    assert event == BackfillCreated(
        "bf",
        "copy",
        1,
        {"kind": "range", "start": "100", "end": "109"},
        backfill.selection,
        10,
        4,
        4,
        "default",
        "oldest",
        {},
    )
    assert (row.actor, row.at) == ("test", NOON)


async def test_many_keys_are_stored_once_and_the_event_stays_small(ledger: Ledger) -> None:
    selection = Selection("static", keys=tuple(f"wallet-{n}" for n in range(100_000)))
    small = {"kind": "explicit", "keys": ["wallet-0"], "more": 99_999}
    for name in ("one", "two"):
        await create(ledger, name, selection=selection, selector=small, chunk_size=1000)
    ((_, row),) = await ledger.events("one")
    assert len(row.payload) < 1024
    one, two = await ledger.backfills()
    assert one.selection == two.selection == selection.digest
    assert (await ledger.selection(selection.digest)) == selection


async def test_a_retry_policy_is_stored_exactly(ledger: Ledger) -> None:
    policies = [
        RetryPolicy.backoff(base=1, max_delay=8, jitter=0.5, retries=2),
        RetryPolicy.unbounded(base=3),
        RetryPolicy.schedule(),
        RetryPolicy.halt(),
        RetryPolicy(lost_limit=3),
    ]
    for number, policy in enumerate(policies):
        assert (await create(ledger, f"bf{number}", retry=policy)).retry == policy


@pytest.mark.parametrize(
    "ask",
    [
        lambda ledger: ledger.backfill("no"),
        lambda ledger: plan(ledger, "no", 1),
        lambda ledger: ledger.pause("no"),
        lambda ledger: ledger.resume("no"),
        lambda ledger: ledger.cancel("no"),
        lambda ledger: ledger.retry_failed("no", "child"),
        lambda ledger: ledger.retry_dead("no", "child", [0]),
    ],
)
async def test_an_unknown_backfill_is_not_found(
    ledger: Ledger, ask: Callable[[Ledger], Awaitable[object]]
) -> None:
    with pytest.raises(NotFound, match="there is no backfill `no`") as error:
        await ask(ledger)
    assert error.value.remedy == ListBackfills()
