"""Listing syncs: by group, wallet, network and state, in pages, with what follows from passes."""

from __future__ import annotations

import time
from typing import Any

import pytest

from gapless.core.retry import RetryPolicy
from gapless.ledger import Ledger
from gapless.ledger.syncs import Sync, SyncFilter, SyncKey, SyncState, Wallet, WalletKey, WalletPlan
from tests.support import (
    Clock,
    Home,
    PostgresHome,
    claim,
    claim_one,
    complete,
    done,
    fail,
    finish,
    open_at,
)
from tests.wallets import ALICE, BOB, CAROL, Target, add, new_id, states, sync_of

BASE = Target(network="base", chain_id=8453)
ONE_SEGMENT: dict[str, Any] = {"heights": (100, 109), "retry": RetryPolicy()}


async def listed(ledger: Ledger, **wanted: Any) -> list[tuple[str, str, str]]:
    found = await ledger.syncs(SyncFilter(**wanted))
    return [(each.key.group, each.key.address, each.network) for each in found]


async def in_every_state(ledger: Ledger) -> dict[str, str]:
    """One wallet in each state, named after it."""
    await add(ledger, "ABANDONED", **ONE_SEGMENT)
    await fail(ledger, await claim_one(ledger), permanent=True)
    await add(ledger, "COMPLETE", **ONE_SEGMENT)
    await finish(ledger)
    (cancelled,) = await add(ledger, "CANCELLED")
    await ledger.cancel(cancelled.passes[0])
    (paused,) = await add(ledger, "PAUSED")
    await ledger.pause(paused.passes[0])
    await add(ledger, "FAILED", **ONE_SEGMENT)
    await fail(ledger, await claim_one(ledger))
    await add(ledger, "RUNNING")
    await claim_one(ledger)
    await add(ledger, "PENDING")
    return {each.value: each.value for each in SyncState}


async def test_each_state_follows_from_the_passes(ledger: Ledger) -> None:
    expected = await in_every_state(ledger)
    assert await states(ledger) == expected
    await ledger.settle()
    assert await states(ledger) == expected


async def test_filter_by_state(ledger: Ledger) -> None:
    await in_every_state(ledger)
    for each in SyncState:
        assert await listed(ledger, state=each) == [("own", each.value, "ethereum")]
        assert await listed(ledger, state=each, network="base") == []
        assert await listed(ledger, state=each, group="other") == []
        assert await listed(ledger, state=each, address=each.value) != []


async def test_filters(ledger: Ledger) -> None:
    await add(ledger, ALICE, BOB, targets=[Target(), BASE, Target(group="a")])
    assert len(await listed(ledger)) == 6
    assert await listed(ledger, group="a") == [("a", ALICE, "ethereum"), ("a", BOB, "ethereum")]
    assert await listed(ledger, group="own", network="base") == [
        ("own", ALICE, "base"),
        ("own", BOB, "base"),
    ]
    assert await listed(ledger, address=BOB) == [
        ("a", BOB, "ethereum"),
        ("own", BOB, "ethereum"),
        ("own", BOB, "base"),
    ]
    assert await listed(ledger, address=BOB, network="base", group="own") == [("own", BOB, "base")]
    assert len(await listed(ledger, network="ethereum")) == 4
    assert await listed(ledger, group="none") == await listed(ledger, network="none") == []


@pytest.mark.parametrize("limit", [1, 2, 5, 100])
@pytest.mark.parametrize(
    "wanted",
    [
        SyncFilter(),
        SyncFilter(group="own"),
        SyncFilter(address="w-ü"),
        SyncFilter(network="base"),
        SyncFilter(state=SyncState.PENDING),
        SyncFilter(state=SyncState.COMPLETE),
        SyncFilter(group="Own", state=SyncState.PENDING, network="base"),
    ],
)
async def test_pages_are_the_list(ledger: Ledger, wanted: SyncFilter, limit: int) -> None:
    names = ["w-1", "W-1", "w-10", "w-2", "w-ü", "w-z"]
    groups = ("own", "Own", "own-2")
    await add(ledger, *names[:3], targets=[Target(group=each) for each in groups])
    await finish(ledger)
    others = [Target(group=each) for each in groups] + [BASE]
    await add(ledger, *names, targets=[*others, Target(group="own", sink_id="sink-2")])
    everything = await ledger.syncs(wanted)
    assert [each.key for each in everything] == sorted(each.key for each in everything)
    found: list[Sync] = []
    after: SyncKey | None = None
    while page := await ledger.syncs(wanted, after=after, limit=limit):
        assert len(page) <= limit
        found += page
        after = page[-1].key
    assert found == everything


async def test_pages_of_wallets(ledger: Ledger) -> None:
    await add(ledger, ALICE, BOB, CAROL, targets=[Target(), Target(group="a")])
    found: list[WalletKey] = []
    while page := await ledger.wallets(after=found[-1] if found else None, limit=2):
        found += [each.key for each in page]
    assert found == [(group, it) for group in ("a", "own") for it in (ALICE, BOB, CAROL)]
    assert [each.key for each in await ledger.wallets("own", limit=1)] == [("own", ALICE)]
    assert await ledger.wallets("own", after=WalletKey("own", CAROL)) == []


async def test_what_a_waiting_sync_shows(ledger: Ledger, clock: Clock) -> None:
    start = clock.now
    await add(ledger, ALICE, heights=(100, 194), label="mine")
    clock.now += 5
    first, second, third = await claim(ledger, 3)
    await complete(ledger, first)
    clock.now += 5
    await fail(ledger, second, done(13, (11, 12)))
    await fail(ledger, third)
    clock.now += 5
    alice = await sync_of(ledger, ALICE)
    assert (alice.created_at, alice.updated_at) == (start, start + 10)
    assert alice.progress.trouble is not None
    assert (alice.progress.trouble.attempts, alice.progress.trouble.error_class) == (1, "Boom")
    assert alice.progress.trouble.error_message == "it broke"
    assert (alice.progress.failed_runs, alice.progress.next_retry_at) == (2, start + 10 + 120)
    assert (alice.progress.processed_to, alice.progress.done) == (110, 10 + 4 - 2)
    counts = alice.progress.segments
    assert (counts.total, counts.pending, counts.failed, counts.complete) == (10, 7, 2, 1)
    assert (alice.progress.segments_pct, alice.progress.heights_pct) == (10.0, 12.63)


async def test_the_trouble_is_that_of_the_segment_to_be_retried_next(
    ledger: Ledger, clock: Clock
) -> None:
    await add(ledger, ALICE, heights=(100, 119))
    first, second = await claim(ledger, 2)
    await fail(ledger, first)
    clock.now += 30
    await fail(ledger, second)
    clock.now += 90
    await fail(ledger, await claim_one(ledger))
    alice = await sync_of(ledger, ALICE)
    assert alice.progress.trouble is not None
    assert alice.progress.trouble.attempts == 1
    clock.now += 30
    await complete(ledger, await claim_one(ledger))
    alice = await sync_of(ledger, ALICE)
    assert alice.progress.trouble is not None
    assert alice.progress.trouble.attempts == 2


async def test_a_heartbeat_updates_a_sync(ledger: Ledger, clock: Clock) -> None:
    await add(ledger, ALICE)
    mine = await claim_one(ledger)
    clock.now += 20
    await ledger.heartbeat([(mine, done(4))])
    alice = await sync_of(ledger, ALICE)
    assert (alice.updated_at, alice.progress.done, alice.progress.processed_to) == (
        clock.now,
        5,
        104,
    )


async def test_a_short_last_segment_counts_as_what_it_is(ledger: Ledger) -> None:
    wanted = Target().request([ALICE], (100, 193), max_concurrent_runs=10)
    await ledger.add_wallets([Wallet("own", ALICE)], lambda _: WalletPlan((wanted,)), new_id)
    claims = await claim(ledger, 10)
    await complete(ledger, claims[-1])
    assert (await sync_of(ledger, ALICE)).progress.done == 4
    await complete(ledger, *claims[1:-1])
    alice = await sync_of(ledger, ALICE)
    assert (alice.progress.done, alice.state, alice.progress.processed_to) == (84, "RUNNING", None)
    await complete(ledger, claims[0])
    alice = await sync_of(ledger, ALICE)
    assert (alice.progress.done, alice.progress.heights_pct, alice.state) == (94, 100.0, "COMPLETE")


async def test_what_was_cancelled_is_not_processed(ledger: Ledger) -> None:
    (alice,) = await add(ledger, ALICE)
    low, high = await claim(ledger, 2)
    await ledger.release(low, done())
    await ledger.cancel(alice.passes[0])
    alice = await sync_of(ledger, ALICE)
    assert (alice.state, alice.progress.processed_to) == ("RUNNING", None)
    await ledger.release(high, done(12))
    alice = await sync_of(ledger, ALICE)
    assert (alice.state, alice.progress.done, alice.progress.processed_to) == ("CANCELLED", 3, None)


async def test_passes_are_ordinary_backfills(ledger: Ledger) -> None:
    (alice,) = await add(ledger, ALICE)
    await finish(ledger)
    before = await sync_of(ledger, ALICE)
    assert [each.id for each in await ledger.backfills(hooks=False)] == [*alice.passes]
    assert await ledger.compact() > 0
    assert await sync_of(ledger, ALICE) == before


async def test_a_sync_of_a_damaged_pass_is_shown(breakable: Ledger, home: Home) -> None:
    (alice,) = await add(breakable, ALICE)
    await complete(breakable, await claim_one(breakable))
    value = r"'\x00'" if isinstance(home, PostgresHome) else "x'00'"
    await home.run(f"UPDATE selections SET data = {value}")
    alice = await sync_of(breakable, ALICE)
    assert (alice.state, alice.progress.done, alice.progress.processed_to) == ("PENDING", 10, None)
    await breakable.cancel(alice.passes[0])
    alice = await sync_of(breakable, ALICE)
    assert (alice.state, alice.progress.done, alice.progress.processed_to) == (
        "CANCELLED",
        10,
        None,
    )


@pytest.mark.parametrize("together", [True, False])
async def test_a_thousand_wallets_on_three_networks_are_listed_quickly(
    fresh_home: Home, together: bool
) -> None:
    ledger = await open_at(fresh_home)
    targets = [
        Target((0, 3_649), network=name, chain_id=chain_id)
        for chain_id, name in enumerate(("ethereum", "base", "optimism"))
    ]
    wallets = [f"0x{n:040x}" for n in range(1000)]
    step = 1000 if together else 50
    for at in range(0, 1000, step):
        await add(ledger, *wallets[at : at + step], targets=targets)
    for _ in range(20):
        for each in await claim(ledger, 4):
            await fail(ledger, each)
    found, quickest = [], 1.0
    for _ in range(10):
        begin = time.process_time()
        found = await ledger.syncs()
        quickest = min(quickest, time.process_time() - begin)
    assert len(found) == 3000
    assert quickest < 0.1, f"it took {quickest * 1000:.0f} ms of a processor"
    await ledger.close()
