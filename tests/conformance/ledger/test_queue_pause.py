"""A paused queue is not claimed from, and everything else continues."""

from __future__ import annotations

import pytest

from gapless.core.errors import NotFound
from gapless.core.remedies import ChooseQueue
from gapless.ledger import Ledger
from gapless.system import Process
from tests.support import (
    Clock,
    Home,
    beat,
    claim,
    claim_one,
    complete,
    create,
    fail,
    finish,
    open_at,
    state,
)


async def test_no_claim_takes_from_a_paused_queue(ledger: Ledger, other: Ledger) -> None:
    await create(ledger, "live", queue="priority")
    await create(ledger, "history", queue="backlog")
    assert await ledger.pause_queue("backlog")
    assert await claim(ledger, queues=("backlog",)) == []
    assert await claim(other, queues=("backlog",)) == []
    assert await claim(ledger, queues=("backlog",), only="history") == []
    assert (await claim_one(ledger, queues=("backlog", "priority"))).backfill_id == "live"
    assert await other.resume_queue("backlog")
    assert (await claim_one(ledger, queues=("backlog",))).backfill_id == "history"


async def test_running_chunks_finish_and_what_failed_waits(ledger: Ledger, clock: Clock) -> None:
    await create(ledger, partitions=3)
    done, failed = await claim(ledger, 2)
    await ledger.pause_queue("default")
    assert await beat(ledger, done) == "go on"
    await complete(ledger, done)
    await fail(ledger, failed)
    clock.now += 3600
    assert await claim(ledger, 5) == []
    await ledger.resume_queue("default")
    assert len(await claim(ledger, 5)) == 2


async def test_a_lost_chunk_of_a_paused_queue_waits_too(ledger: Ledger, clock: Clock) -> None:
    await create(ledger, partitions=1)
    await claim_one(ledger)
    await ledger.pause_queue("default")
    clock.now += 3600
    assert await claim(ledger) == []
    await ledger.resume_queue("default")
    assert len(await claim(ledger)) == 1


async def test_a_backfill_whose_last_chunk_completes_in_a_paused_queue_ends(
    ledger: Ledger,
) -> None:
    await create(ledger, partitions=1)
    mine = await claim_one(ledger)
    await ledger.pause_queue("default")
    await complete(ledger, mine)
    assert await ledger.settle() == ["bf"]
    assert await state(ledger) == "SUCCEEDED"


async def test_a_pause_survives_a_restart(home: Home) -> None:
    ledger = await open_at(home)
    await create(ledger)
    await ledger.pause_queue("default")
    await ledger.close()
    again = await open_at(home)
    assert await claim(again) == []
    assert (await again.backfill("bf")).queue_paused
    assert await again.resume_queue("default")
    assert not (await again.backfill("bf")).queue_paused
    assert len(await finish(again)) == 10
    await again.close()


async def test_pausing_and_resuming_twice_changes_nothing(ledger: Ledger, clock: Clock) -> None:
    await create(ledger)
    assert await ledger.pause_queue("default")
    paused = (await ledger.queues())[0].paused_at
    assert paused == clock.now
    clock.now += 10
    assert not await ledger.pause_queue("default")
    assert (await ledger.queues())[0].paused_at == paused
    assert await ledger.resume_queue("default")
    assert not await ledger.resume_queue("default")


async def test_an_unknown_queue_is_refused_with_the_known_ones(ledger: Ledger) -> None:
    with pytest.raises(NotFound, match="there is no queue `backlog`") as nothing:
        await ledger.pause_queue("backlog")
    assert nothing.value.remedy == ChooseQueue(())
    await create(ledger, queue="history")
    process = Process("host", 1, "then")
    await ledger.register("worker", process, {"priority": 1, "live@bf": 2})
    for command in (ledger.pause_queue, ledger.resume_queue):
        with pytest.raises(NotFound) as unknown:
            await command("backlog")
        assert unknown.value.remedy == ChooseQueue(("history", "live", "priority"))
        assert str(unknown.value.hint) == "the queues are: `history`, `live`, `priority`"


async def test_a_paused_queue_stays_known_when_its_worker_is_gone(ledger: Ledger) -> None:
    await ledger.register("worker", Process("host", 1, "then"), {"backlog": 1})
    await ledger.pause_queue("backlog")
    await ledger.end_worker("worker")
    assert [queue.name for queue in await ledger.queues()] == ["backlog"]
    assert await ledger.resume_queue("backlog")
    assert await ledger.queues() == []
