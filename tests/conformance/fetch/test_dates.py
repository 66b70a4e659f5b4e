"""Date ranges: the blocks of days and instants, found with few calls and from honest headers."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from gapless.blocks.request import build_request
from gapless.blocks.session import open_fetch
from gapless.config import load
from gapless.core.errors import BadSelector, MissingHistory
from gapless.core.ranges import Span
from gapless.devnode import Chain, DevNode, Limits, Parameters, simulated
from gapless.devnode.evm.blocks import BLOCK_TIME, GENESIS_TIME

Fetch = Callable[..., Any]

# The genesis is from 2023-11-14T22:13:20Z, and the head from 2023-11-15T00:33:20Z.
MIDNIGHT = 534  # the first block of 2023-11-15
assert GENESIS_TIME + BLOCK_TIME * MIDNIGHT == 1_700_006_408
FINAL = 700 - 64


@pytest.fixture(scope="session")
def parameters() -> Parameters:
    return Parameters(blocks=700, txs=1)


@pytest.fixture
def chain(parameters: Parameters) -> Chain:
    return simulated(parameters)


@pytest.fixture
async def node(chain: Chain) -> AsyncIterator[DevNode]:
    async with DevNode(chain) as running:
        yield running


async def span_of(heights: str, tmp_path: Path, *nodes: DevNode) -> Span:
    """What a fetch would store, without storing anything."""
    urls = [node.url for node in nodes]
    wish, places = build_request(load(), "custom", heights, urls, f"{tmp_path}/x.db", {})
    ledger = f"sqlite:///{tmp_path}/ledger.db"
    async with open_fetch(wish, places.config, ledger, create=False) as fetching:
        return fetching.span


@pytest.mark.parametrize(
    ("heights", "expected"),
    [
        ("2023-11-14", (0, MIDNIGHT - 1)),
        ("2023-11-14:2023-11-14", (0, MIDNIGHT - 1)),
        ("2023-11-14:2023-11-15", (0, FINAL)),
        ("2023-11-15", (MIDNIGHT, FINAL)),
        ("2023-11-15:latest", (MIDNIGHT, FINAL)),
        ("2023-11-15:+10", (MIDNIGHT, MIDNIGHT + 9)),
        ("100:2023-11-14", (100, MIDNIGHT - 1)),
        (":2023-11-14", (0, MIDNIGHT - 1)),
        ("2023-11-14:600", (0, 600)),
        ("2023-11-14T22:13:32Z:2023-11-14T22:13:44Z", (1, 2)),
        ("2023-11-14T22:13:31Z:2023-11-14T22:13:43Z", (1, 1)),
        ("2023-11-14T22:13:33Z:2023-11-14", (2, MIDNIGHT - 1)),
    ],
)
async def test_both_ends_are_included(
    heights: str, expected: tuple[int, int], node: DevNode, tmp_path: Path
) -> None:
    assert await span_of(heights, tmp_path, node) == expected


@pytest.mark.parametrize(
    ("heights", "complaint"),
    [
        ("2023-11-16:latest", "`2023-11-16` is after the head of the chain, block 700"),
        ("2023-11-14:2023-11-16", "`2023-11-16` is after the head of the chain, block 700"),
        ("2023-11-13:latest", "`2023-11-13` is before the first block"),
        (":2023-11-13", "`2023-11-13` is before the first block"),
        ("2023-11-15T00:30:00Z:latest", "no block since `2023-11-15T00:30:00Z` is final yet"),
        ("2023-11-14T22:13:33Z:2023-11-14T22:13:43Z", "selects no block"),
        ("600:2023-11-14", "selects no block"),
    ],
)
async def test_dates_outside_the_chain_are_refused(
    heights: str, complaint: str, node: DevNode, tmp_path: Path
) -> None:
    with pytest.raises(BadSelector, match=complaint) as refused:
        await span_of(heights, tmp_path, node)
    assert refused.value.hint
    assert os.listdir(tmp_path) == []  # noqa: PTH208 - at once


@pytest.mark.parametrize(
    ("heights", "hint"),
    [("2023-11-16:latest", "start earlier"), ("2023-11-14:2023-11-16", "write `latest`")],
)
async def test_the_hint_about_a_future_date_fits_its_end_of_the_range(
    heights: str, hint: str, node: DevNode, tmp_path: Path
) -> None:
    with pytest.raises(BadSelector) as refused:
        await span_of(heights, tmp_path, node)
    assert refused.value.hint is not None
    assert refused.value.hint.startswith(hint)


@pytest.mark.parametrize("target", ["sqlite", "parquet", "duckdb", "postgres"], indirect=True)
async def test_the_same_dates_again_take_few_calls(fetch: Fetch, node: DevNode) -> None:
    """The stored blocks show where the dates are."""
    dates = "2023-11-14T23:50:00Z:2023-11-15T00:10:00Z"

    async def calls(heights: str) -> int:
        before = node.calls["eth_getBlockByNumber"]
        result = await fetch(node, heights=heights, datasets="blocks")
        assert result.span == (484, 583)
        return node.calls["eth_getBlockByNumber"] - before - int(result.fetched)

    by_dates = await calls(dates)
    by_heights = await calls("484:583")
    assert by_dates < by_heights + 20
    assert await calls(dates) <= by_heights + 4  # both edges, the final block and the genesis


async def test_the_backfill_records_the_resolved_heights(fetch: Fetch, node: DevNode) -> None:
    by_dates = await fetch(node, heights="2023-11-15:+60", datasets="blocks")
    assert by_dates.fetched == 60
    assert (await fetch(node, heights=f"{MIDNIGHT}:+60", datasets="blocks")).fetched == 0


@pytest.mark.parametrize(
    "faults", ["wrong-block=0.4", "null=0.3", "stale-head=0.3", "500=0.2,drop=0.2"]
)
async def test_one_endpoint_that_lies_or_lags_changes_nothing(
    faults: str, chain: Chain, node: DevNode, tmp_path: Path
) -> None:
    async with DevNode(chain, faults=faults) as bad:
        assert await span_of("2023-11-15:+10", tmp_path, bad, node) == (MIDNIGHT, MIDNIGHT + 9)


async def test_pruned_history_hides_only_its_own_dates(chain: Chain, tmp_path: Path) -> None:
    async with DevNode(chain, limits=Limits(pruned_below=400)) as pruned:
        assert await span_of("2023-11-15", tmp_path, pruned) == (MIDNIGHT, FINAL)
        with pytest.raises(MissingHistory):
            await span_of("2023-11-14T22:30:00Z:latest", tmp_path, pruned)
