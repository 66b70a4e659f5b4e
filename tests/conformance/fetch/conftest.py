"""Each test of a fetch runs once per kind of sink, from a real node over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

import gapless
from gapless.chains import families
from gapless.chains.family import Family
from gapless.devnode import Chain, DevNode, Parameters, simulated
from tests.conformance.fetch.stage import HEAD, Contents, contents
from tests.conformance.sink.conftest import target_of

Fetch = Callable[..., Any]


@pytest.fixture(scope="session")
def parameters() -> Parameters:
    return Parameters(blocks=HEAD, txs=4, fewest=0, empty_every=9, seed=11)


@pytest.fixture
def family(request: pytest.FixtureRequest) -> Family:
    """The family of the chain, EVM unless a test chooses another one by its name."""
    name = getattr(request, "param", "evm")
    return next(each for each in families() if each.name == name)


@pytest.fixture
def chain(parameters: Parameters, family: Family) -> Chain:
    return simulated(parameters, family=family.name)


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
def fetch(target: str, ledger: str, family: Family) -> Fetch:
    """Fetches into the sink, in chunks and batches small enough to have several."""

    async def run(
        *nodes: DevNode, heights: str = f"0:{HEAD - 64}", to: str = target, **options: Any
    ) -> gapless.FetchResult:
        urls = [node.url for node in nodes]
        given = {"chunk_size": 50, "batch_size": 20, "ledger": ledger, **options}
        network = family.networks[-1].name
        return await gapless.fetch(network, heights, rpc=urls, to=to, **given)

    return run


@pytest.fixture
def stored(target: str, chain: Chain, family: Family) -> Callable[[], Any]:
    async def read() -> Contents:
        return await contents(target, chain.chain_id, family)

    return read
