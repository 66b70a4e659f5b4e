"""Members: watched from a height on, without a seam to what was stored before."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from gapless.chains.movements import Movement
from gapless.chains.opening import open_sink
from gapless.core.ranges import Span
from gapless.sinks import AccompaniedSink
from gapless.wallets.records import Page
from gapless.wallets.store import WalletStore
from tests.conformance.sink.stage import CHAIN_ID
from tests.conformance.wallet_store.stage import (
    ALL,
    NETWORK,
    RULES,
    WALLETS,
    blocks,
    entries_of,
    moved,
    scan,
)

US = WALLETS[:2]


async def known(store: WalletStore, addresses: Any = WALLETS) -> list[Movement]:
    found = [it async for piece in store.stream(CHAIN_ID, addresses) for it in piece]
    return sorted(found, key=lambda it: it.key)


async def join(
    store: WalletStore, above: int, addresses: Any = US, group: str = "home"
) -> list[Movement]:
    return await store.add_members(group, NETWORK, RULES, addresses, above)


async def test_movements_above_the_height_are_derived_from_stored_rows(
    store: WalletStore, sink: AccompaniedSink
) -> None:
    await sink.write(blocks(0, 30), 1)
    derived = await join(store, 12)
    assert derived == moved(Span(13, 30), US) == await known(store)
    (first, second) = await store.members(CHAIN_ID)
    assert (first.address, first.above, first.group) == (US[0], 12, "home")
    assert (second.address, second.epoch, second.is_complete) == (US[1], 0, False)


async def test_only_blocks_with_all_tables_count(store: WalletStore, sink: AccompaniedSink) -> None:
    await sink.write(blocks(0, 9), 1)
    await sink.write(blocks(10, 14, names=("blocks", "transactions")), 1)
    await sink.write(blocks(15, 19), 1)
    expected = moved(Span(5, 9), US) + moved(Span(15, 19), US)
    assert await join(store, 4) == expected
    await sink.write(blocks(10, 14, names=("blocks", "logs")), 1)  # now the rest is there
    assert await known(store) == moved(Span(5, 19), US)


async def test_new_blocks_are_watched(store: WalletStore, sink: AccompaniedSink) -> None:
    await join(store, 12)
    await sink.write(blocks(0, 30), 1)
    assert await known(store) == moved(Span(13, 30), US)
    await sink.write(blocks(0, 30), 2)  # once more
    assert await known(store) == moved(Span(13, 30), US)


async def test_a_branch_that_left_the_chain_takes_everything_with_it(
    store: WalletStore, sink: AccompaniedSink
) -> None:
    await join(store, 12)
    await sink.write(blocks(0, 30), 1)
    before = {each.token: each.amount for each in await store.balances("home", [US[0]])}
    await sink.retract(CHAIN_ID, Span(25, 30), 2)
    assert await known(store) == moved(Span(13, 24), US)
    await sink.write(blocks(20, 33, branch=1), 3)  # replaces 20 to 24 too
    assert await known(store) == moved(Span(13, 33), US, branch=1)
    await sink.retract(CHAIN_ID, Span(20, 33), 4)
    await sink.write(blocks(20, 30), 5)
    assert await known(store) == moved(Span(13, 30), US)
    assert {each.token: each.amount for each in await store.balances("home", [US[0]])} == before


async def test_plan_and_head_meet(store: WalletStore, sink: AccompaniedSink) -> None:
    """A scan up to some height, and watching above it, find everything once."""
    await sink.write(blocks(15, 25), 1)
    await join(store, 20)
    await store.write(scan(0, 20), frozenset(US), moved(Span(0, 20), US))
    await sink.write(blocks(26, 40), 1)
    assert await known(store) == moved(ALL, US)


async def test_blocks_that_scans_have_lost_are_watched(
    store: WalletStore, sink: AccompaniedSink
) -> None:
    """A pass is not repeated where its blocks left the chain; their successors are watched."""
    await sink.write(blocks(0, 20), 1)
    await join(store, 20)
    await store.write(scan(5, 20), frozenset(US), moved(Span(5, 20), US))
    await sink.retract(CHAIN_ID, Span(3, 6), 2)
    assert {it.above for it in await store.members(CHAIN_ID)} == {4}, "not below its own blocks"
    await sink.write(blocks(3, 6), 3)
    assert await known(store) == moved(Span(5, 20), US)


async def test_blocks_that_scans_lost_before_joining_are_derived(
    store: WalletStore, sink: AccompaniedSink
) -> None:
    await sink.write(blocks(0, 20), 1)
    await store.write(scan(5, 15), frozenset(US), moved(Span(5, 15), US))
    await sink.retract(CHAIN_ID, Span(8, 9), 2)
    await sink.write(blocks(8, 9), 3)
    await store.add_members("home", NETWORK, RULES, US, 15, searched_from=5)
    assert {it.above for it in await store.members(CHAIN_ID)} == {7}
    assert await known(store) == moved(Span(5, 20), US)


async def test_joining_again_watches_from_the_lower_height(
    store: WalletStore, sink: AccompaniedSink
) -> None:
    await join(store, 20)
    await join(store, 10)
    await join(store, 30)
    assert {it.above for it in await store.members(CHAIN_ID)} == {10}
    await sink.write(blocks(0, 40), 1)
    assert await known(store) == moved(Span(11, 40), US)


async def test_those_who_left_keep_what_they_had(store: WalletStore, sink: AccompaniedSink) -> None:
    await join(store, -1)
    await sink.write(blocks(0, 20), 1)
    before = await store.balances("home")
    await store.remove_members("home", CHAIN_ID, US)
    await sink.write(blocks(21, 40), 1)
    assert await known(store) == moved(Span(0, 20), US)
    assert [(it.wallet, it.amount) for it in await store.balances("home")] == [
        (it.wallet, it.amount) for it in before
    ]
    assert await store.members(CHAIN_ID) == []


async def test_a_purge_leaves_only_what_others_need(
    store: WalletStore, sink: AccompaniedSink
) -> None:
    await join(store, -1, WALLETS[:3])
    await join(store, 20, WALLETS[1:2], "work")
    await sink.write(blocks(0, 40), 1)
    await store.write(scan(0, 40), frozenset(US), moved(ALL, US))
    await store.write(
        scan(0, 10, set_="two"), frozenset(WALLETS[4:5]), moved(Span(0, 10), WALLETS[4:5])
    )
    await store.remove_members("home", CHAIN_ID, WALLETS[:3], purge=True)
    kept = moved(ALL, WALLETS[1:2]) + moved(Span(0, 10), WALLETS[4:5])
    assert {it.key for it in await known(store)} == {it.key for it in kept}
    assert await store.entries("home", page=Page(1000)) == []
    assert await store.balances("home") == []
    assert {it.entry.wallet for it in await store.entries("work")} == {WALLETS[1]}
    assert await store.scans(CHAIN_ID, "one", US) == []  # one of them is no longer in the set
    assert await store.scans(CHAIN_ID, "one", WALLETS[1:2]) == [scan(0, 40)]


async def test_a_purged_set_is_scanned_from_the_start(store: WalletStore) -> None:
    await store.write(scan(0, 20), frozenset(US), moved(Span(0, 20), US))
    await store.remove_members("home", CHAIN_ID, US[:1], purge=True)
    await store.write(scan(21, 40), frozenset(US), moved(Span(21, 40), US))
    assert await store.scans(CHAIN_ID, "one", US) == [scan(21, 40)]


async def test_a_member_of_two_groups_is_interpreted_for_both(
    store: WalletStore, sink: AccompaniedSink
) -> None:
    await join(store, -1, WALLETS[:1])
    await join(store, 10, WALLETS[:2], "work")
    await sink.write(blocks(0, 10), 1)
    await sink.write(blocks(11, 40), 1)
    home = {it.entry for it in await store.entries("home", page=Page(1000))}
    work = {it.entry for it in await store.entries("work", page=Page(1000))}
    assert home == {*entries_of(moved(ALL, WALLETS[:1]), WALLETS[:1], "reward")}
    assert work == {*entries_of(moved(Span(11, 40), US), US, "reward")}


@pytest.mark.parametrize("seed", range(2))
async def test_nothing_is_missed_while_others_write(target: str, seed: int) -> None:
    """Members join at any moment, while two writers store blocks in any order."""
    chance = Random(seed)
    async with await open_sink(target) as one, await open_sink(target) as two:
        assert isinstance(one, AccompaniedSink)
        store = WalletStore.of(one)
        await store.put_tokens(CHAIN_ID, {})
        below = [*range(10)]
        above = [*range(10, 41)]
        order = {one: below, two: above}

        async def write(sink: Any) -> None:
            for height in order[sink]:
                await asyncio.sleep(chance.random() / 100)
                await sink.write(blocks(height, height), 1)

        async def join_later(wallet: bytes) -> None:
            await asyncio.sleep(chance.random() / 3)
            await WalletStore.of(chance.choice([one, two])).add_members(
                "home", NETWORK, RULES, [wallet], 4
            )

        await asyncio.gather(write(one), write(two), *map(join_later, WALLETS))
        assert await known(store) == moved(Span(5, 40))
