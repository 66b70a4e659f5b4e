"""Adding wallets again continues where they are; wallets that come later are their own passes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import gapless
from gapless.core.errors import NotFound, UsageError
from gapless.devnode import Chain, DevNode
from gapless.ledger import open_ledger
from gapless.ledger.syncs import Override, SyncState
from gapless.wallets.categories import Category, Flag
from tests.conformance.wallets.conftest import Add
from tests.conformance.wallets.stage import (
    ALICE,
    BOB,
    LAST,
    WALLETS,
    amounts,
    balances,
    history,
    octets,
    opened,
    tokens_only,
    truth,
)

PLANNING = {"eth_chainId", "eth_blockNumber", "eth_getBlockByNumber"}


async def test_a_complete_wallet_is_not_searched_again(
    add: Add, node: DevNode, ledger: str, target: str
) -> None:
    (first,) = await add(ALICE)
    before, seen = node.calls.copy(), await history(target)
    (again,) = await add(ALICE, label="mine")
    assert (node.calls - before).keys() <= PLANNING
    assert again.passes == first.passes
    assert (again.label, again.progress) == ("mine", first.progress)
    assert await history(target) == seen
    book = await open_ledger(ledger)
    assert await book.check() == []
    await book.close()


async def test_new_blocks_are_one_more_pass(
    add: Add, node: DevNode, chain: Chain, ledger: str, target: str
) -> None:
    await add(ALICE, BOB, scan=True)
    chain.grow(30)
    before = node.calls["eth_getBlockReceipts"]
    syncs = await gapless.sync_wallets(rpc=node.url, to=target, ledger=ledger)
    assert {(each.heights.last, len(each.passes)) for each in syncs} == {(LAST + 30, 2)}
    assert node.calls["eth_getBlockReceipts"] - before == 30
    found = await balances(target)
    assert amounts(found) == truth(chain, LAST + 30, [ALICE, BOB])
    assert {it.as_of for it in found} == {LAST + 30}


async def test_an_earlier_start_is_one_more_pass(add: Add, chain: Chain, target: str) -> None:
    (late,) = await add(ALICE, start="100", scan=True)
    assert late.heights == (100, LAST)
    (early,) = await add(ALICE, start=20, scan=True)
    assert early.heights == (20, LAST)
    assert early.progress.total == LAST + 1 - 20
    await add(ALICE, scan=True)  # without a start, it stays
    (whole,) = await add(ALICE, start=0, scan=True)
    assert (whole.heights, whole.state) == ((0, LAST), SyncState.COMPLETE)
    assert amounts(await balances(target)) == truth(chain, LAST, [ALICE])


async def test_a_history_starts_at_a_day_or_second(add: Add, chain: Chain, target: str) -> None:
    """The chain begins on 2023-11-14, at 22:13:20."""
    (late,) = await add(ALICE, start="2023-11-14T22:20:00Z", scan=True)
    times = {it.movement.block_timestamp for it in await history(target)}
    assert min(times) >= 1_700_000_400  # which is that second
    first = late.heights.first
    assert 0 < first < LAST
    before, at = (int(json.loads(chain.block(it))["timestamp"], 16) for it in (first - 1, first))
    assert before < 1_700_000_400 <= at
    assert not any(it.is_complete for it in await balances(target))
    (whole,) = await add(ALICE, start="2023-11-14", scan=True)
    assert (whole.heights, whole.state) == ((0, LAST), SyncState.COMPLETE)
    assert amounts(await balances(target)) == truth(chain, LAST, [ALICE])
    assert all(it.is_complete for it in await balances(target))


async def test_a_wallet_that_comes_later_changes_what_movements_mean(
    add: Add, chain: Chain, target: str
) -> None:
    wallets = WALLETS[:40]
    await add(*wallets[:20], scan=True)
    alone = {(it.movement.key, it.entry.wallet): it.entry for it in await history(target)}
    await add(*wallets[20:], scan=True)
    together = await history(target)
    changed = {
        it.entry.category
        for it in together
        if alone.get((it.movement.key, it.entry.wallet), it.entry) != it.entry
    }
    assert Category.BETWEEN in changed
    assert amounts(await balances(target)) == truth(chain, LAST, wallets)
    await add(*wallets, scan=True, group="at-once")
    assert await history(target, "at-once") == together


async def test_scanning_later_is_one_more_pass(
    add: Add, node: DevNode, chain: Chain, target: str
) -> None:
    (first,) = await add(ALICE)
    (again,) = await add(ALICE, scan=True)
    assert (again.passes[0], len(again.passes)) == (first.passes[0], 2)
    assert (again.heights, again.progress.total) == (first.heights, 2 * (LAST + 1))
    found = await balances(target)
    assert amounts(found) == truth(chain, LAST, [ALICE])
    assert {it.is_complete for it in found} == {True}


async def test_a_removed_wallet_is_found_again_without_a_search(
    add: Add, node: DevNode, ledger: str, target: str
) -> None:
    await add(ALICE, BOB)
    seen = await history(target)
    await gapless.remove_wallets([ALICE, BOB], ledger=ledger)
    async with opened(target) as store:
        assert await store.members(1337) == []
    with pytest.raises(NotFound, match="no such wallets"):
        await gapless.sync_wallets(rpc=node.url, ledger=ledger)
    before = node.calls["eth_getLogs"]
    await add(ALICE, BOB)
    assert node.calls["eth_getLogs"] == before
    assert await history(target) == seen


async def test_a_purged_wallet_leaves_nothing(add: Add, ledger: str, target: str) -> None:
    await add(ALICE)
    await gapless.remove_wallets(ALICE, ledger=ledger, purge=True)
    async with opened(target) as store:
        assert await store.movements(1337, [octets(ALICE)]) == []
    assert await history(target) == []
    await add(ALICE)
    assert await history(target)


async def test_an_override_wins_whenever_it_is_classified(
    add: Add, ledger: str, target: str
) -> None:
    (sync,) = await add(ALICE)
    chosen = next(it for it in await history(target) if it.entry.category is Category.IN)
    book = await open_ledger(ledger)
    override = Override(
        group="default",
        address=sync.key.address,
        movement=(*chosen.movement.key[:2], str(chosen.movement.kind), *chosen.movement.key[3:]),
        category="reward",
    )
    await book.set_overrides([override])
    await book.close()
    await add(ALICE)
    (entry,) = [it.entry for it in await history(target) if it.movement == chosen.movement]
    assert entry.category is Category.REWARD
    assert Flag.MANUAL in entry.flags


async def test_groups_are_apart(add: Add, chain: Chain, target: str) -> None:
    await add(ALICE, group="one")
    await add(ALICE, BOB, group="two")
    one, two = [amounts(await balances(target, group)) for group in ("one", "two")]
    assert {*one} == {ALICE}
    assert {*two} == {ALICE, BOB}
    assert tokens_only(two) == tokens_only(truth(chain, LAST, [ALICE, BOB]))
    assert one[ALICE].keys() <= two[ALICE].keys()


async def test_a_start_after_the_last_final_block_is_refused(
    add: Add, ledger: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="not final yet"):
        await add(ALICE, start=LAST + 1)
    book = await open_ledger(ledger)
    assert await book.wallets() == []
    await book.close()
