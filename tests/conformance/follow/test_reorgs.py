"""What a follow does when the chain changes, in each kind of sink that follows block by block."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import gapless
from gapless.blocks.request import build_request
from gapless.blocks.running import SilentObserver, run_fetch
from gapless.blocks.session import open_fetch
from gapless.chains.opening import open_sink
from gapless.config import Config
from gapless.core.errors import Orphaned
from gapless.core.ranges import RangeSet
from gapless.devnode import Chain, DevNode, ReorgSchedule
from gapless.devnode.growth import Growth
from gapless.following import control
from gapless.following.spec import FollowSpec
from gapless.sinks import Access
from tests.conformance.follow.stage import (
    CHAIN_ID,
    FINAL,
    HEAD,
    LIMITS,
    NETWORK,
    Stage,
    live_at,
    until,
)
from tests.conformance.sink.conftest import target_of
from tests.waiting import eventually


@pytest.fixture(params=["sqlite", "duckdb", "postgres"])
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Stage:
    return Stage(f"sqlite:///{tmp_path}/ledger.db", target_of(request, request.param))


async def test_replaced_blocks_are_replaced(stage: Stage, node: DevNode) -> None:
    async with stage.follow(node, start=90) as follow:
        await live_at(follow, HEAD)
        node.reorg(1)
        await live_at(follow, HEAD + 1)
        node.reorg(12, length=10)
        await live_at(follow, HEAD - 1)
        node.advance(2)
        await live_at(follow, HEAD + 1)
    await stage.assert_same(node.chain, 90, HEAD + 1)


def hash_at(node: DevNode, height: int) -> bytes:
    return bytes.fromhex(node.chain.hash(height).removeprefix("0x"))


async def test_readers_of_changes_learn_of_every_block(stage: Stage, node: DevNode) -> None:
    """What a reader collects from the changes alone is the chain, above the final block."""
    async with await open_sink(stage.target) as sink:
        start = await sink.add_change_reader(CHAIN_ID, "reader")
    old = hash_at(node, HEAD)
    async with stage.follow(node, start=90) as follow:
        await live_at(follow, HEAD)
        node.reorg(3)
        await live_at(follow, HEAD + 1)
    async with await open_sink(stage.target, Access.READ) as sink:
        changes = await sink.changes(CHAIN_ID, start)
    found: dict[int, bytes] = {}
    for change in changes:
        for height, hash_ in change.old.items():
            assert found.pop(height) == hash_
        found |= change.new
        assert all(height > FINAL for height in {**change.old, **change.new})
        assert not (change.retracted and change.new)
    assert old in {each for change in changes for each in change.old.values()}
    assert found == {at: hash_at(node, at) for at in range(FINAL + 1, HEAD + 2)}
    history = [it for it in changes if it.span.last <= FINAL]
    assert RangeSet(it.span for it in history) == RangeSet.of((90, FINAL))


async def looked_at(node: DevNode) -> None:
    """Returns once the node was asked for something."""
    before = node.requests
    await eventually(lambda: node.requests > before)


@pytest.mark.parametrize("seed", [1, 2])
async def test_many_reorganisations(tmp_path: Path, chain: Chain, seed: int) -> None:
    stage = Stage(f"sqlite:///{tmp_path}/ledger.db", f"{tmp_path}/blocks.db")
    growth = Growth(chain, ReorgSchedule(3, depth=6, seed=seed))
    async with DevNode(chain, limits=LIMITS) as node, stage.follow(node, start=100) as follow:
        await live_at(follow, HEAD)
        for _ in range(6):
            for _ in range(3):
                growth.step()
            await looked_at(node)
        node.advance()
        await live_at(follow, chain.head)
    await stage.assert_same(chain, 100, chain.head)


@pytest.fixture
async def stopped(tmp_path: Path, node: DevNode) -> Stage:
    """A follow of a chain that has changed below the final block; nothing is deleted."""
    stage = Stage(f"sqlite:///{tmp_path}/ledger.db", f"{tmp_path}/blocks.db")
    async with stage.follow(node, start=40, name="one") as follow:
        await live_at(follow, HEAD)
        before = await stage.contents()
        node.reorg(71)
        status = await until(follow, lambda it: it.phase == "stopped")
        assert (
            status.state.alarm == f"block {FINAL:,} changed, although it was final: nothing was"
            " deleted, and nothing is stored until a person decides"
        )
    assert await stage.contents() == before
    return stage


async def test_a_follow_stops_if_final_blocks_change(stopped: Stage, node: DevNode) -> None:
    """It stays stopped, and one that is created again is refused, until the branch is replaced."""
    async with stopped.follow(node, start=40, name="one") as follow:
        assert (await follow.status()).phase == "stopped"
    async with gapless.Engine(stopped.ledger) as engine:
        await control.remove(engine.ledger, "one")
    with pytest.raises(Orphaned):
        async with stopped.follow(node, start=40):
            pass
    request, targets = build_request(
        Config(), NETWORK, "40:finalized", [node.url], stopped.target, {}
    )
    replacing = replace(request, replace_branch=True)
    async with open_fetch(replacing, targets.config, stopped.ledger) as session:
        await run_fetch(session, SilentObserver())
    async with stopped.follow(node, start=40) as follow:
        await live_at(follow, node.chain.head)
    await stopped.assert_same(node.chain, 40, node.chain.head)


@pytest.fixture
def shallow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """A follow of a network whose changes are never deeper than five blocks."""
    monkeypatch.setattr(FollowSpec, "depth", 5)
    return Stage(f"sqlite:///{tmp_path}/ledger.db", f"{tmp_path}/blocks.db")


async def test_a_reorganisation_beyond_the_limit_stops_it(shallow: Stage, node: DevNode) -> None:
    async with shallow.follow(node, start=90) as follow:
        await live_at(follow, HEAD)
        before = await shallow.contents()
        node.reorg(6)
        status = await until(follow, lambda it: it.phase == "stopped")
        assert (status.state.alarm or "").startswith(
            f"the 6 blocks above {HEAD - 6:,} changed, which is more than the limit of 5: nothing"
        )
    assert await shallow.contents() == before


@pytest.mark.parametrize("depth", [6, 40])
async def test_a_deep_change_that_only_one_endpoint_has_is_not_followed(
    shallow: Stage, chain: Chain, depth: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Whether or not it includes final blocks."""
    alone = Chain(chain.chain_id, chain._blocks, chain._receipts, chain._builder)
    alone.start_at(HEAD)
    async with (
        DevNode(alone, limits=LIMITS) as wrong,
        DevNode(chain, limits=LIMITS) as right,
        shallow.follow(wrong, right, start=70) as follow,
    ):
        await live_at(follow, HEAD)
        wrong.reorg(depth)
        await eventually(lambda: "that no other endpoint has" in caplog.text)
        right.advance(2)
        status = await live_at(follow, HEAD + 2)
        assert status.state.alarm is None
    assert "chain_reorganised" not in caplog.text
    assert "chunk_failed" not in caplog.text, "the other endpoint was asked at once"
    await shallow.assert_same(chain, 70, HEAD + 2)
