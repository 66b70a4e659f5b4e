"""Wallets are added in one transaction, with everything that is planned for them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from gapless.core.chunk import Order
from gapless.core.errors import Conflict, NotFound, UsageError
from gapless.core.ranges import Span
from gapless.core.retry import RetryPolicy
from gapless.ledger import Ledger
from gapless.ledger.database import LedgerTransaction
from gapless.ledger.syncs import (
    AddressSet,
    SyncFilter,
    SyncKey,
    Wallet,
    WalletKey,
    WalletPlan,
)
from tests.support import (
    Clock,
    Home,
    claim,
    claim_one,
    complete,
    create,
    database_of,
    done,
    fail,
    finish,
    state,
    statuses,
)
from tests.wallets import ALICE, BOB, CAROL, Target, add, new_id, states, sync_of

TRON = Target(heights=(7, 7), network="tron", chain_id=728126428, chunk_size=1)
TABLES = ("wallets", "syncs", "sync_passes", "address_sets", "backfills", "chunks", "events")


async def test_wallets_added_together_share_one_planned_pass(ledger: Ledger) -> None:
    one, two = await add(ledger, BOB, ALICE)
    assert (one.key.address, two.key.address) == (ALICE, BOB)
    assert one.passes == two.passes
    (backfill,) = await ledger.backfills()
    assert (backfill.id,) == one.passes
    assert backfill.chunks.planned == backfill.chunks.total == 10
    assert await statuses(ledger, backfill.id) == ["PENDING"] * 10
    addresses = await ledger.address_set(backfill.spec["address_set"])
    assert addresses == AddressSet.of(1, [BOB, ALICE])
    assert (one.heights, one.network, one.sink) == ((100, 199), "ethereum", "main")


async def test_many_networks_and_groups_are_added_at_once(ledger: Ledger) -> None:
    targets = [Target(), TRON, Target(group="other", sink="copy", sink_id="sink-2")]
    assert len(await add(ledger, ALICE, BOB, targets=targets)) == 6
    assert len(await ledger.backfills()) == 3
    assert [each.key for each in await ledger.wallets()] == [
        (group, address) for group in ("other", "own") for address in (ALICE, BOB)
    ]


async def test_a_wallet_that_is_added_later_has_a_pass_of_its_own(ledger: Ledger) -> None:
    await add(ledger, ALICE)
    (bob,) = await add(ledger, BOB)
    assert (await sync_of(ledger, ALICE)).passes != bob.passes


async def test_an_earlier_start_is_a_second_pass_with_a_common_progress(ledger: Ledger) -> None:
    await add(ledger, ALICE)
    await finish(ledger)
    (alice,) = await add(ledger, ALICE, heights=(50, 199))
    assert (alice.heights, len(alice.passes), alice.state) == ((50, 199), 2, "PENDING")
    assert (
        alice.progress.segments.complete,
        alice.progress.segments.total,
        alice.progress.segments_pct,
    ) == (10, 15, 66.67)
    assert (alice.progress.done, alice.progress.processed_to) == (100, None)
    await finish(ledger)
    alice = await sync_of(ledger, ALICE)
    assert (alice.state, alice.progress.done, alice.progress.processed_to) == ("COMPLETE", 150, 199)


async def test_both_ends_can_be_extended_at_once(ledger: Ledger) -> None:
    await add(ledger, ALICE)
    await add(ledger, BOB, heights=(100, 149))
    await add(ledger, ALICE, BOB, heights=(0, 299))
    assert [each.heights for each in await ledger.syncs()] == [(0, 299)] * 2
    spans = [(await ledger.selection(each.selection)).spans[0] for each in await ledger.backfills()]
    assert sorted(spans) == [(0, 99), (100, 149), (100, 199), (150, 299), (200, 299)]


async def test_a_complete_sync_that_is_added_again_does_not_change(ledger: Ledger) -> None:
    await add(ledger, ALICE)
    await finish(ledger)
    before = await sync_of(ledger, ALICE)
    assert await add(ledger, ALICE) == [before]
    assert len(await ledger.backfills()) == 1


async def test_adding_again_makes_waiting_segments_due(ledger: Ledger, clock: Clock) -> None:
    await add(ledger, ALICE, heights=(100, 109))
    await fail(ledger, await claim_one(ledger))
    assert (await sync_of(ledger, ALICE)).state == "FAILED"
    assert await claim(ledger) == []
    (alice,) = await add(ledger, ALICE, heights=(100, 109))
    assert alice.progress.next_retry_at == clock.now
    await complete(ledger, await claim_one(ledger))
    assert (await sync_of(ledger, ALICE)).state == "COMPLETE"


@pytest.mark.parametrize("settled", [True, False])
async def test_adding_again_retries_abandoned_segments_in_a_child(
    ledger: Ledger, settled: bool
) -> None:
    await add(ledger, ALICE, BOB, chunk_size=50, retry=RetryPolicy())
    good, bad = await claim(ledger, 2)
    await complete(ledger, good)
    await fail(ledger, bad, done(59, (55, 56)), permanent=True)
    if settled:
        await ledger.settle()
    alice = await sync_of(ledger, ALICE)
    assert (alice.state, alice.progress.done, alice.progress.processed_to) == ("ABANDONED", 58, 154)
    (alice,) = await add(ledger, ALICE, chunk_size=50)
    assert (alice.state, len(alice.passes), alice.progress.trouble) == ("PENDING", 2, None)
    assert (alice.progress.segments.complete, alice.progress.segments.total) == (1, 2)
    child = await ledger.backfill(alice.passes[1])
    assert child.parent_backfill_id == alice.passes[0]
    assert child.chunks.planned == child.chunks.total
    assert (await ledger.selection(child.selection)).spans == ((155, 156), (160, 199))
    assert (await sync_of(ledger, BOB)).passes == alice.passes
    again = await add(ledger, ALICE, BOB, chunk_size=50)
    assert [each.passes for each in again] == [alice.passes] * 2
    await finish(ledger)
    assert await states(ledger) == {ALICE: "COMPLETE", BOB: "COMPLETE"}
    assert (await sync_of(ledger, BOB)).progress.done == 100


async def test_adding_again_retries_dead_letters_of_a_pass_that_still_runs(ledger: Ledger) -> None:
    await add(ledger, ALICE, chunk_size=50, retry=RetryPolicy())
    dead, running = await claim(ledger, 2)
    await fail(ledger, dead, permanent=True)
    (alice,) = await add(ledger, ALICE, chunk_size=50)
    assert (alice.state, alice.progress.segments.total, alice.progress.segments.abandoned) == (
        "RUNNING",
        2,
        0,
    )
    await complete(ledger, running)
    await finish(ledger)
    assert (await sync_of(ledger, ALICE)).state == "COMPLETE"


async def test_a_child_that_fails_is_retried_too(ledger: Ledger) -> None:
    for _ in range(3):
        await add(ledger, ALICE, heights=(100, 109), retry=RetryPolicy())
        await fail(ledger, await claim_one(ledger), permanent=True)
        await ledger.settle()
    alice = await sync_of(ledger, ALICE)
    assert (alice.state, len(alice.passes), alice.progress.failed_runs) == ("ABANDONED", 3, 3)
    assert (alice.progress.segments.total, alice.progress.segments.abandoned) == (1, 1)


async def test_a_cancelled_pass_is_retried_where_it_stopped(ledger: Ledger) -> None:
    (alice,) = await add(ledger, ALICE)
    await ledger.release(await claim_one(ledger), done(3))
    await complete(ledger, *(await claim(ledger, 3))[1:])
    await ledger.cancel(alice.passes[0], force=True)
    alice = await sync_of(ledger, ALICE)
    assert (alice.state, alice.progress.done, alice.progress.processed_to) == ("CANCELLED", 24, 103)
    (alice,) = await add(ledger, ALICE)
    assert alice.state == "PENDING"
    await finish(ledger)
    assert (await sync_of(ledger, ALICE)).progress.done == 100


async def test_a_retry_that_a_person_starts_counts_too(ledger: Ledger) -> None:
    (alice,) = await add(ledger, ALICE, retry=RetryPolicy(), chunk_size=50)
    for each in await claim(ledger, 2):
        await fail(ledger, each, permanent=True)
    await ledger.retry_dead(alice.passes[0], "by hand", [1])
    await finish(ledger)
    assert (await sync_of(ledger, ALICE)).state == "ABANDONED"
    await ledger.purge(alice.passes[0], [0])
    alice = await sync_of(ledger, ALICE)
    assert (alice.state, alice.progress.done, alice.progress.processed_to) == (
        "ABANDONED",
        50,
        None,
    )
    await add(ledger, ALICE)
    await finish(ledger)
    assert (await sync_of(ledger, ALICE)).state == "COMPLETE"


async def test_a_paused_pass_stays_paused(ledger: Ledger) -> None:
    (alice,) = await add(ledger, ALICE)
    await ledger.pause(alice.passes[0])
    assert [each.state for each in await add(ledger, ALICE)] == ["PAUSED"]


async def test_a_label_changes_only_if_one_is_given(ledger: Ledger) -> None:
    await add(ledger, ALICE, label="savings")
    await add(ledger, ALICE)
    assert (await sync_of(ledger, ALICE)).label == "savings"
    await add(ledger, ALICE, label="spending")
    (wallet,) = await ledger.wallets("own")
    assert wallet.label == "spending"


async def test_names_of_network_and_sink_may_change(ledger: Ledger) -> None:
    await add(ledger, ALICE)
    await add(ledger, ALICE, network="mainnet", sink="copy", heights=(100, 209))
    alice = await sync_of(ledger, ALICE)
    assert (alice.network, alice.sink, alice.heights) == ("mainnet", "copy", (100, 209))
    assert await ledger.syncs(SyncFilter(network="ethereum")) == []


async def test_concurrent_adds_plan_a_wallet_once(ledger: Ledger, other: Ledger) -> None:
    await asyncio.gather(
        *(add(each, ALICE, BOB, targets=[Target(), TRON]) for each in [ledger, other] * 4)
    )
    assert len(await ledger.backfills()) == 2
    assert {len(each.passes) for each in await ledger.syncs()} == {1}


async def test_concurrent_adds_of_overlapping_sets_plan_each_wallet_once(
    ledger: Ledger, other: Ledger
) -> None:
    pairs = [(ALICE, BOB), (BOB, CAROL), (CAROL, ALICE)]
    await asyncio.gather(
        *(
            add(one, *pair, heights=(100 - n, 199))
            for one in (ledger, other)
            for n, pair in enumerate(pairs)
        )
    )
    found = {each.key.address: each.heights for each in await ledger.syncs()}
    assert found == {ALICE: (98, 199), BOB: (99, 199), CAROL: (98, 199)}
    assert await ledger.check() == []


async def test_concurrent_adding_and_removing_leaves_whole_syncs(
    ledger: Ledger, other: Ledger
) -> None:
    await add(ledger, ALICE, BOB, retry=RetryPolicy())
    for each in await claim(ledger, 4):
        await fail(ledger, each, permanent=True)
    (pass_id,) = (await sync_of(ledger, ALICE)).passes
    results = await asyncio.gather(
        add(ledger, ALICE),
        other.remove_wallets([WalletKey("own", ALICE)]),
        ledger.retry_dead(pass_id, "by hand", [0]),  # unless it is too late
        add(other, BOB),
        return_exceptions=True,
    )
    for result in (results[0], results[1], results[3]):
        assert not isinstance(result, BaseException), result
    assert await ledger.check() == []


class Stopped(Exception):
    pass


async def _stops_after(ledger: Ledger, statements: int, targets: list[Target]) -> bool:
    """Adds wallets in a process that dies after some statements; whether it came to its end."""
    database = database_of(ledger)
    transact = database.transact
    left = statements

    async def dying(body: Any, **options: Any) -> Any:
        async def until(tx: LedgerTransaction) -> Any:
            inner_fetch, inner_fetch_as = tx.fetch, tx.fetch_as

            def count() -> None:
                nonlocal left
                left -= 1
                if left < 0:
                    raise Stopped

            async def fetch(statement: str, **parameters: Any) -> Any:
                count()
                return await inner_fetch(statement, **parameters)

            async def fetch_as(kind: type, statement: str, **parameters: Any) -> Any:
                count()
                return await inner_fetch_as(kind, statement, **parameters)

            tx.fetch, tx.fetch_as = fetch, fetch_as  # type: ignore[method-assign]
            return await body(tx)

        return await transact(until, **options)

    database.transact = dying  # type: ignore[method-assign]
    try:
        await add(ledger, ALICE, BOB, targets=targets)
    except Stopped:
        return False
    finally:
        del database.transact
    return True


async def test_nothing_is_written_unless_everything_is(ledger: Ledger, home: Home) -> None:
    targets = [Target(chunk_size=50), TRON]
    for statements in range(200):
        if await _stops_after(ledger, statements, targets):
            break
        for table in TABLES:
            assert await home.run(f"SELECT count(*) FROM {table}") == [(0,)]
    assert statements > 20
    assert len(await ledger.syncs()) == 4


async def test_a_plan_has_at_most_365_segments(ledger: Ledger) -> None:
    with pytest.raises(UsageError, match="would have 366 segments"):
        await add(ledger, ALICE, heights=(0, 365), chunk_size=1)
    assert await ledger.wallets() == []
    await add(ledger, ALICE, heights=(0, 364), chunk_size=1)
    (backfill,) = await ledger.backfills()
    assert backfill.chunks.planned == 365


@pytest.mark.parametrize("heights", [(50, 98), (50, 100), (150, 250), (201, 250), (100, 199)])
async def test_a_pass_that_leaves_or_repeats_heights_is_refused(
    ledger: Ledger, heights: tuple[int, int]
) -> None:
    await add(ledger, ALICE)
    wanted = Target().request([ALICE], heights)
    with pytest.raises(UsageError, match="does not continue the heights 100 to 199"):
        await ledger.add_wallets([Wallet("own", ALICE)], lambda _: WalletPlan((wanted,)), new_id)
    assert len(await ledger.backfills()) == 1


async def test_a_pass_is_for_wallets_that_are_added(ledger: Ledger) -> None:
    wanted = Target().request([ALICE, BOB], (0, 9))
    with pytest.raises(UsageError, match=f"looks for `{BOB}`, which is not added"):
        await ledger.add_wallets([Wallet("own", ALICE)], lambda _: WalletPlan((wanted,)), new_id)


@pytest.mark.parametrize("more", [{"standing": True, "follow": "f", "group": None}])
def test_a_pass_covers_one_range_of_heights(more: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Target().request([ALICE], (0, 9), **more)
    with pytest.raises(UsageError, match="looks for no address"):
        Target().request([], (0, 9))


async def test_an_id_that_is_taken_adds_nothing(ledger: Ledger) -> None:
    await create(ledger, "taken")
    wanted = Target().request([ALICE], (0, 9), id="taken")
    with pytest.raises(Conflict):
        await ledger.add_wallets([Wallet("own", ALICE)], lambda _: WalletPlan((wanted,)), new_id)
    assert await ledger.wallets() == []


async def test_the_planner_sees_what_is_planned(ledger: Ledger) -> None:
    seen: list[Mapping[SyncKey, Span]] = []

    def planner(known: Mapping[SyncKey, Span]) -> WalletPlan:
        seen.append(dict(known))
        return WalletPlan()

    await add(ledger, ALICE, BOB, targets=[Target(), TRON])
    assert await ledger.add_wallets([Wallet("own", ALICE)], planner, new_id) == []
    assert seen == [{Target().key(ALICE): (100, 199), TRON.key(ALICE): (7, 7)}]


async def test_removing_a_wallet_cancels_what_only_it_needed(ledger: Ledger) -> None:
    (alice,) = await add(ledger, ALICE, heights=(0, 99))
    await add(ledger, ALICE, BOB, heights=(0, 149))
    shared = (await sync_of(ledger, BOB)).passes
    cancelled = await ledger.remove_wallets([WalletKey("own", ALICE)])
    assert alice.passes[0] in {each.id for each in cancelled}
    assert shared[0] not in {each.id for each in cancelled}
    assert await state(ledger, alice.passes[0]) == "CANCELLED"
    assert await states(ledger) == {BOB: "PENDING"}
    assert [each.address for each in await ledger.wallets()] == [BOB]


async def test_a_shared_pass_goes_on_until_its_last_wallet_is_removed(ledger: Ledger) -> None:
    (alice, _) = await add(ledger, ALICE, BOB)
    assert await ledger.remove_wallets([WalletKey("own", ALICE)]) == []
    (cancelled,) = await ledger.remove_wallets([WalletKey("own", BOB)])
    assert (cancelled.id,) == alice.passes
    assert await ledger.syncs() == []


async def test_a_removed_wallet_can_be_added_again(ledger: Ledger) -> None:
    (before,) = await add(ledger, ALICE)
    await finish(ledger)
    assert await ledger.remove_wallets([WalletKey("own", ALICE)]) == []
    (after,) = await add(ledger, ALICE)
    assert before.passes != after.passes
    assert (after.state, after.progress.done) == ("PENDING", 0)


async def test_a_wallet_moves_by_being_added_to_the_other_group_first(ledger: Ledger) -> None:
    (here,) = await add(ledger, ALICE, label="mine")
    (there,) = await add(ledger, ALICE, group="other")
    assert here.passes != there.passes
    await ledger.remove_wallets([WalletKey("own", ALICE)])
    assert await state(ledger, here.passes[0]) == "CANCELLED"
    moved = await sync_of(ledger, ALICE)
    assert (moved.key.group, moved.label, moved.state) == ("other", None, "PENDING")


async def test_an_unknown_wallet_cannot_be_removed(ledger: Ledger) -> None:
    await add(ledger, ALICE)
    with pytest.raises(NotFound, match=f"no wallet `{BOB}` in the group `own`"):
        await ledger.remove_wallets([WalletKey("own", ALICE), WalletKey("own", BOB)])
    assert await states(ledger) == {ALICE: "PENDING"}


async def test_an_unknown_address_set_is_an_error(ledger: Ledger) -> None:
    with pytest.raises(NotFound, match="no address set"):
        await ledger.address_set("0" * 64)


@pytest.mark.parametrize("order", Order)
async def test_what_is_processed_counts_from_the_first_height(ledger: Ledger, order: Order) -> None:
    wanted = Target().request([ALICE], (100, 194), order=order)
    await ledger.add_wallets([Wallet("own", ALICE)], lambda _: WalletPlan((wanted,)), new_id)
    claims = {each.chunk_index: each for each in await claim(ledger, 4)}
    for index in sorted(claims)[1:]:
        await complete(ledger, claims[index])
    alice = await sync_of(ledger, ALICE)
    low = min(claims)
    assert alice.progress.done == sum(
        each.span.size for index, each in claims.items() if index != low
    )
    assert alice.progress.processed_to is None
    await ledger.heartbeat([(claims[low], done(claims[low].span.first + 3))])
    alice = await sync_of(ledger, ALICE)
    assert alice.progress.processed_to == (103 if order is Order.OLDEST else None)
    await finish(ledger)
    await complete(ledger, claims[low])
    assert (await sync_of(ledger, ALICE)).progress.processed_to == 194
