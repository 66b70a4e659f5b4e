"""The followers of a process: started, started again, and ended when their follow is."""

from __future__ import annotations

from typing import Any

import pytest

import gapless
from gapless.core.errors import NotFound
from gapless.core.selector import all_heights
from gapless.devnode import DevNode
from gapless.following import control, follower
from gapless.following.service import following
from gapless.following.sighting import look
from gapless.ledger.records import BackfillRequest
from tests.conformance.follow.stage import HEAD, Stage, live_at
from tests.waiting import eventually


async def test_a_follower_that_breaks_is_started_again(
    stage: Stage, node: DevNode, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken = ["an error that nobody has thought of"]

    async def break_once(*arguments: Any) -> Any:
        if broken:
            raise RuntimeError(broken.pop())
        return await look(*arguments)

    monkeypatch.setattr(follower, "look", break_once)
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


def actions(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [getattr(each, "action", "") for each in caplog.records]
