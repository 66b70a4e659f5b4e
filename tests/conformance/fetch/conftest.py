"""Each test of a fetch runs once per kind of sink, from a real node over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

import gapless
from gapless.devnode import Chain, DevNode, Parameters, simulated
from tests.conformance.fetch.stage import HEAD, Contents, contents
from tests.conformance.sink.conftest import target_of

Fetch = Callable[..., Any]


@pytest.fixture(scope="session")
def parameters() -> Parameters:
    return Parameters(blocks=HEAD, txs=4, fewest=0, empty_every=9, seed=11)


@pytest.fixture
def chain(parameters: Parameters) -> Chain:
    return simulated(parameters)


@pytest.fixture
async def node(chain: Chain) -> AsyncIterator[DevNode]:
    async with DevNode(chain) as running:
        yield running


@pytest.fixture(params=["sqlite", "parquet"])
def target(request: pytest.FixtureRequest) -> str:
    """All tests fetch into these two; tests of what a sink may get wrong add others."""
    return target_of(request, request.param)


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/ledger.db"


@pytest.fixture
def fetch(target: str, ledger: str) -> Fetch:
    """Fetches into the sink, in chunks and batches small enough to have several."""

    async def run(
        *nodes: DevNode, heights: str = f"0:{HEAD - 64}", to: str = target, **options: Any
    ) -> gapless.FetchResult:
        urls = [node.url for node in nodes]
        given = {"chunk_size": 50, "batch_size": 20, "ledger": ledger, **options}
        return await gapless.fetch("custom", heights, rpc=urls, to=to, **given)

    return run


@pytest.fixture
def stored(target: str) -> Callable[[], Any]:
    async def read() -> Contents:
        return await contents(target)

    return read
