"""A worker is healthy while it reaches its ledger."""

from __future__ import annotations

import time

from gapless.cli.metrics import LATELY, MetricsPage
from gapless.runtime.engine import Engine
from tests.support import Home


async def test_health_follows_the_ledger(home: Home) -> None:
    page = MetricsPage()
    assert page.trouble() == "the worker is starting or has stopped"
    async with Engine(home.url, slots=None) as engine:
        with page.of(engine):
            await engine.ledger.backfills()
            assert page.trouble() is None
            engine.ledger.reached_at = time.monotonic() - LATELY - 15
            assert page.trouble() == "the ledger was last reached 45 s ago"
            await engine.ledger.backfills()
            assert page.trouble() is None
    assert page.trouble() == "the worker is starting or has stopped"
