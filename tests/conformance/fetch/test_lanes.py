"""What the priority lane asks of a provider is answered soon, however busy history keeps it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from time import monotonic

import pytest

import gapless
from gapless.chains.evm.queries import QUERIES
from gapless.devnode import Chain, DevNode, Limits, Metering, Pace
from gapless.lanes import Lane, in_lane
from gapless.providers import Call, EndpointSpec, Pool
from gapless.providers.request_queue import RequestQueue, RequestTurn
from tests.waiting import eventually

LATENCY = 0.05
BUDGET, RATE = 20, 16  # calls per second: what the node allows, and what is used of it
HEAD = [Call("eth_getBlockByNumber", ("latest", True)), Call("eth_getBlockReceipts", ("latest",))]


async def seconds(pool: Pool, lane: Lane) -> float:
    began = monotonic()
    with in_lane(lane):
        await pool.ask(HEAD)
    return monotonic() - began


async def test_the_head_is_answered_within_the_pace_of_one_batch(
    chain: Chain, tmp_path: Path
) -> None:
    limits = Limits(rps=BUDGET, metering=Metering.WHOLE, retry_after=None)
    async with (
        DevNode(chain, limits=limits, pace=Pace(latency=LATENCY)) as node,
        gapless.Providers() as providers,
        Pool([EndpointSpec("head", node.url)], QUERIES, providers=providers) as pool,
    ):
        history = asyncio.create_task(
            gapless.fetch(
                "custom",
                "0:199",
                rpc=node.url,
                rps=RATE,
                to=tmp_path / "chain.db",
                ledger=f"sqlite:///{tmp_path}/ledger.db",
                providers=providers,
            )
        )
        await eventually(lambda: pool.waiting >= 4)
        ordinary = asyncio.create_task(seconds(pool, Lane.ORDINARY))
        one_batch = pool.room([HEAD[0]]) / RATE
        took = [await seconds(pool, Lane.PRIORITY) for _ in range(3)]
        assert max(took) < one_batch + LATENCY + 0.5, "the rest is for a busy machine"
        assert not ordinary.done(), "nobody had to wait: the test proves nothing"
        assert node.refused == 0
        for task in (ordinary, history):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def test_a_follower_looks_at_the_head_in_the_priority_lane(
    chain: Chain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lanes: list[Lane] = []
    join = RequestQueue.join

    def joined(queue: RequestQueue, turn: RequestTurn) -> None:
        lanes.append(turn.lane)
        join(queue, turn)

    async with (
        DevNode(chain) as node,
        gapless.Engine(f"sqlite:///{tmp_path}/ledger.db", slots={"priority": 1}) as engine,
    ):
        monkeypatch.setenv("NODE", node.url)
        monkeypatch.setenv("SINK", f"{tmp_path}/chain.db")
        async with gapless.follow(engine, "custom", rpc="env:NODE", to="env:SINK"):
            monkeypatch.setattr(RequestQueue, "join", joined)
            await eventually(lambda: len(lanes) >= 2)
    assert set(lanes) == {Lane.PRIORITY}
