"""However movements are found, sums are what the chain shows, and the rest is unexplained."""

from __future__ import annotations

import pytest

from gapless.chains.movements import NOBODY
from gapless.devnode import Chain, DevNode, Limits
from gapless.ledger.syncs import SyncState
from gapless.wallets.reconcile import reconcile
from tests.conformance.wallets.conftest import Add
from tests.conformance.wallets.stage import (
    ALICE,
    BOB,
    CAROL,
    LAST,
    accounts,
    amounts,
    asset_of,
    balances,
    explanation,
    octets,
    opened,
    tokens_only,
    truth,
)

BOTH = pytest.mark.parametrize("target", ["sqlite", "postgres"], indirect=True)
ALL = [ALICE, BOB, CAROL]


@BOTH
async def test_from_stored_tables_without_a_request(
    add: Add, fetch: Add, node: DevNode, chain: Chain, target: str
) -> None:
    await fetch(f"0:{LAST}")
    before = node.calls.copy()
    syncs = await add(*ALL)
    asked = node.calls - before
    assert {each.state for each in syncs} == {SyncState.COMPLETE}
    assert not {"eth_getLogs", "eth_getBlockReceipts"} & asked.keys(), asked
    found = await balances(target)
    assert amounts(found) == truth(chain, LAST, ALL)
    assert {(it.is_complete, it.as_of) for it in found} == {(True, LAST)}
    async with opened(target) as store:
        members = await store.members(1337)
    assert {it.above for it in members} == {LAST}


@BOTH
async def test_from_events(add: Add, node: DevNode, chain: Chain, target: str) -> None:
    syncs = await add(*ALL)
    assert {each.state for each in syncs} == {SyncState.COMPLETE}
    assert node.calls["eth_getLogs"] > 0
    assert node.calls["eth_getBlockReceipts"] <= LAST
    found = await balances(target)
    assert tokens_only(amounts(found)) == tokens_only(truth(chain, LAST, ALL))
    coins = {it.is_complete for it in found if it.token == NOBODY}
    assert (coins, {it.is_complete for it in found if it.token != NOBODY}) == ({False}, {True})


async def test_with_every_block(add: Add, node: DevNode, chain: Chain, target: str) -> None:
    await add(*ALL, scan=True, chunk_size=40, batch_size=10)
    assert node.calls["eth_getLogs"] == 0
    assert node.calls["eth_getBlockReceipts"] == LAST + 1
    assert amounts(await balances(target)) == truth(chain, LAST, ALL)


async def test_partly_stored(
    add: Add, fetch: Add, node: DevNode, chain: Chain, target: str
) -> None:
    await fetch("30:60")
    before = node.calls["eth_getBlockReceipts"]
    await add(*ALL, scan=True, chunk_size=50)
    assert node.calls["eth_getBlockReceipts"] - before == LAST + 1 - 31
    assert amounts(await balances(target)) == truth(chain, LAST, ALL)


async def test_what_remains_is_unexplained(
    add: Add, fetch: Add, node: DevNode, chain: Chain, target: str
) -> None:
    await fetch(f"0:{LAST}")
    await add(*ALL)
    async with opened(target) as store, accounts(node) as asked:
        for wallet in ALL:
            found = await reconcile(store, asked, "default", octets(wallet), 1337, LAST)
            explained = explanation(chain, LAST, wallet)
            assert found[0].token == NOBODY
            for it in found:
                expected = explained[asset_of(it.token, it.token_id)]
                assert it.balance.on_chain == expected.balance
                assert it.balance.unexplained == expected.hidden


async def test_a_node_without_old_state_leaves_it_unknown(
    add: Add, fetch: Add, chain: Chain, target: str
) -> None:
    await fetch(f"0:{LAST}")
    await add(ALICE)
    async with (
        DevNode(chain, limits=Limits(state_blocks=10)) as pruned,
        opened(target) as store,
        accounts(pruned) as asked,
    ):
        found = await reconcile(store, asked, "default", octets(ALICE), 1337, LAST)
    assert {it.balance.on_chain for it in found} == {None}
    assert {it.balance.unexplained for it in found} == {None}
