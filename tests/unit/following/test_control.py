"""Commands to a follow whose history goes on meanwhile."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gapless.core.backfill import State
from gapless.core.errors import NotFound
from gapless.following import control
from gapless.ledger import Ledger
from gapless.ledger.records import Backfill
from tests.follows import FOLLOW, HEAD, begin, closed
from tests.support import SqliteHome, finish, open_at


@pytest.fixture
async def ledger(tmp_path: Path) -> AsyncIterator[Ledger]:
    opened = await open_at(SqliteHome(tmp_path / "ledger.db"))
    yield opened
    await opened.close()


async def states(ledger: Ledger) -> dict[str, State]:
    return {each.id: each.state for each in await ledger.backfills(limit=9)}


async def test_history_obeys_as_well(ledger: Ledger) -> None:
    await begin(ledger)
    await ledger.create(closed("history"))
    await control.pause(ledger, FOLLOW)
    assert set((await states(ledger)).values()) == {State.PAUSED}
    await control.resume(ledger, FOLLOW)
    assert set((await states(ledger)).values()) == {State.RUNNING}
    await control.remove(ledger, FOLLOW)
    assert set((await states(ledger)).values()) == {State.CANCELLED}
    with pytest.raises(NotFound, match="no follow"):
        await control.pause(ledger, FOLLOW)


async def test_history_that_ends_meanwhile(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    await begin(ledger)
    await ledger.create(closed("history"))
    listed = ledger.backfills

    async def list_too_early(**wanted: object) -> list[Backfill]:
        found = await listed(**wanted)  # type: ignore[arg-type]
        await finish(ledger, queues=("backlog",))
        return found

    monkeypatch.setattr(ledger, "backfills", list_too_early)
    await control.pause(ledger, FOLLOW)
    monkeypatch.undo()
    assert await states(ledger) == {HEAD: State.PAUSED, "history": State.SUCCEEDED}
