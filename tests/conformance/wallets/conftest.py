"""Wallets on a chain with an economy, from a real node over HTTP, in both databases."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

import gapless
from gapless.devnode import Chain, DevNode, simulated
from gapless.ledger.syncs import Sync
from tests.conformance.sink.conftest import target_of
from tests.conformance.wallets.stage import PARAMETERS

Add = Callable[..., Any]


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("economy")


@pytest.fixture
def chain(cache: Path) -> Chain:
    """A fresh view of the same chain: a test may extend its own."""
    return simulated(PARAMETERS, cache)


@pytest.fixture
async def node(chain: Chain) -> AsyncIterator[DevNode]:
    async with DevNode(chain) as running:
        yield running


@pytest.fixture
def target(request: pytest.FixtureRequest) -> str:
    """SQLite, unless a test asks for both databases."""
    return target_of(request, getattr(request, "param", "sqlite"))


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/ledger.db"


@pytest.fixture
def add(target: str, ledger: str, node: DevNode) -> Add:
    """Adds wallets, and waits until they are synced and classified."""

    async def run(*addresses: str, **options: Any) -> list[Sync]:
        given: dict[str, Any] = {"rpc": node.url, "to": target, "ledger": ledger, **options}
        return await gapless.add_wallets(addresses, given.pop("networks", "custom"), **given)

    return run


@pytest.fixture
def fetch(target: str, ledger: str, node: DevNode) -> Add:
    async def run(heights: str, **options: Any) -> gapless.FetchResult:
        given: dict[str, Any] = {"rpc": node.url, "to": target, "ledger": ledger, **options}
        return await gapless.fetch("custom", heights, **given)

    return run
