"""Publishers that crash, sleep and lose answers: a consumer has the chain, each block once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.redis_server import RedisServer
from tests.simulation.publish_servers import RealServer, SimulatedServer
from tests.simulation.publish_world import run_publish
from tests.simulation.run import run_published

AGREEMENTS = 20  # seeds that run on both
SHARDS, RUNS = 4, 10


@pytest.fixture(scope="module")
def durable_redis() -> Iterator[RedisServer]:
    with RedisServer(durable=True) as server:
        yield server


@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_consumer_has_the_chain_whatever_goes_wrong(shard: int) -> None:
    first = AGREEMENTS + shard * RUNS
    for seed in range(first, first + RUNS):
        outcome = run_published(seed)
        assert outcome.problem is None, str(outcome)


@pytest.mark.parametrize("shard", range(4))
def test_redis_does_what_the_model_does(shard: int, durable_redis: RedisServer) -> None:
    """Every step is the same, and so are the entries; the server is killed in between."""
    for seed in range(shard, AGREEMENTS, 4):
        durable_redis.empty()
        real = run_publish(seed, lambda: RealServer(durable_redis))
        model = run_publish(seed, SimulatedServer)
        assert (real.problem, model.problem) == (None, None)
        assert real.seen == model.seen
        assert _steps(real.trace) == _steps(model.trace), f"seed {seed}"


def test_the_runs_cover_what_can_go_wrong() -> None:
    traces = [run_publish(seed, SimulatedServer).trace for seed in range(12)]
    lines = [line for trace in traces for line in trace]
    for wanted in ("flushed", "retracted from", "Crash", "Unreachable", "Refused", "took a turn"):
        assert any(wanted in line for line in lines), wanted


def _steps(trace: list[str]) -> list[str]:
    """What happened, without the words of errors."""
    return [line.partition("(")[0] for line in trace]
