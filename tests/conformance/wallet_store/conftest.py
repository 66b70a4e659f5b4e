"""Every test of the wallet store runs once on SQLite and once on PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from gapless.chains.opening import open_sink
from gapless.sinks import AccompaniedSink, companion
from gapless.wallets.store import WalletStore

WATCHING = "tests.conformance.wallet_store.watching"


@pytest.fixture(params=["sqlite", "postgres"])
def target(request: pytest.FixtureRequest) -> str:
    """Where a sink with wallets may be created."""
    if request.param == "sqlite":
        return f"{request.getfixturevalue('tmp_path')}/wallets.db"
    return str(request.getfixturevalue("postgres_target"))


@pytest.fixture(autouse=True)
def known_companion(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(companion.BUILT_IN, "wallets", WATCHING)


@pytest.fixture
async def sink(target: str) -> AsyncIterator[AccompaniedSink]:
    async with await open_sink(target) as opened:
        assert isinstance(opened, AccompaniedSink)
        yield opened


@pytest.fixture
def store(sink: AccompaniedSink) -> WalletStore:
    return WalletStore.of(sink)
