"""Compacting an ended backfill reduces its events and keeps them verifiable."""

from __future__ import annotations

import pytest

from gapless.core.errors import LedgerError
from gapless.core.events import BackfillCompacted
from gapless.ledger import Ledger
from tests.support import (
    Home,
    claim,
    claim_one,
    complete,
    create,
    event_types,
    fail,
    finish,
)


async def ended(ledger: Ledger, backfill_id: str = "bf") -> None:
    await create(ledger, backfill_id, partitions=50)
    first, second = await claim(ledger, 2, only=backfill_id)
    await fail(ledger, first, permanent=True)
    await complete(ledger, second)
    await finish(ledger, only=backfill_id)


async def test_chunk_events_are_removed_and_the_check_still_passes(ledger: Ledger) -> None:
    await ended(ledger)
    before = await ledger.backfill("bf")
    assert await ledger.compact() == 50 + 1 + 50
    assert await event_types(ledger) == [
        "BackfillCreated",
        "BackfillStateChanged",
        "BackfillStateChanged",
        "BackfillCompacted",
    ]
    event = (await ledger.events("bf"))[-1][0]
    assert isinstance(event, BackfillCompacted)
    assert (event.events, event.complete, event.abandoned, event.cancelled) == (101, 49, 1, 0)
    assert event.failed_runs == 1
    assert await ledger.check() == []
    assert await ledger.backfill("bf") == before
    assert len(await ledger.dead()) == 1


async def test_a_second_compaction_finds_nothing_to_do(ledger: Ledger) -> None:
    await ended(ledger)
    await ledger.compact()
    assert await ledger.compact() == 0
    assert (await event_types(ledger)).count("BackfillCompacted") == 1


async def test_a_running_backfill_is_left_alone(ledger: Ledger) -> None:
    await ended(ledger, "old")
    await create(ledger, "new")
    await claim_one(ledger)
    before = await ledger.events("new")
    assert await ledger.compact() > 0
    assert await ledger.events("new") == before


async def test_a_compacted_backfill_can_still_be_retried(ledger: Ledger) -> None:
    await ended(ledger)
    await ledger.compact()
    child = await ledger.retry_failed("bf", "child")
    assert (await ledger.selection(child.selection)).all_keys() == ["100"]
    assert await ledger.compact() == 0


async def test_tampering_with_a_compacted_backfill_is_found(breakable: Ledger, home: Home) -> None:
    await ended(breakable)
    await breakable.compact()
    await home.run("UPDATE chunks SET attempts = 7 WHERE chunk_index = 3")
    assert await breakable.check() == ["bf: chunks differ from the compacted snapshot"]


async def test_failed_runs_are_checked_after_a_compaction(breakable: Ledger, home: Home) -> None:
    await ended(breakable)
    await breakable.compact()
    await home.run("UPDATE counts SET failed_runs = 0")
    (problem,) = await breakable.check()
    assert problem == "bf: the counter of failed runs says 0, the events say 1"


async def test_a_backfill_that_fails_the_check_is_not_compacted(
    breakable: Ledger, home: Home
) -> None:
    await ended(breakable)
    await home.run("UPDATE chunks SET attempts = 7 WHERE chunk_index = 3")
    with pytest.raises(LedgerError, match="cannot compact: bf: chunk is 3"):
        await breakable.compact()
    assert "ChunkEnded" in await event_types(breakable)


async def test_completing_again_after_a_compaction_counts_nothing_twice(ledger: Ledger) -> None:
    await create(ledger, partitions=1)
    mine = await claim_one(ledger)
    await complete(ledger, mine)
    await ledger.settle()
    await ledger.compact()
    await complete(ledger, mine)
    assert (await ledger.backfill("bf")).chunks.complete == 1
