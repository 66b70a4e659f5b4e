"""`check` finds nothing in a correct ledger, and names whatever was tampered with."""

from __future__ import annotations

import pytest

from gapless.core.backfill import Lifecycle
from gapless.core.chunk import Status
from gapless.core.projection import Projection
from gapless.core.selector import Selection
from gapless.ledger import Ledger
from tests.support import (
    Clock,
    Home,
    PostgresHome,
    claim,
    claim_one,
    complete,
    create,
    done,
    fail,
    finish,
)


async def eventful(ledger: Ledger, clock: Clock) -> None:
    """Chunks in every status: complete, abandoned, failed, running and pending."""
    await create(ledger, partitions=20, chunk_size=2)
    complete_one, dead, failed, _ = await claim(ledger, 4)
    await complete(ledger, complete_one)
    await fail(ledger, dead, done(2), permanent=True)
    await fail(ledger, failed)
    clock.now += 60
    await ledger.pause("bf")
    await ledger.resume("bf")
    await claim_one(ledger)


async def test_a_correct_ledger_has_no_problems(ledger: Ledger, clock: Clock) -> None:
    assert await ledger.check() == []
    await eventful(ledger, clock)
    assert await ledger.check() == []
    await ledger.cancel("bf", force=True)
    assert await ledger.check() == []


@pytest.mark.parametrize(
    ("tampering", "problem"),
    [
        ("UPDATE chunks SET status = 'COMPLETE' WHERE chunk_index = 5", "chunk is 5"),
        ("UPDATE chunks SET status = 'PENDING' WHERE chunk_index = 0", "chunk is 0"),
        ("UPDATE chunks SET attempts = 0 WHERE chunk_index = 2", "chunk is 2"),
        ("UPDATE chunks SET lost = 5 WHERE chunk_index = 3", "chunk is 3"),
        ("UPDATE chunks SET last = last + 1 WHERE chunk_index = 4", "chunk is 4"),
        ("DELETE FROM chunks WHERE chunk_index = 7", "9 chunks stand for 10 planned"),
        ("UPDATE backfills SET planned = planned - 1", "10 chunks stand for 9 planned"),
        ("UPDATE backfills SET state = 'SUCCEEDED'", "backfill is Lifecycle"),
        ("UPDATE backfills SET state_version = 9", "backfill is Lifecycle"),
        ("UPDATE backfills SET stopping = 'cancel'", "backfill is Lifecycle"),
        ("UPDATE counts SET complete = complete + 1", "counters say (2, 1, 0)"),
        ("DELETE FROM counts", "counters say (0, 0, 0), the rows are (1, 1, 0)"),
        ("UPDATE counts SET failed_runs = 9", "failed runs says 9, the events say 3"),
        ("UPDATE counts SET purged = 1", "purged dead letters says 1, the rows are 0"),
        ("UPDATE chunks SET purged_at = 1 WHERE chunk_index = 1", "says 0, the rows are 1"),
        ("DELETE FROM events WHERE type = 'BackfillStateChanged'", "backfill is Lifecycle"),
        ("DELETE FROM events WHERE type = 'ChunkFailed'", "chunk is 1"),
        ("DELETE FROM events WHERE type = 'ChunkEnded'", "its events say 0 [0, 1] open"),
        ("DELETE FROM events WHERE type = 'BackfillChunkPlanned'", "its events say None"),
        ("DELETE FROM events WHERE idempotency_key = 'backfill_chunk:bf:1'", "chunk is 1"),
    ],
)
async def test_tampering_is_found(
    breakable: Ledger, home: Home, clock: Clock, tampering: str, problem: str
) -> None:
    await eventful(breakable, clock)
    assert await breakable.check() == []
    await home.run(tampering)
    problems = await breakable.check()
    assert any(problem in found for found in problems), problems
    assert all(found.startswith("bf: ") for found in problems)


async def test_a_changed_selection_is_found(breakable: Ledger, home: Home) -> None:
    backfill = await create(breakable)
    forged = Selection("blocks", spans=((100, 108),)).encode().hex()
    value = f"'\\x{forged}'" if isinstance(home, PostgresHome) else f"x'{forged}'"
    await home.run(f"UPDATE selections SET data = {value} WHERE hash = '{backfill.selection}'")
    assert await breakable.check() == ["bf: the selection does not match its hash"]


async def test_an_unreadable_selection_is_found(breakable: Ledger, home: Home) -> None:
    await create(breakable)
    value = r"'\x00'" if isinstance(home, PostgresHome) else "x'00'"
    await home.run(f"UPDATE selections SET data = {value}")
    assert await breakable.check() == ["bf: the selection does not match its hash"]


async def test_every_backfill_is_checked(breakable: Ledger, home: Home) -> None:
    for name in ("a", "b", "c"):
        await create(breakable, name, partitions=1)
        await finish(breakable)
    await home.run("UPDATE chunks SET status = 'ABANDONED' WHERE backfill_id IN ('a', 'c')")
    assert {problem.partition(":")[0] for problem in await breakable.check()} == {"a", "c"}


async def test_folding_the_events_reproduces_the_tables(ledger: Ledger, clock: Clock) -> None:
    await eventful(ledger, clock)
    projection = Projection(Lifecycle("bf"))
    for event, _ in await ledger.events("bf"):
        projection.apply(event)
    assert projection.lifecycle == (await ledger.backfill("bf")).lifecycle
    for row in await ledger.chunks("bf"):
        fact = projection.chunks[row.chunk_index]
        assert (fact.first, fact.last) == row.span
        assert (fact.attempts, fact.lost) == (row.failures.attempts, row.failures.lost)
        assert fact.ended == (row.status if row.status.ended else None)
    assert {fact.ended for fact in projection.chunks.values()} == {
        None,
        Status.COMPLETE,
        Status.ABANDONED,
    }
