"""Chains that real clients built: first they end with orphans, then with the recorded blocks."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapless.devnode import DevNode, Limits, replayed
from tests.conformance.follow.stage import Stage, live_at

CHAINS = Path(__file__).parents[4] / "shared/data/chains"
LIMITS = Limits(finality_depth=12)
START, ORPHANS = 20, 8


@pytest.mark.skipif(not CHAINS.exists(), reason="there are no recorded chains")
@pytest.mark.parametrize(("name", "head"), [("execution-apis-54", 50), ("geth-ethtest-600", 90)])
async def test_orphans_are_replaced(stage: Stage, name: str, head: int) -> None:
    stage.network = "custom"
    real, orphaned = replayed(CHAINS / name), replayed(CHAINS / name)
    stage.chain_id = real.chain_id
    real.start_at(head)
    orphaned.start_at(head - 1)
    orphaned.reorg(head - ORPHANS, extra=0)
    async with (
        DevNode(orphaned, limits=LIMITS) as node,
        stage.follow(node, start=START) as follow,
    ):
        await live_at(follow, head - 1)
    await stage.assert_same(orphaned, START, head - 1)
    async with DevNode(real, limits=LIMITS) as node, stage.follow(node, start=START) as follow:
        await live_at(follow, head)
        node.advance(3)
        await live_at(follow, head + 3)
    await stage.assert_same(real, START, head + 3)
