"""What sinks hold: told once, with the run's progress or outcome, and the highest fence holds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from gapless.core.ranges import Span
from gapless.ledger import Ledger
from gapless.ledger.database import Database
from gapless.ledger.records import Claim, Coverage, Failure, Progress
from gapless.system import System
from tests.conformance.ledger.test_lost_replies import LosesReplies
from tests.support import (
    Chance,
    Clock,
    Home,
    beat,
    claim,
    claim_one,
    complete,
    create,
    database_of,
)

SINK = "0d9e8a4e-sink"


def stored(first: int, last: int, **changed: Any) -> Coverage:
    usual = Coverage(
        SINK,
        "ethereum",
        "logs",
        Span(first, last),
        fence=1,
        first_parent_hash=bytes([first % 256]) * 32,
        last_hash=bytes([last % 256]) * 32,
        rows=10 * (last - first + 1),
        digest=2**255 + first,
        checks=frozenset({"receipts_root", "header_hash"}),
        unproven=frozenset({"senders"}),
        endpoint="alchemy",
    )
    return replace(usual, **changed)


async def covered(ledger: Ledger, dataset: str | None = None) -> list[Coverage]:
    return await ledger.coverage(SINK, "ethereum", dataset)


async def spans(ledger: Ledger) -> list[tuple[Span, int]]:
    return [(each.span, each.fence) for each in await covered(ledger)]


async def tell(ledger: Ledger, mine: Claim, *told: Coverage) -> None:
    assert await beat(ledger, mine, Progress(covered=told)) == "go on"


async def rows(home: Home) -> int:
    return int((await home.run("SELECT count(*) FROM coverage"))[0][0])


@pytest.fixture
async def mine(ledger: Ledger) -> Claim:
    await create(ledger, partitions=20, chunk_size=10)
    return await claim_one(ledger)


@pytest.fixture
def flaky(ledger: Ledger) -> Ledger:
    return Ledger(
        cast(Database, LosesReplies(database_of(ledger))), ledger.url, System(chance=Chance())
    )


async def test_what_was_told_comes_back_to_the_letter(ledger: Ledger, mine: Claim) -> None:
    told = stored(0, 9)
    bare = stored(0, 9, dataset="blocks", endpoint=None, checks=frozenset(), rows=0, digest=0)
    assert await ledger.complete([mine], {mine.chunk_id: (told, bare)}) == set()
    assert await covered(ledger) == [bare, told]
    assert await covered(ledger, "logs") == [told]


@pytest.mark.parametrize("other", [{"sink_id": "another"}, {"network": "base"}])
async def test_sinks_and_networks_are_apart(
    ledger: Ledger, mine: Claim, other: dict[str, str]
) -> None:
    await tell(ledger, mine, stored(0, 9, **other))
    assert await covered(ledger) == []


async def test_it_is_told_with_each_way_a_run_may_end(ledger: Ledger) -> None:
    await create(ledger, partitions=4)
    one, two, three, four = await claim(ledger, 4)
    await ledger.complete([one], {one.chunk_id: (stored(0, 0),), "bf:99": (stored(99, 99),)})
    await ledger.fail(Failure(two, Progress(covered=(stored(1, 1),)), "Boom", "it broke"))
    await ledger.fail(
        Failure(three, Progress(covered=(stored(2, 2),)), "Boom", "it broke", permanent=True)
    )
    await ledger.release(four, Progress(covered=(stored(3, 3),)))
    assert [each.span for each in await covered(ledger)] == [(at, at) for at in range(4)]


async def test_it_is_told_with_a_jobs_own_transaction_or_not_at_all(
    ledger: Ledger, mine: Claim
) -> None:
    with pytest.raises(OSError, match="disk full"):
        async with ledger.holding(mine, lambda: Progress(covered=(stored(0, 4),))):
            raise OSError("disk full")
    assert await covered(ledger) == []
    async with ledger.holding(mine, lambda: Progress(covered=(stored(0, 4),))):
        pass
    assert await covered(ledger) == [stored(0, 4)]


async def test_nobody_tells_anything_without_a_lease(
    ledger: Ledger, mine: Claim, clock: Clock, home: Home
) -> None:
    clock.now += 60
    heir = await claim_one(ledger)
    late = Progress(9, covered=(stored(0, 9),))
    await ledger.heartbeat([(mine, late)])
    await ledger.complete([mine], {mine.chunk_id: late.covered})
    await ledger.fail(Failure(mine, late, "Boom", "it broke"))
    await ledger.release(mine, late)
    assert await rows(home) == 0
    await complete(ledger, heir)


async def test_what_is_told_again_is_there_once(
    ledger: Ledger, flaky: Ledger, mine: Claim, home: Home
) -> None:
    """A heartbeat tells all that the run has told so far, and any reply may be lost."""
    first, second = stored(0, 4), stored(5, 9)
    await tell(flaky, mine, first)
    await tell(flaky, mine, first, second)
    await flaky.complete([mine], {mine.chunk_id: (first, second)})
    failed = await claim_one(ledger)
    await flaky.fail(Failure(failed, Progress(covered=(stored(10, 19),)), "Boom", "it broke"))
    assert await rows(home) == 3
    assert await covered(ledger) == [first, second, stored(10, 19)]


async def test_the_higher_fence_holds_whoever_tells_of_it_first(ledger: Ledger) -> None:
    await create(ledger, partitions=3)
    one, two, three = await claim(ledger, 3)
    await tell(ledger, three, stored(40, 59, fence=7))
    await tell(ledger, one, stored(0, 99, fence=5))
    await tell(ledger, two, stored(90, 109, fence=4))
    assert await spans(ledger) == [
        ((0, 39), 5), ((40, 59), 7), ((60, 99), 5), ((100, 109), 4),
    ]  # fmt: skip


async def test_of_one_fence_the_later_telling_holds(ledger: Ledger) -> None:
    await create(ledger, partitions=2)
    first, second = await claim(ledger, 2)
    old, new = stored(0, 9, rows=1), stored(0, 9, rows=2)
    await tell(ledger, first, stored(0, 9, rows=0), old)
    assert await covered(ledger) == [old]
    await tell(ledger, second, new)  # found it in the sink, where an earlier run had left it
    assert await covered(ledger) == [new]


async def test_a_cut_range_claims_nothing_that_nobody_counted(ledger: Ledger, mine: Claim) -> None:
    whole = stored(0, 99, fence=5)
    await tell(ledger, mine, whole, stored(40, 59, fence=7))
    below, between, above = await covered(ledger)
    cut = replace(whole, rows=None, digest=None)
    assert below == replace(cut, span=Span(0, 39), last_hash=None)
    assert between == stored(40, 59, fence=7)
    assert above == replace(cut, span=Span(60, 99), first_parent_hash=None)
    assert [each.is_cut for each in (below, between, above)] == [True, False, True]
