"""Requesting a backfill again makes chunks due that wait after a failure."""

from __future__ import annotations

import pytest

from gapless.core.errors import NotFound
from gapless.ledger import Ledger
from tests.support import claim, claim_one, create, fail, indices


async def test_chunks_in_backoff_are_due_at_once(ledger: Ledger) -> None:
    await create(ledger, partitions=3, max_concurrent_runs=3)
    await create(ledger, "other", partitions=1)
    for _ in range(3):
        await fail(ledger, await claim_one(ledger, only="bf"))
    await fail(ledger, await claim_one(ledger, only="other"))
    assert await claim(ledger, 4) == []
    assert await ledger.hasten("bf") == 3
    assert await ledger.hasten("bf") == 0
    again = await claim(ledger, 4)
    assert {each.backfill_id for each in again} == {"bf"}
    assert sorted(indices(again)) == [0, 1, 2]
    assert {each.failures.attempts for each in again} == {1}
    assert await ledger.check() == []


async def test_an_unknown_backfill_is_an_error(ledger: Ledger) -> None:
    with pytest.raises(NotFound):
        await ledger.hasten("none")
