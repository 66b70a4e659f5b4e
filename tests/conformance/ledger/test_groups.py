"""A drained group runs its hook once per epoch, durably, and never just because it looked empty."""

from __future__ import annotations

import asyncio

import msgspec

from gapless.core.retry import RetryPolicy
from gapless.ledger import Ledger
from gapless.ledger.groups import Hook
from tests.support import (
    Clock,
    claim,
    claim_one,
    complete,
    create,
    fail,
    finish,
    state,
    survey,
)

SPEC = {"sink": "main"}
HOOK = msgspec.json.encode(Hook("recalc", 3, "default", RetryPolicy.unbounded(), SPEC)).decode()


async def join(ledger: Ledger, backfill_id: str, *, partitions: int = 2) -> None:
    await create(ledger, backfill_id, partitions=partitions, group="wallets", hook=HOOK)


async def epochs(ledger: Ledger) -> list[str]:
    return [hook.id for hook in await ledger.close_epochs()]


async def test_the_hook_runs_once_when_everything_completed(ledger: Ledger) -> None:
    await join(ledger, "a")
    await finish(ledger)
    (hook,) = await ledger.close_epochs()
    assert (hook.id, hook.job, hook.job_version) == ("drained-wallets-1", "recalc", 3)
    assert (hook.queue, hook.retry, hook.group) == ("default", RetryPolicy.unbounded(), None)
    assert hook.spec == SPEC
    assert (await ledger.selection(hook.selection)).all_keys() == ["1"]
    assert await epochs(ledger) == []
    await finish(ledger, jobs=(("recalc", 3),))
    assert await state(ledger, hook.id) == "SUCCEEDED"
    assert await epochs(ledger) == []


async def test_more_work_makes_one_more_epoch(ledger: Ledger) -> None:
    for number in (1, 2, 3):
        await join(ledger, f"bf{number}")
        await finish(ledger)
        assert await epochs(ledger) == [f"drained-wallets-{number}"]


async def test_an_unplanned_chunk_delays_the_hook(ledger: Ledger) -> None:
    await join(ledger, "a")
    await finish(ledger)
    await join(ledger, "b")
    assert await epochs(ledger) == []


async def test_a_pending_chunk_delays_the_hook(ledger: Ledger) -> None:
    await join(ledger, "a")
    await complete(ledger, await claim_one(ledger))
    assert await epochs(ledger) == []


async def test_a_running_chunk_delays_the_hook_even_past_its_lease(
    ledger: Ledger, clock: Clock
) -> None:
    await join(ledger, "a")
    first, _ = await claim(ledger, 2)
    await complete(ledger, first)
    assert await epochs(ledger) == []
    clock.now += 1000
    assert await epochs(ledger) == []


async def test_a_chunk_in_backoff_does_not_delay_the_hook(ledger: Ledger, clock: Clock) -> None:
    await join(ledger, "a")
    first, second = await claim(ledger, 2)
    await complete(ledger, first)
    await fail(ledger, second)
    assert await epochs(ledger) == ["drained-wallets-1"]
    clock.now += 120
    await finish(ledger, only="a")
    assert await epochs(ledger) == ["drained-wallets-2"]


async def test_nothing_completed_means_no_epoch(ledger: Ledger) -> None:
    await join(ledger, "a", partitions=1)
    await fail(ledger, await claim_one(ledger), permanent=True)
    await ledger.settle()
    assert await epochs(ledger) == []


async def test_a_paused_backfill_with_work_delays_the_hook(ledger: Ledger) -> None:
    await join(ledger, "a")
    await complete(ledger, await claim_one(ledger))
    await ledger.pause("a")
    assert await epochs(ledger) == []


async def test_a_cancelled_backfill_does_not_delay_the_hook(ledger: Ledger) -> None:
    await join(ledger, "a", partitions=1000)
    await complete(ledger, await claim_one(ledger))
    await ledger.cancel("a")
    assert await epochs(ledger) == ["drained-wallets-1"]


async def test_a_cancelling_backfill_delays_the_hook_only_for_its_active_chunk(
    ledger: Ledger,
) -> None:
    await join(ledger, "a", partitions=1000)
    first, second = await claim(ledger, 2)
    await complete(ledger, first)
    await ledger.cancel("a")
    assert await epochs(ledger) == []
    await complete(ledger, second)
    assert await epochs(ledger) == ["drained-wallets-1"]


async def test_groups_do_not_wait_for_each_other(ledger: Ledger) -> None:
    await join(ledger, "a")
    await finish(ledger)
    await create(ledger, "b", group="others", hook=HOOK)
    await create(ledger, "c")
    assert await ledger.close_epochs(["others"]) == []
    assert await epochs(ledger) == ["drained-wallets-1"]


async def test_a_group_without_a_hook_has_no_epochs(ledger: Ledger) -> None:
    await create(ledger, "a", partitions=1, group="quiet")
    await finish(ledger)
    assert await ledger.close_epochs(["quiet"]) == []


async def test_concurrent_callers_make_one_epoch(ledger: Ledger, other: Ledger) -> None:
    await join(ledger, "a")
    await finish(ledger)
    hooks = await asyncio.gather(*(each.close_epochs() for each in [ledger, other] * 4))
    assert [hook.id for made in hooks for hook in made] == ["drained-wallets-1"]


async def test_a_retry_belongs_to_the_group_of_its_parent(ledger: Ledger) -> None:
    await join(ledger, "a")
    first, second = await claim(ledger, 2)
    await complete(ledger, first)
    await fail(ledger, second, permanent=True)
    await ledger.settle()
    assert await epochs(ledger) == ["drained-wallets-1"]
    await ledger.retry_failed("a", "child")
    assert await epochs(ledger) == []
    await finish(ledger, only="child")
    assert await epochs(ledger) == ["drained-wallets-2"]


async def test_a_quiet_time_makes_one_epoch_of_what_is_added_one_by_one(
    ledger: Ledger, clock: Clock
) -> None:
    for number in range(5):
        clock.now += 20
        wanted = {"partitions": 1, "group": "wallets", "hook": HOOK, "quiet_seconds": 30.0}
        await create(ledger, f"bf{number}", **wanted)
        await finish(ledger)
        assert await epochs(ledger) == []
        assert (await survey(ledger)).drained == []
    clock.now += 30
    assert (await survey(ledger)).drained == ["wallets"]
    assert await epochs(ledger) == ["drained-wallets-1"]
    assert await epochs(ledger) == []


async def test_a_hook_in_a_hurry_does_not_wait_for_quiet(ledger: Ledger, clock: Clock) -> None:
    await create(ledger, partitions=1, group="wallets", hook=HOOK, quiet_seconds=30.0)
    await finish(ledger)
    assert await epochs(ledger) == []
    (hook,) = await ledger.close_epochs(hurry=True)
    assert hook.id == "drained-wallets-1"
    clock.now += 60
    assert await epochs(ledger) == []


async def test_a_clock_that_jumps_back_does_not_prolong_the_quiet_time(
    ledger: Ledger, clock: Clock
) -> None:
    await create(ledger, partitions=1, group="wallets", hook=HOOK, quiet_seconds=30.0)
    await finish(ledger)
    clock.now -= 1_000_000
    assert await epochs(ledger) == ["drained-wallets-1"]


async def test_segments_that_wait_for_ever_delay_no_epoch(ledger: Ledger, clock: Clock) -> None:
    """With unbounded retries, only what completes makes an epoch, however much keeps failing."""
    await create(
        ledger, "a", partitions=2, group="wallets", hook=HOOK, retry=RetryPolicy.unbounded()
    )
    first, second = await claim(ledger, 2)
    await complete(ledger, first)
    await fail(ledger, second)
    assert await epochs(ledger) == ["drained-wallets-1"]
    for _ in range(12):
        clock.now += 4000
        retried = await claim_one(ledger, only="a")
        assert await epochs(ledger) == []
        await fail(ledger, retried, permanent=True)
        assert await epochs(ledger) == []
    clock.now += 4000
    await finish(ledger, only="a")
    assert await epochs(ledger) == ["drained-wallets-2"]
