"""A follow may delete a finished backfill of its history at any time: also from under a worker."""

from __future__ import annotations

import pytest

from gapless.ledger import Ledger, control
from gapless.ledger.database import LedgerTransaction
from gapless.runtime.catalog import Catalog
from gapless.runtime.settling import Settling


async def test_a_backfill_deleted_before_it_is_settled_is_passed_over(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def found_before_it_was_deleted(_: LedgerTransaction, __: object) -> list[str]:
        return ["deleted"]

    monkeypatch.setattr(control, "unsettled", found_before_it_was_deleted)
    assert await ledger.settle() == []


async def test_a_backfill_deleted_after_it_was_settled_does_not_end_the_worker(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = []

    async def settled_before_it_was_deleted(_: object) -> list[str]:
        return ["deleted"]

    monkeypatch.setattr(ledger, "settle", settled_before_it_was_deleted)
    settling = Settling(ledger, Catalog(), lambda: told.append("settled"), lambda: None)
    await settling.settle(["deleted"], [])
    assert told == ["settled"]
