"""Where a follow begins, and that it continues there."""

from __future__ import annotations

from typing import Any

import pytest

import gapless
from gapless.chains.opening import open_sink
from gapless.core.backfill import State
from gapless.core.errors import Conflict
from gapless.core.ranges import RangeSet
from gapless.core.remedies import RemoveFollow
from gapless.devnode import Chain, DevNode
from gapless.following import control, creation
from gapless.following.spec import JOB
from gapless.ledger import open_ledger
from gapless.runtime.worker import WorkerOptions
from gapless.sinks import Access
from gapless.sinks.requests import final_height
from tests.conformance.follow.stage import (
    CHAIN_ID,
    DEPTH,
    FINAL,
    HEAD,
    LIMITS,
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


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"start": 8}, "start"),
        ({"datasets": "blocks"}, "tables"),
        ({"to": "other.db", "start": 8}, "sink and start"),
    ],
)
async def test_something_else_by_the_same_name_is_refused(
    stage: Stage, node: DevNode, options: dict[str, Any], what: str
) -> None:
    async with stage.follow(node, start=90, name="one"):
        pass
    refused = rf"`one` follows arbitrum-nova \(chain 42170\) into .*cannot change its {what}$"
    with pytest.raises(Conflict, match=refused) as raised:
        async with stage.follow(node, name="one", **options):
            pass
    assert raised.value.remedy == RemoveFollow("one")


async def test_another_network_by_the_same_name_is_refused(stage: Stage, node: DevNode) -> None:
    async with stage.follow(node, start=90, name="one"):
        pass
    stage.network = "custom"
    with pytest.raises(Conflict, match="cannot change its network"):
        async with stage.follow(node, name="one"):
            pass


async def test_other_endpoints_are_used_from_then_on(
    stage: Stage, chain: Chain, node: DevNode
) -> None:
    """By new blocks and by history that was planned before; what is stored stays."""
    first = DevNode(chain, limits=LIMITS)
    async with first, stage.follow(first, start=0, rps=40) as follow:
        await until(follow, lambda it: it.history_pct > 0)
    node.advance(2)
    async with stage.follow(node, names="z") as follow:
        await live_at(follow, HEAD + 2)
        status = await until(follow, lambda it: it.history_pct == 100)
        assert status.spec.endpoints == ("z",)
        backfills = await follow._engine.ledger.backfills(follow=follow.name)
        assert {tuple(each.spec["endpoints"]) for each in backfills} == {("z",)}
        assert await follow._engine.ledger.check() == []
    await stage.assert_same(chain, 0, HEAD + 2)


async def test_a_running_follower_takes_other_endpoints(stage: Stage, chain: Chain) -> None:
    async with (
        DevNode(chain, limits=LIMITS) as first,
        DevNode(chain, limits=LIMITS) as second,
        stage.follow(first, second, start=100) as follow,
    ):
        before = await live_at(follow, HEAD)
        async with stage.follow(second, names="b", start=100) as same:
            await until(same, lambda it: it.leader is not None and it.spec.endpoints == ("b",))
            asked = first.requests
            second.advance(2)
            await live_at(same, HEAD + 2)
        second.advance(2)
        await live_at(follow, HEAD + 4)
        assert first.requests == asked
        assert before.spec.endpoints == ("a", "b")
    await stage.assert_same(chain, 100, HEAD + 4)


async def test_a_process_that_cannot_find_the_endpoints_leaves_the_lead_to_others(
    stage: Stage, chain: Chain
) -> None:
    async with (
        DevNode(chain, limits=LIMITS) as first,
        DevNode(chain, limits=LIMITS) as second,
        stage.follow(first, start=100) as follow,
    ):
        old = await live_at(follow, HEAD)
        async with stage.follow(second, names="z", start=100) as same:
            await until(same, lambda it: it.leader not in (None, old.leader))
            second.advance(1)
            await until(same, lambda it: it.head == HEAD + 1)


async def test_a_second_follow_of_the_same_sink_is_refused(stage: Stage, node: DevNode) -> None:
    async with stage.follow(node, name="one"):
        pass
    with pytest.raises(Conflict, match="`one` follows arbitrum-nova into") as raised:
        async with stage.follow(node, name="two"):
            pass
    assert raised.value.remedy == RemoveFollow("one")


async def test_of_two_follows_that_are_created_at_once_the_later_gives_way(
    stage: Stage, node: DevNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stage.follow(node, name="one"):
        pass
    looked: list[str] = []

    async def seen_late(*where: Any) -> list[Any]:
        """The first one was not there yet when the second one looked before it was created."""
        looked.append("once")
        return await same_follows(*where) if len(looked) > 1 else []

    same_follows = creation._same_follows
    monkeypatch.setattr(creation, "_same_follows", seen_late)
    with pytest.raises(Conflict, match="`one` follows arbitrum-nova into"):
        async with stage.follow(node, name="two"):
            pass
    ledger = await open_ledger(stage.ledger)
    left = {it.spec["name"]: it.state for it in await ledger.backfills() if it.job == JOB}
    await ledger.close()
    assert left == {"one": State.PENDING, "two": State.CANCELLED}
