"""Recorded chains, chains that change while they are read, and their contents."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gapless.chains.opening import open_sink
from gapless.core.backfill import State
from gapless.core.ranges import RangeSet, Span
from gapless.devnode import Chain, DevNode, Limits, Parameters, replayed, simulated
from gapless.devnode.faults import parse_faults
from tests.conformance.fetch.stage import HEAD, contents, truth

Fetch = Callable[..., Any]
CHAINS = Path(__file__).parents[4] / "shared/data/chains"
recorded = pytest.mark.skipif(not CHAINS.exists(), reason="there are no recorded chains")


@recorded
@pytest.mark.parametrize("name", ["execution-apis-54", "geth-ethtest-600"])
@pytest.mark.parametrize("level", ["auto", "roots"])
async def test_recorded_chains_are_fetched_completely(
    fetch: Fetch, target: str, name: str, level: str
) -> None:
    chain = replayed(CHAINS / name)
    last = chain.head
    async with DevNode(chain) as node:
        result = await fetch(node, heights=f"0:{last}", verify=level, confirmations=0)
    assert (result.state, result.gaps, result.not_proven) == (
        State.SUCCEEDED,
        RangeSet(),
        frozenset(),
    )
    assert await contents(target, chain.chain_id) == truth(chain, Span(0, last))


@recorded
async def test_logs_by_range_where_a_node_has_no_receipts(fetch: Fetch, target: str) -> None:
    chain = replayed(CHAINS / "geth-ethtest-600")
    missing = frozenset({"eth_getBlockReceipts", "eth_getTransactionReceipt"})
    async with DevNode(chain, limits=Limits(missing=missing, max_range=20)) as node:
        result = await fetch(node, heights="0:300", confirmations=0)
    assert (result.state, result.gaps) == (State.SUCCEEDED, RangeSet())
    assert "receipts_root" in result.not_proven
    found, honest = await contents(target, chain.chain_id), truth(chain, Span(0, 300))
    assert found["logs"] == honest["logs"]
    assert found["transactions"]["hash"] == honest["transactions"]["hash"]


ONLY_LOGS = Limits(missing=frozenset({"eth_getBlockReceipts", "eth_getTransactionReceipt"}))


async def test_logs_without_receipts_are_agreed_if_two_endpoints_match(
    parameters: Parameters, fetch: Fetch, target: str
) -> None:
    """Logs from a single endpoint are stored too, but not marked as agreed."""
    for last, count in ((60, 1), (120, 2)):
        async with AsyncExitStack() as stack:
            nodes = [DevNode(simulated(parameters), limits=ONLY_LOGS) for _ in range(count)]
            for node in nodes:
                await stack.enter_async_context(node)
            result = await fetch(*nodes, heights=f"{last - 59}:{last}", confirmations=0)
        assert (result.state, result.gaps) == (State.SUCCEEDED, RangeSet())
        assert "receipts_root" in result.not_proven
        assert "bloom" not in result.not_proven
    async with await open_sink(target) as sink:
        stored = await sink.stored(parameters.chain_id)
    agreed = {each: "agreed" in each.proven for each in stored}
    assert RangeSet(each.span for each in stored if agreed[each]) == RangeSet.of((61, 120))
    assert RangeSet(each.span for each in stored if not agreed[each]) == RangeSet.of((1, 60))


@pytest.mark.parametrize("target", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("fault", "both"),
    [("truncated", False), ("empty", False), ("empty", True)],
    ids=["one loses the last log", "one loses all", "both lose all at times"],
)
async def test_logs_that_one_endpoint_loses_are_not_lost(
    parameters: Parameters, chain: Chain, fetch: Fetch, stored: Fetch, fault: str, both: bool
) -> None:
    """Without receipts, only the bloom and the other endpoint can tell.

    If both lose the same log at the same time and the bloom does not show it, nothing can.
    """
    first, second = (parse_faults(f"{fault}=0.3", seed) for seed in (1, 2))
    honest = DevNode(chain, limits=ONLY_LOGS, faults=first if both else "")
    liar = DevNode(simulated(parameters), limits=ONLY_LOGS, faults=second)
    async with honest, liar:
        result = await fetch(honest, liar, heights="0:150", confirmations=0)
        assert liar.injected[fault] > 3
    complete = truth(chain, Span(0, 150))["logs"]
    there = [height not in result.gaps for height in complete["block_number"].to_pylist()]
    assert (await stored())["logs"] == complete.filter(pa.array(there)).combine_chunks()
    assert (result.state is State.SUCCEEDED) is not bool(result.gaps)


@pytest.mark.parametrize("fork", [30, 111, 180])
async def test_a_reorganisation_during_the_run(
    chain: Chain, fetch: Fetch, stored: Fetch, fork: int
) -> None:
    """Once a block was answered, it and all above are replaced; only the final state counts."""
    async with DevNode(chain, faults=f"reorg@{fork}") as node:
        result = await fetch(node, heights="0:200", confirmations=0)
        assert node.injected == {"reorg": 1}
    if result.state is State.SUCCEEDED:
        assert await stored() == truth(chain, Span(0, 200))
    else:
        assert result.gaps


async def test_reorganisations_of_the_tip_are_repaired(
    chain: Chain, fetch: Fetch, stored: Fetch
) -> None:
    """Blocks that are fetched although not final: each change is found and written again."""
    async with DevNode(chain) as node:
        for depth in (1, 5, 30):
            last = chain.head
            result = await fetch(node, heights=f"150:{last}", confirmations=0)
            assert (result.state, result.gaps) == (State.SUCCEEDED, RangeSet())
            chain.reorg(last - depth + 1, extra=3)
        last = chain.head
        assert last == HEAD + 9
        result = await fetch(node, heights=f"150:{last}", confirmations=0)
    assert (result.state, result.gaps) == (State.SUCCEEDED, RangeSet())
    assert await stored() == truth(chain, Span(150, last))


async def test_the_end_is_clipped_to_the_final_block(
    chain: Chain, fetch: Fetch, stored: Fetch
) -> None:
    async with DevNode(chain) as node:
        result = await fetch(node, heights="200:latest")
    assert result.span == (200, HEAD - 64)
    assert await stored() == truth(chain, Span(200, HEAD - 64))
