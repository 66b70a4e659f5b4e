"""The followers of a process: started, started again, and ended when their follow is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import gapless
from gapless.core.errors import NotFound
from gapless.core.selector import all_heights
from gapless.devnode import Chain, DevNode
from gapless.following import control, endpoints, head_watch, lease
from gapless.following.service import following
from gapless.following.sighting import look
from gapless.following.spec import FollowSpec
from gapless.ledger.records import BackfillRequest
from gapless.telemetry import metrics
from tests.acceptance.beside import Patient
from tests.conformance.follow.stage import HEAD, LIMITS, Stage, live_at
from tests.waiting import eventually


async def test_a_follower_that_breaks_is_started_again(
    stage: Stage, node: DevNode, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken = ["an error that nobody has thought of"]

    async def break_once(*arguments: Any) -> Any:
        if broken:
            raise RuntimeError(broken.pop())
        return await look(*arguments)

    monkeypatch.setattr(head_watch, "look", break_once)
    async with stage.follow(node, start=100) as follow:
        await live_at(follow, HEAD)
    assert "follower_failed" in actions(caplog)
    await stage.assert_same(node.chain, 100, HEAD)


async def test_a_follow_that_is_removed_elsewhere(stage: Stage, node: DevNode) -> None:
    async with stage.follow(node, start=100) as follow:
        await live_at(follow, HEAD)
        async with gapless.Engine(stage.ledger) as other:
            await control.remove(other.ledger, follow.name)
        with pytest.raises(NotFound):
            await follow.status()
        asked: list[int] = []

        def is_quiet() -> bool:  # for a hundred looks, which last a second
            asked.append(node.requests)
            return len(asked) > 100 and asked[-100] == asked[-1]

        await eventually(is_quiet)
    await stage.assert_same(node.chain, 100, HEAD)


async def test_a_follow_that_cannot_be_read_keeps_no_other_waiting(
    stage: Stage, node: DevNode, caplog: pytest.LogCaptureFixture
) -> None:
    async with gapless.Engine(stage.ledger, slots=None) as engine:
        unreadable = BackfillRequest(
            id="follow-broken",
            job="follow",
            job_version=1,
            selector={"kind": "range", "start": "0", "end": "9"},
            selection=all_heights(),
            chunk_size=1,
            spec={"network": 7},
            standing=True,
            follow="broken",
        )
        await engine.ledger.create(unreadable)
    async with (
        gapless.Engine(stage.ledger, slots=gapless.FOLLOW_SLOTS) as engine,
        following(engine),
    ):
        await eventually(lambda: "follower_failed" in actions(caplog))
        async with stage.follow(node, start=100) as follow:
            await live_at(follow, HEAD)
        assert actions(caplog).count("follower_failed") == 1, "it is said once"
    await stage.assert_same(node.chain, 100, HEAD)


@pytest.fixture
def short_lease(monkeypatch: pytest.MonkeyPatch) -> float:
    seconds = 0.6
    monkeypatch.setattr(FollowSpec, "lease_seconds", seconds)
    return seconds


async def test_a_leader_keeps_its_lease_whatever_endpoints_do(
    stage: Stage, chain: Chain, short_lease: float
) -> None:
    """Two endpoints hang for longer than a lease lasts, while another process stands by."""
    async with (
        Patient(chain, limits=LIMITS) as first,
        Patient(chain, limits=LIMITS) as second,
        stage.follow(first, second, start=110) as follow,
        stage.follow(first, second, start=110),
    ):
        await live_at(follow, HEAD)
        for node in (first, second):
            node.hangs, node.well_for = True, 0
        await asyncio.gather(first.ill.wait(), second.ill.wait())
        async with gapless.Engine(stage.ledger, slots=None) as engine:
            before = await engine.ledger.cursor(follow.name)

            async def is_much_later() -> bool:
                now = await engine.ledger.cursor(follow.name)
                assert (now.owner, now.fence) == (before.owner, before.fence)
                return (now.lease_until or 0) > (before.lease_until or 0) + 4 * short_lease

            await eventually(is_much_later)


async def test_a_leader_that_lost_its_lease_within_a_turn_changes_nothing(
    stage: Stage, node: DevNode, short_lease: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "_LONGEST_TURN", 0)
    looking, looked = asyncio.Event(), asyncio.Event()

    async def look_for_long(*arguments: Any) -> Any:
        seen = await look(*arguments)
        looking.set()
        await looked.wait()
        return seen

    async with stage.follow(node, start=110) as follow:
        await live_at(follow, HEAD)
        async with gapless.Engine(stage.ledger, slots=None) as engine:
            monkeypatch.setattr(head_watch, "look", look_for_long)
            monkeypatch.setattr(endpoints, "_PATIENCE", 60.0)
            node.advance()
            await looking.wait()

            async def is_led_by_another() -> bool:
                longer = short_lease + 0.9  # a lease that ends later counts as impossible
                return await engine.ledger.lead(follow.name, "other", longer) is not None

            await eventually(is_led_by_another)
            after = await engine.ledger.cursor(follow.name)
            looked.set()
            await eventually(lambda: metrics.LEADS.values[follow.name,] == 0)
            now = await engine.ledger.cursor(follow.name)
            assert (now.owner, now.version, now.state) == ("other", after.version, after.state)


def actions(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [getattr(each, "action", "") for each in caplog.records]
