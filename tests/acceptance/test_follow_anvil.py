"""Following a real node, whose blocks are replaced, with and without its WebSocket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import gapless
from gapless.config import Config, EndpointSettings
from gapless.core.ranges import Span
from gapless.following.spec import FollowSpec
from tests.acceptance.test_anvil import CHAIN_ID, truth
from tests.anvil import Anvil, anvil, needs_anvil
from tests.conformance.fetch.stage import contents
from tests.conformance.follow.stage import live_at, until

pytestmark = needs_anvil


@pytest.fixture
async def node() -> AsyncIterator[Anvil]:
    async with anvil() as running:
        yield running


@pytest.mark.parametrize("poll", [0.5, 600.0])
async def test_reorganisations_are_followed(
    node: Anvil, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, poll: float
) -> None:
    """By polling, or by notices alone."""
    monkeypatch.setattr(FollowSpec, "poll_seconds", poll)
    await node.grow(70)
    ws = None if poll < 1 else node.url.replace("http", "ws", 1)
    endpoint = EndpointSettings(node.url, ws=ws)
    engine = gapless.Engine(
        f"sqlite:///{tmp_path}/ledger.db",
        slots=gapless.FOLLOW_SLOTS,
        config=Config(endpoints={"anvil": endpoint}),
    )
    target = tmp_path / "blocks.db"
    async with (
        engine,
        gapless.follow(engine, "custom", rpc="anvil", to=target, start=0) as follow,
    ):
        await live_at(follow, 70)
        for depth in (1, 30):
            await node.call("anvil_reorg", depth, [])
            await node.grow(2)
            await until(follow, lambda it: it.state.retraction is None)
            await live_at(follow, await node.head())
    last = await node.head()
    assert await contents(str(target), CHAIN_ID) == await truth(node, Span(0, last))
