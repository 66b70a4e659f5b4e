"""What a node is asked: once for all wallets, and never for the same block twice."""

from __future__ import annotations

from gapless.devnode import DevNode
from gapless.wallets.classify import EVENTS
from tests.conformance.wallets.conftest import Add
from tests.conformance.wallets.stage import ALICE, LAST, WALLETS, history


async def test_a_hundred_wallets_cost_hardly_more_than_one(add: Add, node: DevNode) -> None:
    await add(ALICE, group="one", chunk_size=20)
    one = node.calls.copy()
    await add(*WALLETS[:100], group="many", chunk_size=20)
    many = node.calls - one
    assert 0 < many["eth_getLogs"] <= 1.5 * one["eth_getLogs"]


async def test_a_block_with_events_is_fetched_once(add: Add, node: DevNode, target: str) -> None:
    await add(*WALLETS[:3], chunk_size=30, batch_size=7)
    found = {it.movement.block_number for it in await history(target) if it.movement.kind in EVENTS}
    assert 0 < len(found) < LAST
    assert node.calls["eth_getBlockReceipts"] == len(found)


async def test_every_block_of_a_scan_is_fetched_once(add: Add, node: DevNode) -> None:
    await add(*WALLETS[:50], scan=True, chunk_size=30, batch_size=7)
    assert node.calls["eth_getBlockReceipts"] == LAST + 1
    assert node.calls["eth_getLogs"] == 0
