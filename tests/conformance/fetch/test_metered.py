"""A provider's budget of calls is unknown beforehand, and used nearly in full all the same."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any

import pytest

from gapless.core.backfill import State
from gapless.core.ranges import Span
from gapless.devnode import (
    Chain,
    DevNode,
    Limits,
    Metering,
    Pace,
    Parameters,
    parse_faults,
    simulated,
)
from tests.conformance.fetch.stage import truth

Fetch = Callable[..., Any]
# Calls that fail with their whole batch: HTTP errors, dropped connections, bodies that are no JSON.
FAULTS = "call-500=0.03,call-drop=0.01,call-malformed=0.01"
LONG = Parameters(blocks=700, txs=2, fewest=0, empty_every=9, seed=11)


@pytest.fixture
def target(tmp_path: Any) -> str:
    """One kind of sink will do: it is the provider that is slow."""
    return str(tmp_path / "chain.db")


async def timed(fetch: Fetch, node: DevNode, blocks: int, **options: Any) -> float:
    started = monotonic()
    result = await fetch(node, heights=f"0:{blocks - 1}", **options)
    assert result.state is State.SUCCEEDED
    return monotonic() - started


@pytest.mark.parametrize(
    ("budget", "seconds", "metering"),
    [
        (15, 9, Metering.WHOLE),
        (60, 5, Metering.WHOLE),
        (200, 4, Metering.WHOLE),
        (15, 9, Metering.EACH),
        (60, 5, Metering.EACH),
    ],
)
async def test_most_of_an_unknown_budget_is_used(
    fetch: Fetch, stored: Fetch, budget: int, seconds: int, metering: Metering
) -> None:
    """A batch above the budget is refused with a bare 429, or call by call inside HTTP 200."""
    chain = simulated(LONG)
    limits = Limits(rps=budget, metering=metering, retry_after=None)
    blocks = budget * (seconds + 1) // 2  # two calls each; a second's worth is there at once
    async with DevNode(chain, limits=limits) as node:
        took = await timed(fetch, node, blocks)
        assert node.refused > 0, "the budget was never met: the test proves nothing"
        assert (2 * blocks - budget) / took >= 0.7 * budget
    assert await stored() == truth(chain, Span(0, blocks - 1))


async def test_a_configured_rate_below_the_budget_is_never_refused(
    fetch: Fetch, chain: Chain
) -> None:
    limits = Limits(rps=80, metering=Metering.WHOLE, retry_after=None)
    async with DevNode(chain, limits=limits) as node:
        await timed(fetch, node, 80, rps=60)
        assert node.refused == 0


async def test_a_configured_rate_stays_an_upper_bound(fetch: Fetch, chain: Chain) -> None:
    async with DevNode(chain, faults="429-bare=0.1", limits=Limits(rps=1000)) as node:
        took = await timed(fetch, node, 90, rps=60)
        assert node.calls.total() / took <= 62


@pytest.mark.parametrize("latency", [0.0, 0.02, 0.1])
async def test_calls_that_fail_their_whole_batch_do_not_stop_a_fetch(
    fetch: Fetch, tmp_path: Any, latency: float
) -> None:
    chain, blocks, ratios = simulated(LONG), 500, list[float]()
    for turn in range(3):  # the best counts: the machine may be busy
        async with (
            DevNode(chain, pace=Pace(latency=latency)) as clean,
            DevNode(chain, faults=parse_faults(FAULTS, turn), pace=Pace(latency=latency)) as faulty,
        ):
            usual = await timed(fetch, clean, blocks, to=str(tmp_path / f"usual{turn}.db"))
            took = await timed(fetch, faulty, blocks, to=str(tmp_path / f"faulty{turn}.db"))
            assert faulty.injector.injected.total() > 20
            ratios.append(took / usual)
        if ratios[-1] <= 4:
            return
    pytest.fail(f"it takes {ratios} times as long")
