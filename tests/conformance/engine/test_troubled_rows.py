"""A backfill that cannot be handled fails or waits; the worker runs all others meanwhile."""

from __future__ import annotations

import asyncio
import threading

import asyncpg
import pytest

import gapless
from gapless.core.backfill import State
from gapless.core.errors import UsageError
from gapless.runtime import outcomes, selections
from gapless.runtime.engine import Engine
from tests.conformance.engine.conftest import QUICK
from tests.support import Home, PostgresHome
from tests.waiting import eventually

SPOILS = {
    "spec": "UPDATE {}backfills SET spec = 'no JSON' WHERE id = 'bad'",
    "retry": "UPDATE {}backfills SET retry = '[]' WHERE id = 'bad'",
    "selector": "UPDATE {}backfills SET selector = 'no JSON' WHERE id = 'bad'",
    "filter": "UPDATE {}backfills SET selector = '{{\"kind\": \"filter\"}}' WHERE id = 'bad'",
    "selection": "UPDATE {}selections SET data = {}"
    " WHERE hash = (SELECT selection FROM {}backfills WHERE id = 'bad')",
}


@pytest.mark.parametrize("part", SPOILS)
async def test_an_unreadable_backfill_fails_and_the_others_continue(home: Home, part: str) -> None:
    ran: list[str] = []

    @gapless.job(partitions=gapless.static(["a", "b"]), name="copy", retry="unbounded")
    async def copy(chunk: gapless.Chunk, context: gapless.Context) -> None:
        ran.append(chunk.id)

    sqlite = home.url.startswith("sqlite")
    prefix, nonsense = ("", "x'00'") if sqlite else ("gapless.", "'\\x00'::bytea")
    async with Engine(home.url, slots=None) as control:
        await control.backfill(copy, gapless.Explicit.of(["a"]), id="bad")
        await control.backfill(copy, gapless.Range("a", "b"), id="good")
        await home.run(SPOILS[part].format(prefix, nonsense, prefix))
    async with Engine(home.url, jobs=[copy], options=QUICK) as engine:
        bad, good = await engine.get("bad"), await engine.get("good")
        async with asyncio.timeout(30):
            assert (await good.wait()).state is State.SUCCEEDED
            ended = await bad.wait()
        assert ended.state is State.FAILED
        assert "cannot be read" in str(ended.error)
        assert ran == ["good:0", "good:1"] or ran == ["good:1", "good:0"]
        again = await engine.backfill(copy, gapless.Range("a", "a"))
        assert (await again.wait()).state is State.SUCCEEDED


async def test_hook_ids_are_reserved(engine: Engine) -> None:
    @gapless.job(partitions=gapless.static(["x"]))
    async def copy(chunk: gapless.Chunk, context: gapless.Context) -> None: ...

    with pytest.raises(UsageError, match="`drained-wallets-1` is reserved"):
        await engine.backfill(copy, gapless.Range("x", "x"), id="drained-wallets-1")


@pytest.mark.parametrize("rows", ["backfills WHERE id", "chunks WHERE backfill_id"])
async def test_a_locked_row_delays_no_other_backfill(
    postgres_home: PostgresHome, rows: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither when it is to be claimed, nor when its outcome is to be written."""
    monkeypatch.setattr(outcomes, "ASIDE_SECONDS", 0.5)
    running, may_end = asyncio.Event(), asyncio.Event()

    @gapless.job(partitions=gapless.block_heights(), chunk_size=1)
    async def copy(chunk: gapless.Chunk, context: gapless.Context) -> None:
        if chunk.backfill_id == "stuck":
            running.set()
            await may_end.wait()

    async with Engine(postgres_home.url, options=QUICK) as engine:
        stuck = await engine.backfill(
            copy, gapless.Range("0", "9"), id="stuck", max_concurrent_runs=1, queue="priority"
        )
        await running.wait()
        stranger = await asyncpg.connect(postgres_home.url)
        async with stranger.transaction():
            await stranger.fetch(f"SELECT 1 FROM gapless.{rows} = 'stuck' FOR UPDATE")
            may_end.set()
            for _ in range(3):
                free = await engine.backfill(copy, gapless.Range("0", "9"))
                async with asyncio.timeout(30):
                    assert (await free.wait()).state is State.SUCCEEDED
            assert not (await stuck.progress()).state.ended
        await stranger.close()
        async with asyncio.timeout(30):
            assert (await stuck.wait()).state is State.SUCCEEDED


async def test_a_run_that_lost_its_lease_does_not_keep_the_chunk(home: Home) -> None:
    """Its thread does not end; renewing the lease would keep the chunk from everyone else."""
    attempts: list[int] = []
    may_end = threading.Event()

    @gapless.job(partitions=gapless.static(["x"]), lease_seconds=0.6)
    def stuck(chunk: gapless.Chunk, context: gapless.BlockingContext) -> None:
        attempts.append(context.attempt)
        if len(attempts) == 1:
            may_end.wait(60)

    async with Engine(home.url, options=QUICK) as engine:
        handle = await engine.backfill(stuck, gapless.Range("x", "x"))
        await eventually(lambda: bool(attempts))
        assert engine.worker is not None
        (run,) = engine.worker._runs
        run.lose()
        try:
            await eventually(lambda: len(attempts) == 2)
            async with asyncio.timeout(30):
                assert (await handle.wait()).state is State.SUCCEEDED
        finally:
            may_end.set()


async def test_selections_of_ended_backfills_are_forgotten(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selections, "MOST_BACKFILLS", 2)

    @gapless.job(partitions=gapless.block_heights(), chunk_size=1)
    async def copy(chunk: gapless.Chunk, context: gapless.Context) -> None: ...

    async with Engine(home.url, options=QUICK) as engine:
        for last in range(5):
            handle = await engine.backfill(copy, gapless.Range("0", str(last)))
            assert (await handle.wait()).state is State.SUCCEEDED
        assert engine.worker is not None
        assert len(engine.worker._selections) == 2
