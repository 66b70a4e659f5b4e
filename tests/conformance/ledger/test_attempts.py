"""Failed runs are recorded with message and traceback, up to a limit."""

from __future__ import annotations

from gapless.core.retry import RetryPolicy
from gapless.ledger import Ledger
from gapless.ledger.records import (
    CLASS_LIMIT,
    KEPT_ATTEMPTS,
    MESSAGE_LIMIT,
    TRACEBACK_LIMIT,
    Attempt,
    Claim,
    Failure,
    Progress,
)
from tests.support import NOON, Clock, Home, claim_one, create, fail, finish


async def fail_with(
    ledger: Ledger, claim: Claim, message: str, *, traceback: str | None = None
) -> None:
    failure = Failure(claim, Progress(claim.last_processed), "Boom", message, traceback=traceback)
    assert await ledger.fail(failure) is not None


async def kept(home: Home) -> int:
    rows: list[tuple[int]] = await home.run("SELECT count(*) FROM attempts")
    return rows[0][0]


async def test_an_attempt_has_its_time_worker_error_and_traceback(
    ledger: Ledger, clock: Clock
) -> None:
    await create(ledger, partitions=1, retry=RetryPolicy.backoff(jitter=0))
    await fail_with(ledger, await claim_one(ledger, owner="one"), "first", traceback="File 1\n")
    clock.now += 120
    await fail_with(ledger, await claim_one(ledger, owner="two"), "second")
    assert await ledger.attempts("bf", 0) == [
        Attempt(1, NOON, "one", "Boom", "first", "File 1\n"),
        Attempt(2, NOON + 120, "two", "Boom", "second", None),
    ]
    assert await ledger.attempts("bf", 1) == await ledger.attempts("other", 0) == []


async def test_a_lost_worker_counts_as_an_attempt(ledger: Ledger, clock: Clock) -> None:
    await create(ledger, partitions=1)
    await claim_one(ledger, owner="lost")
    clock.now += 61
    await claim_one(ledger, owner="heir")
    (attempt,) = await ledger.attempts("bf", 0)
    assert (attempt.worker, attempt.error_class, attempt.traceback) == ("lost", "worker_lost", None)


async def test_text_that_no_database_stores_is_escaped_and_cut(ledger: Ledger) -> None:
    await create(ledger, partitions=1)
    mine = await claim_one(ledger)
    odd = "\0\ud800"
    failure = Failure(
        mine,
        Progress(),
        odd + "c" * 10_000,
        odd + "m" * 10_000,
        traceback="t" * 10_000 + f"\n{odd}\n",
    )
    assert await ledger.fail(failure) is not None
    (attempt,) = await ledger.attempts("bf", 0)
    assert attempt.error_class.startswith(r"\x00\ud800c")
    assert attempt.error_message.startswith(r"\x00\ud800m")
    assert attempt.traceback == "…\n\\x00\\ud800\n"
    assert len(attempt.error_class) == CLASS_LIMIT
    assert len(attempt.error_message) == MESSAGE_LIMIT
    assert len(attempt.traceback) <= TRACEBACK_LIMIT
    (row,) = await ledger.chunks("bf")
    assert (row.error_class, row.error_message) == (attempt.error_class, attempt.error_message)


async def test_only_the_latest_are_kept(ledger: Ledger, clock: Clock, home: Home) -> None:
    await create(ledger, partitions=2, retry=RetryPolicy.unbounded(base=1, max_delay=1, jitter=0))
    for number in range(KEPT_ATTEMPTS + 5):
        first, second = [await claim_one(ledger) for _ in range(2)]
        await fail_with(ledger, first, str(number))
        await fail_with(ledger, second, str(number))
        clock.now += 1
    messages = [str(number) for number in range(5, KEPT_ATTEMPTS + 5)]
    for index in (0, 1):
        assert [each.error_message for each in await ledger.attempts("bf", index)] == messages
    assert await kept(home) == 2 * KEPT_ATTEMPTS


async def test_compaction_keeps_the_attempts_of_dead_letters(
    ledger: Ledger, clock: Clock, home: Home
) -> None:
    await create(ledger, partitions=2)
    await fail(ledger, await claim_one(ledger))
    await fail(ledger, await claim_one(ledger), permanent=True)
    clock.now += 3600
    await finish(ledger)
    assert await kept(home) == 2
    await ledger.compact()
    assert await kept(home) == 1
    (letter,) = await ledger.dead()
    assert len(await ledger.attempts("bf", letter.chunk_index)) == 1


async def test_the_same_failure_reported_twice_is_one_attempt(ledger: Ledger) -> None:
    await create(ledger, partitions=1)
    mine = await claim_one(ledger)
    await fail(ledger, mine)
    await fail(ledger, mine)
    assert len(await ledger.attempts("bf", 0)) == 1


async def test_a_retry_starts_with_its_own_history(ledger: Ledger) -> None:
    await create(ledger, partitions=1)
    await fail(ledger, await claim_one(ledger), permanent=True)
    await finish(ledger)
    child = await ledger.retry_failed("bf", "child")
    assert await ledger.attempts(child.id, 0) == []
    assert len(await ledger.attempts("bf", 0)) == 1
