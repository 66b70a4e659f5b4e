"""Follows of a real node over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gapless.devnode import Chain, DevNode, Parameters, simulated
from gapless.following import endpoints, follower, head_watch, service
from gapless.following.spec import FollowSpec
from tests.conformance.follow.stage import CHAIN_ID, HEAD, LIMITS, Stage


@pytest.fixture
def chain() -> Chain:
    return simulated(Parameters(blocks=HEAD, txs=3, fewest=0, chain_id=CHAIN_ID, seed=5))


@pytest.fixture
async def node(chain: Chain) -> AsyncIterator[DevNode]:
    async with DevNode(chain, limits=LIMITS) as running:
        yield running


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(f"sqlite:///{tmp_path}/ledger.db", f"{tmp_path}/blocks.db")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets followers look ten times a second instead of once."""
    monkeypatch.setattr(follower, "_SOON", 0.1)
    monkeypatch.setattr(FollowSpec, "poll_seconds", 0.1)
    monkeypatch.setattr(follower, "_LAG_EVERY", 0.3)
    monkeypatch.setattr(head_watch, "_OTHERS_EVERY", 0.3)
    monkeypatch.setattr(endpoints, "_PATIENCE", 0.5)
    monkeypatch.setattr(service, "_LOOK_EVERY", 0.2)
