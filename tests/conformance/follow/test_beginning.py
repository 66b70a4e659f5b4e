"""Where a follow begins, and that it continues there."""

from __future__ import annotations

from typing import Any

import pytest

import gapless
from gapless.chains.opening import open_sink
from gapless.core.errors import Conflict
from gapless.core.ranges import RangeSet
from gapless.core.remedies import RemoveFollow
from gapless.devnode import DevNode
from gapless.following import control
from gapless.runtime.worker import WorkerOptions
from gapless.sinks import Access
from gapless.sinks.requests import final_height
from tests.conformance.follow.stage import (
    CHAIN_ID,
    DEPTH,
    FINAL,
    HEAD,
    NETWORK,
    Stage,
    live_at,
    until,
)
from tests.waiting import eventually


async def fetch(stage: Stage, node: DevNode, heights: str, **options: int) -> None:
    await gapless.fetch(
        NETWORK,
        heights,
        rpc=node.url,
        to=stage.target,
        ledger=stage.ledger,
        **options,  # type: ignore[arg-type]
    )


async def test_history_and_new_blocks(stage: Stage, node: DevNode) -> None:
    """The worker need not poll: whoever plans a chunk wakes it."""
    stage.options = WorkerOptions(poll_seconds=60.0)
    async with stage.follow(node, start=7) as follow:
        status = await live_at(follow, HEAD)
        assert (status.history_blocks, status.history_pct) == (FINAL - 6, 100)
        node.advance(3)
        await live_at(follow, HEAD + 3)
    await stage.assert_same(node.chain, 7, HEAD + 3)


async def test_an_empty_sink_is_followed_from_the_next_block(stage: Stage, node: DevNode) -> None:
    async with stage.follow(node) as follow:
        await until(follow, lambda it: it.head == HEAD)
        node.advance(2)
        await live_at(follow, HEAD + 2)
    await stage.assert_same(node.chain, HEAD + 1, HEAD + 2)


async def test_running_it_again_continues(stage: Stage, node: DevNode) -> None:
    async with stage.follow(node) as follow:
        await until(follow, lambda it: it.head == HEAD)
        node.advance(2)
        await live_at(follow, HEAD + 2)
    node.advance(30)  # more than become final: there is history now
    async with stage.follow(node) as follow:
        status = await live_at(follow, HEAD + 32)
        assert status.backfill.id == f"follow-{follow.name}"
    await stage.assert_same(node.chain, HEAD + 1, HEAD + 32)


async def test_it_continues_after_what_is_stored(stage: Stage, node: DevNode) -> None:
    await fetch(stage, node, "10:60")
    async with stage.follow(node) as follow:
        assert (await live_at(follow, HEAD)).state.start == 61
    await stage.assert_same(node.chain, 10, HEAD)


async def test_it_continues_after_blocks_that_are_not_final(stage: Stage, node: DevNode) -> None:
    await fetch(stage, node, f"90:{HEAD - 2}", confirmations=0)
    asked = node.calls["eth_getBlockReceipts"]
    async with stage.follow(node) as follow:
        assert (await live_at(follow, HEAD)).state.start == FINAL + 1
    assert node.calls["eth_getBlockReceipts"] == asked + 2
    await stage.assert_same(node.chain, 90, HEAD)
    async with await open_sink(stage.target, Access.READ) as sink:
        assert final_height(await sink.requests(CHAIN_ID)) == FINAL


async def test_it_continues_after_expired_blocks(stage: Stage, node: DevNode) -> None:
    async with stage.follow(node, start=7) as follow:
        await live_at(follow, HEAD)
    node.advance(DEPTH)
    async with stage.follow(node) as follow:
        await live_at(follow, HEAD + DEPTH)
        await eventually(lambda: _expires(stage, HEAD))
    async with await open_sink(stage.target, Access.READ) as sink:
        before = await sink.stored(CHAIN_ID)
        blocks = [it for it in before if it.dataset == "blocks" and it.expired]
    asked = node.calls["eth_getBlockReceipts"]
    node.advance(2)
    stage.ledger = stage.ledger.replace("ledger.db", "another.db")
    async with stage.follow(node) as follow:
        await live_at(follow, HEAD + DEPTH + 2)
    assert node.calls["eth_getBlockReceipts"] == asked + 2
    report = await gapless.verify(stage.target, deep=True, ledger=stage.ledger)
    assert report.complete
    assert report.expired == RangeSet(it.span for it in blocks)


async def _expires(stage: Stage, below: int) -> bool:
    """Whether enough blocks have become final that all below a height could expire."""
    async with await open_sink(stage.target, Access.WRITE) as sink:
        while await sink.expire(CHAIN_ID, below):
            pass
        stored = await sink.stored(CHAIN_ID)
    return min(it.span.first for it in stored if not it.expired) >= HEAD - DEPTH


async def test_gaps_below_what_is_stored_are_history(stage: Stage, node: DevNode) -> None:
    await fetch(stage, node, "20:29")
    await fetch(stage, node, f"90:{HEAD}", confirmations=0)
    async with stage.follow(node, start=5) as follow:
        status = await until(follow, lambda it: it.phase == "live" and it.history_pct == 100)
        assert status.history_blocks == FINAL - 4
    await stage.assert_same(node.chain, 5, HEAD)


@pytest.mark.parametrize("depth", [5, 30])
async def test_what_left_the_chain_before_is_replaced(
    stage: Stage, node: DevNode, depth: int
) -> None:
    await fetch(stage, node, f"60:{HEAD}", confirmations=0)
    node.reorg(depth)
    async with stage.follow(node, start=60) as follow:
        await live_at(follow, HEAD + 1)
    await stage.assert_same(node.chain, 60, HEAD + 1)


async def test_a_removed_follow_can_be_created_again(stage: Stage, node: DevNode) -> None:
    async with stage.follow(node, start=90) as follow:
        await live_at(follow, HEAD)
    async with gapless.Engine(stage.ledger) as engine:
        await control.remove(engine.ledger, follow.name)
    node.advance(40)
    async with stage.follow(node, start=70) as follow:
        status = await live_at(follow, HEAD + 40)
        assert status.backfill.id == f"follow-{follow.name}.2"
        await until(follow, lambda it: it.history_pct == 100)
    await stage.assert_same(node.chain, 70, HEAD + 40)


@pytest.mark.parametrize("options", [{"start": 8}, {"datasets": "blocks"}])
async def test_something_else_by_the_same_name_is_refused(
    stage: Stage, node: DevNode, options: dict[str, Any]
) -> None:
    async with stage.follow(node, start=90, name="one"):
        pass
    with pytest.raises(Conflict, match="`one` follows arbitrum-nova from a into") as raised:
        async with stage.follow(node, name="one", **options):
            pass
    assert raised.value.remedy == RemoveFollow("one")


async def test_a_second_follow_of_the_same_sink_is_refused(stage: Stage, node: DevNode) -> None:
    async with stage.follow(node, name="one"):
        pass
    with pytest.raises(Conflict, match="`one` follows arbitrum-nova into") as raised:
        async with stage.follow(node, name="two"):
            pass
    assert raised.value.remedy == RemoveFollow("one")
