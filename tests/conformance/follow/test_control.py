"""Pausing and resuming a follow from Python, and blocks that cannot be had for a while."""

from __future__ import annotations

import pytest

import gapless
from gapless.core.ranges import RangeSet
from gapless.devnode import Chain, DevNode, parse_faults
from gapless.devnode.injector import Injector
from gapless.following import upkeep
from tests.conformance.follow.stage import HEAD, LIMITS, Stage, live_at, until


async def test_a_paused_follow_plans_nothing(stage: Stage, chain: Chain, node: DevNode) -> None:
    async with stage.follow(node, start=80) as follow:
        await live_at(follow, HEAD)
        await follow.pause()
        assert (await follow.status()).phase == "paused"
        before = node.requests
        node.advance(3)
        await follow.resume()
        await live_at(follow, HEAD + 3)
        assert node.requests > before
    await stage.assert_same(chain, 80, HEAD + 3)


async def test_history_is_paused_too(stage: Stage, chain: Chain) -> None:
    async with DevNode(chain, limits=LIMITS) as node, stage.follow(node, start=0, rps=30) as follow:
        await until(follow, lambda it: it.phase == "backfilling")
        await follow.pause()
        async with gapless.Engine(stage.ledger) as engine:
            backfills = await engine.ledger.backfills(follow=follow.name, limit=9)
            assert {str(each.state) for each in backfills} == {"PAUSED"}


async def test_a_lost_block_is_a_gap_until_it_is_planned_again(
    stage: Stage, chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here, the schedule of retries is over at once, and the hour lasts two seconds."""
    once = gapless.RetryPolicy.schedule(0.01)
    monkeypatch.setattr(gapless.RetryPolicy, "schedule", lambda: once)
    monkeypatch.setattr(upkeep, "REPLAN_AFTER", 2.0)
    node = DevNode(chain, limits=LIMITS, faults=f"truncated@{HEAD + 1}*1000")
    async with node, stage.follow(node, start=110) as follow:
        await live_at(follow, HEAD)
        node.advance(2)
        status = await until(follow, lambda it: bool(it.gaps))
        assert status.gaps == RangeSet.of((HEAD + 1, HEAD + 1))
        assert (status.stored, status.phase) == (HEAD + 2, "live")
        node.injector = Injector(parse_faults(""))
        await live_at(follow, HEAD + 2)
    await stage.assert_same(chain, 110, HEAD + 2)
