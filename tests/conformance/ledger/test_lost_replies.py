"""Every transaction may run again after its reply was lost, and still takes effect once."""

from __future__ import annotations

from functools import partial
from typing import Any, TypeVar, cast

import pytest

from gapless.core.errors import WrongState
from gapless.core.retry import RetryPolicy
from gapless.ledger import Ledger
from gapless.ledger.database import WORKER_SECONDS, Body, Database, LedgerTransaction
from gapless.ledger.syncs import Override, WalletKey
from gapless.system import Process, System
from tests.conformance.ledger.test_groups import HOOK
from tests.support import (
    Chance,
    Clock,
    beat,
    claim,
    claim_one,
    complete,
    create,
    database_of,
    done,
    event_types,
    fail,
    indices,
    state,
)
from tests.wallets import ALICE, BOB, add

T = TypeVar("T")


class LosesReplies:
    """Commits, loses the reply, and runs the body again, as after a broken connection."""

    def __init__(self, inner: Database) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def transact(
        self,
        body: Body[T],
        *,
        write: bool = True,
        within: float = WORKER_SECONDS,
        for_rows: float | None = None,
        atomic: bool = True,
    ) -> T:
        async def again(tx: LedgerTransaction) -> T:
            tx.again = True
            return await body(tx)

        transact = partial(
            self._inner.transact, write=write, within=within, for_rows=for_rows, atomic=atomic
        )
        await transact(body)
        return await transact(again)


@pytest.fixture
def flaky(ledger: Ledger) -> Ledger:
    return Ledger(
        cast(Database, LosesReplies(database_of(ledger))), ledger.url, System(chance=Chance())
    )


async def test_a_repeated_claim_returns_what_the_first_try_took(
    ledger: Ledger, flaky: Ledger
) -> None:
    await create(ledger, partitions=10, max_concurrent_runs=5)
    claims = await claim(flaky, 3, claim_id="mine")
    assert indices(claims) == [0, 1, 2]
    assert (await ledger.backfill("bf")).chunks.running == 3
    await complete(ledger, *claims)


async def test_a_repeated_claim_is_complete(ledger: Ledger, flaky: Ledger) -> None:
    await create(ledger, partitions=10, chunk_size=10, group="g")
    await ledger.release(await claim_one(ledger), done(4, (2, 3)))
    mine = await claim_one(flaky)
    assert (mine.last_processed, list(mine.holes), mine.backfill.group) == (4, [2, 3], "g")
    assert await beat(ledger, mine) == "go on"


async def test_a_claim_that_took_nothing_looks_again(ledger: Ledger, flaky: Ledger) -> None:
    assert await claim(flaky) == []
    await create(ledger, partitions=1)
    assert indices(await claim(flaky)) == [0]


async def test_a_queue_is_paused_and_resumed_once(ledger: Ledger, flaky: Ledger) -> None:
    await ledger.register("worker", Process("host", 1, "then"), {"backlog": 1})
    assert await flaky.pause_queue("backlog")
    await ledger.end_worker("worker")
    assert await flaky.resume_queue("backlog")
    assert await ledger.queues() == []


async def test_failed_runs_and_purged_dead_letters_are_counted_once(
    ledger: Ledger, flaky: Ledger
) -> None:
    await create(ledger, partitions=3)
    for each in await claim(flaky, 3):
        await fail(flaky, each, permanent=True)
    await flaky.purge("bf", [0])
    (queue,) = await ledger.queues()
    assert (queue.failed, queue.dead) == (3, 2)


async def test_the_life_of_a_backfill_is_the_same(ledger: Ledger, flaky: Ledger) -> None:
    await create(flaky, partitions=4)
    first, second, third, fourth = await claim(flaky, 4)
    assert await beat(flaky, first) == "go on"
    await complete(flaky, first)
    verdict = await fail(flaky, second)
    assert verdict is not None
    assert verdict.failures.attempts == 1
    assert await fail(flaky, third, permanent=True) is not None
    assert await flaky.release(fourth, done())
    assert (await flaky.pause("bf")).lifecycle.state_version == 2
    assert (await flaky.resume("bf")).lifecycle.state_version == 3
    await flaky.cancel("bf")
    counts = (await flaky.backfill("bf")).chunks
    assert (counts.complete, counts.abandoned, counts.cancelled) == (1, 1, 2)
    assert await state(ledger) == "CANCELLED"
    types = await event_types(ledger)
    assert types.count("ChunkFailed") == 2
    assert types.count("ChunkEnded") == 4
    assert types.count("BackfillStopRequested") == 1


async def test_a_repeated_resume_that_ended_the_backfill_is_not_an_error(
    ledger: Ledger, flaky: Ledger
) -> None:
    await create(ledger, partitions=1)
    mine = await claim_one(ledger)
    await ledger.pause("bf")
    await complete(ledger, mine)
    assert (await flaky.resume("bf")).state == "SUCCEEDED"
    with pytest.raises(WrongState):
        await ledger.resume("bf")


async def test_ending_retrying_and_compacting_are_the_same(ledger: Ledger, flaky: Ledger) -> None:
    await create(flaky, partitions=3)
    first, second, third = await claim(flaky, 3)
    await complete(flaky, first)
    for each in (second, third):
        await fail(flaky, each, permanent=True)
    assert await flaky.settle() == ["bf"]
    dead = await flaky.retry_dead("bf", "child of the dead", [2])
    child = await flaky.retry_failed("bf", "child")
    assert (await ledger.selection(dead.selection)).all_keys() == ["102"]
    assert (await ledger.selection(child.selection)).all_keys() == ["101"]
    assert await ledger.dead() == []
    await flaky.compact()
    assert (await event_types(ledger)).count("BackfillCompacted") == 1
    assert {each.id for each in await ledger.backfills()} == {"bf", child.id, dead.id}


async def test_an_epoch_is_closed_once(ledger: Ledger, flaky: Ledger) -> None:
    await create(flaky, partitions=1, group="wallets", hook=HOOK)
    await complete(flaky, await claim_one(flaky))
    await flaky.settle()
    await flaky.close_epochs()
    assert {each.id for each in await ledger.backfills()} == {"bf", "drained-wallets-1"}
    assert await flaky.close_epochs() == []


async def test_wallets_are_added_renewed_and_removed_once(ledger: Ledger, flaky: Ledger) -> None:
    one, two = await add(flaky, ALICE, BOB, retry=RetryPolicy())
    assert (one.passes, len(one.passes), one.state) == (two.passes, 1, "PENDING")
    for each in await claim(flaky, 4):
        await fail(flaky, each, permanent=True)
    (alice,) = await add(flaky, ALICE, heights=(50, 199))
    assert len(alice.passes) == 3
    await ledger.cancel(one.passes[0])
    (alice,) = await add(flaky, ALICE, heights=(50, 199))
    assert len(alice.passes) == 4
    assert len(await ledger.backfills()) == 4
    await flaky.remove_wallets([WalletKey("own", ALICE)])
    cancelled = [each.id for each in await ledger.backfills(state="CANCELLED")]
    assert {*alice.passes} - {*two.passes} >= {*cancelled} - {one.passes[0]}
    assert [each.key.address for each in await ledger.syncs()] == [BOB]


async def test_overrides_are_set_and_removed_once(ledger: Ledger, flaky: Ledger) -> None:
    await add(ledger, ALICE)
    movement = (1, 17, "token", 3, 9, -1)
    said = Override(group="own", address=ALICE, movement=movement, category="spoof")
    await flaky.set_overrides([said])
    assert len(await ledger.overrides("own")) == 1
    await flaky.remove_overrides(said.wallet, [movement])
    assert await ledger.overrides("own") == []


async def test_a_worker_is_registered_once(ledger: Ledger, flaky: Ledger, clock: Clock) -> None:
    process = Process("here", 1, "boot-1")
    await flaky.register("w1", process, {"default": 1})
    assert len(await ledger.live_workers()) == 1
    await create(ledger, partitions=1)
    await claim_one(ledger, owner="w1")
    await flaky.free_dead(process, lambda _: False)
    assert indices(await claim(ledger)) == [0]
