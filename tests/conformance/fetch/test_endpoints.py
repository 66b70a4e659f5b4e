"""Which endpoint is to blame: in the result, the log and the metrics."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from gapless.chains.evm.queries import QUERIES
from gapless.core.backfill import State
from gapless.devnode import Chain, DevNode
from gapless.devnode.wire import Reply
from gapless.providers import Call, EndpointSpec, Pool, Providers, Served
from gapless.telemetry import metrics
from tests.unit.rpc.nodes import KEY, Outspoken, error

Fetch = Callable[..., Any]


@pytest.fixture(autouse=True)
def logged(caplog: pytest.LogCaptureFixture) -> Callable[..., list[dict[str, Any]]]:
    """The fields of log lines with these actions."""
    caplog.set_level(logging.DEBUG, "gapless")

    def read(*actions: str) -> list[dict[str, Any]]:
        return [
            {"action": action, "level": line.levelname.lower(), **getattr(line, "fields", {})}
            for line in caplog.records
            if (action := getattr(line, "action", None)) in actions
        ]

    return read


def name_of(node: DevNode) -> str:
    return node.url.partition("://")[2]


async def test_a_dead_endpoint_beside_a_good_one(
    chain: Chain, node: DevNode, fetch: Fetch, logged: Fetch
) -> None:
    async with Outspoken(chain, lambda _: Reply(b"no", 401)) as denying:
        result = await fetch(denying, node)
        dead, good = (result.endpoints[name_of(each)] for each in (denying, node))
        (line,) = logged("endpoint_failed")
        assert (line["endpoint"], line["level"]) == (name_of(denying), "warning")
        assert "HTTP 401" in line["error"]
    assert result.state is State.SUCCEEDED
    assert (dead.trouble, dead.resting, dead.down) == ("HTTP 401 no", True, True)
    assert (good.trouble, good.resting, good.down, good.refused) == ("", False, False, 0)
    assert dead.calls + good.calls == sum(result.calls.values())


async def test_a_lying_endpoint_beside_a_good_one(
    chain: Chain, node: DevNode, fetch: Fetch, logged: Fetch
) -> None:
    before = dict(metrics.REFUSED_ANSWERS.values)
    async with DevNode(chain, faults="truncated=1") as lying:
        result = await fetch(lying, node)
        liar, good = name_of(lying), name_of(node)
    assert result.state is State.SUCCEEDED
    assert result.refused == result.endpoints[liar].refused > 3
    assert result.endpoints[good].refused == 0
    (line,) = logged("endpoint_distrusted")
    assert (line["endpoint"], line["level"]) == (liar, "warning")
    assert {line["endpoint"] for line in logged("answer_refused")} == {liar}
    counted = metrics.REFUSED_ANSWERS.values[liar,] - before.get((liar,), 0)
    assert counted == result.refused
    assert (good,) not in metrics.REFUSED_ANSWERS.values


async def test_a_recovered_endpoint_is_reported_once(chain: Chain, logged: Fetch) -> None:
    refusing = True

    def answering(asked: Any) -> Reply | None:
        return Reply(b"no", 403) if refusing else None

    async with (
        Outspoken(chain, answering) as node,
        Providers() as providers,
        Pool(
            [EndpointSpec("a", f"{node.url}/{KEY}")], QUERIES, providers=providers, patience=0
        ) as pool,
    ):
        endpoint = pool._endpoints[0]
        for _ in range(3):
            with pytest.raises(Exception, match="HTTP 403"):
                await pool.ask([Call("eth_blockNumber")])
            endpoint._rests_until = float("-inf")
        assert metrics.ENDPOINT_UP.values["a",] == 0
        refusing = False
        for _ in range(3):
            await pool.ask([Call("eth_blockNumber")])
        assert metrics.ENDPOINT_UP.values["a",] == 1
        assert [line["action"] for line in logged("endpoint_failed", "endpoint_recovered")] == [
            "endpoint_failed",
            "endpoint_recovered",
        ]
    assert ("a",) not in metrics.ENDPOINT_UP.values


async def test_a_rate_limit_is_not_a_failure(chain: Chain, logged: Fetch) -> None:
    replies = iter([error("too many requests", 0, 429)] * 3)
    async with (
        Outspoken(chain, lambda _: next(replies, None)) as node,
        Providers() as providers,
        Pool([EndpointSpec("a", node.url)], QUERIES, providers=providers) as pool,
    ):
        await pool.ask([Call("eth_blockNumber")])
        assert logged("endpoint_failed") == []
        served = pool.served()["a"]
        assert (served.down, served.trouble) == (False, "too many requests")


def test_the_counts_of_two_processes_are_added() -> None:
    one = Served(calls=3, refused=1, trouble="HTTP 500")
    two = Served(calls=4, refused=2, trouble="HTTP 401", rest=9.0, down=True)
    both = Served(calls=7, refused=3, trouble="HTTP 401", rest=9.0, down=True)
    assert one + two == two + one == both
    assert Served() + one == one


async def test_an_endpoint_that_fails_during_the_run_is_named(
    chain: Chain, node: DevNode, fetch: Fetch, logged: Fetch
) -> None:
    """It answers at first, then denies access: the fetch continues with the other one."""
    alive = asyncio.Event()

    def answering(asked: Any) -> Reply | None:
        if isinstance(asked, list) and len(asked) > 1:
            alive.set()
        return Reply(b"gone", 403) if alive.is_set() else None

    async with Outspoken(chain, answering) as dying:
        result = await fetch(dying, node)
        name = name_of(dying)
    assert result.state is State.SUCCEEDED
    assert result.endpoints[name].down
    assert [line["endpoint"] for line in logged("endpoint_failed")] == [name]
