"""Endpoints that fail, lag or stand still, and subscriptions that only save time."""

from __future__ import annotations

import pytest

from gapless.devnode import Chain, DevNode, Limits, Visibility
from gapless.following import head_watch, hints
from gapless.following.spec import FollowSpec
from gapless.telemetry import metrics
from tests.acceptance.beside import Patient
from tests.conformance.follow.stage import DEPTH, HEAD, LIMITS, Stage, live_at, until
from tests.waiting import eventually


def actions(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [getattr(each, "action", "") for each in caplog.records]


@pytest.fixture
def soon_stalled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets a head that does not move be noticed after a moment."""
    monkeypatch.setattr(head_watch, "_STALLED_AT_LEAST", 0.3)
    monkeypatch.setattr(head_watch, "_STALLED_AFTER", 0)


async def test_a_node_that_fails_and_recovers(
    stage: Stage, chain: Chain, caplog: pytest.LogCaptureFixture
) -> None:
    async with Patient(chain, limits=LIMITS) as node, stage.follow(node, start=110) as follow:
        await live_at(follow, HEAD)
        node.well_for = 0
        node.advance(4)
        await eventually(lambda: "follow_troubled" in actions(caplog))
        assert (await follow.status()).head == HEAD, "what nobody has seen is not planned"
        status = await until(follow, lambda it: it.silent_seconds > 0.5)
        assert (status.trouble or "").startswith("no endpoint answers: `a` (")
        assert status.phase == "behind"
        await eventually(lambda: metrics.LAG_SECONDS.values[follow.name,] > 0.5)
        node.well_for = None
        status = await live_at(follow, HEAD + 4)
        await until(follow, lambda it: it.trouble is None and it.silent_seconds == 0)
    await stage.assert_same(chain, 110, HEAD + 4)
    (said,) = (each for each in caplog.records if getattr(each, "action", "") == "follow_troubled")
    assert "no endpoint answers: `a` (" in said.getMessage()


async def test_another_endpoint_takes_over(stage: Stage, chain: Chain) -> None:
    async with (
        Patient(chain, limits=LIMITS) as first,
        DevNode(chain, limits=LIMITS) as second,
        stage.follow(first, second, start=110) as follow,
    ):
        await live_at(follow, HEAD)
        first.well_for = 0
        first.advance(3)
        await live_at(follow, HEAD + 3)
    await stage.assert_same(chain, 110, HEAD + 3)


@pytest.mark.usefixtures("soon_stalled")
async def test_a_chain_that_stands_still(
    stage: Stage, node: DevNode, caplog: pytest.LogCaptureFixture
) -> None:
    async with stage.follow(node, start=110) as follow:
        await live_at(follow, HEAD)
        await eventually(lambda: "chain_stalled" in actions(caplog))
        assert "endpoint_behind" not in actions(caplog)
        node.advance()
        await live_at(follow, HEAD + 1)


@pytest.mark.usefixtures("soon_stalled")
async def test_an_endpoint_that_stands_still(
    stage: Stage, chain: Chain, caplog: pytest.LogCaptureFixture
) -> None:
    frozen = DevNode(chain, limits=LIMITS, visibility=Visibility(cache=3600))
    async with (
        frozen,
        DevNode(chain, limits=LIMITS) as node,
        stage.follow(frozen, node, start=110) as follow,
    ):
        await live_at(follow, HEAD)
        node.advance(3)
        await live_at(follow, HEAD + 3)
    assert "endpoint_behind" in actions(caplog)
    assert "chain_stalled" not in actions(caplog)[actions(caplog).index("endpoint_behind") :]


@pytest.mark.parametrize(
    "visibility",
    [Visibility(null=3600), Visibility(cache=3600), Visibility(lag=30)],
    ids=["null", "cache", "lag"],
)
async def test_what_one_endpoint_lacks_another_one_serves_at_once(
    stage: Stage, chain: Chain, visibility: Visibility, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither the follower nor a run waits for the endpoint; a retry would take five seconds."""
    async with (
        DevNode(chain, limits=LIMITS, visibility=visibility) as first,
        DevNode(chain, limits=LIMITS) as second,
        stage.follow(first, second, start=110) as follow,
    ):
        await eventually(lambda: first.requests > 3)
        for blocks in (1, 3, 1, 2):
            second.advance(blocks)
            await live_at(follow, chain.head)
    assert "chunk_failed" not in actions(caplog)
    await stage.assert_same(chain, 110, HEAD + 7)


async def test_a_lower_head_is_not_a_reorganisation(
    stage: Stage, chain: Chain, caplog: pytest.LogCaptureFixture
) -> None:
    lagging = DevNode(chain, limits=LIMITS, visibility=Visibility(lag=4))
    async with (
        Patient(chain, limits=LIMITS) as first,
        lagging,
        stage.follow(first, lagging, start=110) as follow,
    ):
        await live_at(follow, HEAD)
        first.well_for = 0
        before = lagging.requests
        await eventually(lambda: lagging.requests > before + 3)
        first.advance(6)
        await live_at(follow, HEAD + 2)
    assert "chain_reorganised" not in actions(caplog)
    await stage.assert_same(chain, 110, HEAD + 2)


@pytest.fixture
def hints_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets a follower look at the head only every ten minutes, or when it is told of a block."""
    monkeypatch.setattr(FollowSpec, "poll_seconds", 600.0)
    monkeypatch.setattr(hints, "_FIRST_WAIT", 0.1)


@pytest.mark.usefixtures("hints_only")
async def test_a_notice_of_a_block_wakes_the_follower(stage: Stage, node: DevNode) -> None:
    async with stage.follow(node, start=110, ws=True) as follow:
        await eventually(lambda: bool(node.subscriptions))
        for _ in range(2):
            node.advance()
            await live_at(follow, node.chain.head)
    assert not node.subscriptions, "it does not outlive the follow"
    await stage.assert_same(node.chain, 110, HEAD + 2)


@pytest.mark.usefixtures("hints_only")
async def test_a_lost_subscription_is_opened_again(
    stage: Stage, chain: Chain, caplog: pytest.LogCaptureFixture
) -> None:
    node = DevNode(chain, limits=LIMITS, faults=f"ws-drop@{HEAD + 1}")
    async with node, stage.follow(node, start=110, ws=True) as follow:
        await eventually(lambda: bool(node.subscriptions))
        node.advance()
        await eventually(lambda: "subscription_lost" in actions(caplog))
        await eventually(lambda: bool(node.subscriptions))
        node.advance()
        await live_at(follow, HEAD + 2)
    await stage.assert_same(chain, 110, HEAD + 2)
    assert "SECRET" not in caplog.text


async def test_without_its_subscription_a_follow_polls(stage: Stage, chain: Chain) -> None:
    refusing = Limits(finality_depth=DEPTH, missing=frozenset({"eth_subscribe"}))
    async with (
        DevNode(chain, limits=refusing) as node,
        stage.follow(node, start=110, ws=True) as follow,
    ):
        await live_at(follow, HEAD)
        node.advance(2)
        await live_at(follow, HEAD + 2)


async def test_only_a_leader_subscribes(stage: Stage, node: DevNode) -> None:
    async with stage.follow(node, start=110, ws=True) as leading:
        await live_at(leading, HEAD)
        await eventually(lambda: bool(node.subscriptions))
        subscribers = len(node.subscriptions._subscribers)
        async with stage.follow(node, start=110, ws=True) as standing_by:
            node.advance()
            status = await live_at(standing_by, HEAD + 1)
            assert len(node.subscriptions._subscribers) == subscribers == 1
        assert (await leading.status()).leader == status.leader
