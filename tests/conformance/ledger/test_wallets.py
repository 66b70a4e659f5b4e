"""Wallets are added in one transaction, with everything that is planned for them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from gapless.core.chunk import Order
from gapless.core.errors import Conflict, NotFound, UsageError
from gapless.ledger import Ledger
from gapless.ledger.database import LedgerTransaction
from gapless.ledger.syncs import (
    AddressSet,
    PlannedHeights,
    SyncFilter,
    SyncKey,
    Wallet,
    WalletPlan,
)
from tests.support import (
    Home,
    claim,
    complete,
    create,
    database_of,
    done,
    finish,
    statuses,
)
from tests.wallets import ALICE, BOB, CAROL, Target, add, new_id, sync_of

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
    seen: list[Mapping[SyncKey, PlannedHeights]] = []

    def planner(known: Mapping[SyncKey, PlannedHeights]) -> WalletPlan:
        seen.append(dict(known))
        return WalletPlan()

    await add(ledger, ALICE, BOB, targets=[Target(), TRON])
    assert await ledger.add_wallets([Wallet("own", ALICE)], planner, new_id) == []
    heights = {key: it.heights for key, it in seen[0].items()}
    assert heights == {Target().key(ALICE): (100, 199), TRON.key(ALICE): (7, 7)}
    assert {len(it.ways[""]) for it in seen[0].values()} == {100, 1}


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
