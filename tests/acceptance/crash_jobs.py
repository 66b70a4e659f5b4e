"""The jobs that the crash tests run in worker processes.

Each effect is a row of `history`, written in the ledger transaction that the context offers. The
ledger's own claims are recorded in the same table (see `stage.py`), so that what was allowed and
what was done can be compared row by row.

A job communicates with its test through files in the folder `GAPLESS_TEST_FOLDER`: it raises a
flag, or waits for one.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import gapless
from gapless.core.errors import LeaseLost, StopRequested
from gapless.ledger.records import Failure
from gapless.runtime.run import Run

SHORT_LEASE = 1.5
LONG_LEASE = 300.0
DEADLY = 13
WORK = 0.03

_EFFECT = """
INSERT INTO history (backfill_id, chunk_index, fence, worker, height)
VALUES (:backfill_id, :chunk_index, :fence, :worker, :height)
"""


def _effect(chunk: gapless.Chunk, fence: int, height: int) -> dict[str, Any]:
    return {
        "backfill_id": chunk.backfill_id,
        "chunk_index": chunk.index,
        "fence": fence,
        "worker": str(os.getpid()),
        "height": height,
    }


def heights(chunk: gapless.Chunk) -> list[int]:
    return [int(partition) for partition in chunk]


async def write(chunk: gapless.Chunk, context: gapless.Context, height: int) -> None:
    async with context.transaction(done=height) as tx:
        await tx.execute(_EFFECT, **_effect(chunk, context.fence, height))


def write_blocking(chunk: gapless.Chunk, context: gapless.BlockingContext, height: int) -> None:
    with context.transaction(done=height) as tx:
        tx.execute(_EFFECT, **_effect(chunk, context.fence, height))


# Flags


def _flag(name: str) -> Path:
    return Path(os.environ["GAPLESS_TEST_FOLDER"]) / name


def raise_flag(name: str, said: object = None) -> None:
    """Atomically: whoever sees the flag can read its contents."""
    unfinished = _flag(f"{name}.{os.getpid()}")
    unfinished.write_text(json.dumps(said))
    unfinished.replace(_flag(name))


async def flag(name: str) -> None:
    while not _flag(name).exists():  # noqa: ASYNC110 - another process raises it
        await asyncio.sleep(0.01)


def flag_blocking(name: str) -> None:
    while not _flag(name).exists():
        time.sleep(0.01)


# Chaos: many small transactions


@gapless.job(partitions=gapless.block_heights(), chunk_size=10, lease_seconds=SHORT_LEASE)
async def chaos(chunk: gapless.Chunk, context: gapless.Context) -> None:
    for height in heights(chunk):
        await asyncio.sleep(WORK)
        await write(chunk, context, height)


@gapless.job(partitions=gapless.block_heights(), chunk_size=10, lease_seconds=LONG_LEASE)
async def calm(chunk: gapless.Chunk, context: gapless.Context) -> None:
    await chaos(chunk, context)


@gapless.job(partitions=gapless.block_heights(), chunk_size=10, lease_seconds=SHORT_LEASE)
def chaos_on_thread(chunk: gapless.Chunk, context: gapless.BlockingContext) -> None:
    for height in heights(chunk):
        time.sleep(WORK)
        write_blocking(chunk, context, height)


# A zombie: its first run hangs between two effects until it is told to continue


async def _refusals(run: Run) -> dict[str, object]:
    """The ledger's answers to everything that only the holder of a lease may do."""
    ledger, claim, progress = run.ledger, run.claim, run.progress
    answers: dict[str, object] = {}
    try:
        async with ledger.holding(claim, lambda: progress) as tx:
            await tx.execute("DELETE FROM history")  # it would be noticed
    except LeaseLost as error:
        answers["transaction"] = type(error).__name__
    answers["heartbeat"] = (await ledger.heartbeat([(claim, progress)]))[claim.fence]
    answers["complete"] = sorted(await ledger.complete([claim]))
    answers["fail"] = await ledger.fail(Failure(claim, progress, "Late", "too late"))
    answers["release"] = await ledger.release(claim, progress)
    return answers


def _run_of(context: gapless.Context | gapless.BlockingContext) -> Run:
    run = context._run
    assert isinstance(run, Run)
    return run


@gapless.job(partitions=gapless.block_heights(), chunk_size=4, lease_seconds=SHORT_LEASE)
async def zombie(chunk: gapless.Chunk, context: gapless.Context) -> None:
    first, *others = heights(chunk)
    await write(chunk, context, first)
    if not _flag("midway").exists():
        raise_flag("midway")
        await _deafly(flag("woken"))
        await _deafly(_insist(chunk, context, others[0]))
        return  # as if all were done: the completion must be refused too
    for height in others:
        await write(chunk, context, height)


async def _insist(chunk: gapless.Chunk, context: gapless.Context, height: int) -> None:
    try:
        await write(chunk, context, height)
    except LeaseLost as error:
        raise_flag("refused", type(error).__name__)
    raise_flag("refusals", await _refusals(_run_of(context)))


async def _deafly(work: Coroutine[Any, Any, None]) -> None:
    """Does something to its end, however often it is cancelled."""
    task = asyncio.create_task(work)
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([task])
    task.result()


@gapless.job(partitions=gapless.block_heights(), chunk_size=4, lease_seconds=SHORT_LEASE)
def zombie_on_thread(chunk: gapless.Chunk, context: gapless.BlockingContext) -> None:
    first, *others = heights(chunk)
    write_blocking(chunk, context, first)
    if not _flag("midway").exists():
        raise_flag("midway")
        flag_blocking("woken")
        try:
            write_blocking(chunk, context, others[0])
        except LeaseLost as error:
            raise_flag("refused", type(error).__name__)
        raise_flag("refusals", context._wait(_refusals(_run_of(context))))
        return
    for height in others:
        write_blocking(chunk, context, height)


@gapless.job(partitions=gapless.block_heights(), chunk_size=4, lease_seconds=SHORT_LEASE)
async def zombie_in_transaction(chunk: gapless.Chunk, context: gapless.Context) -> None:
    """Its first run hangs while its transaction is open."""
    for height in heights(chunk):
        async with context.transaction(done=height) as tx:
            await tx.execute(_EFFECT, **_effect(chunk, context.fence, height))
            if not _flag("midway").exists():
                raise_flag("midway")
                flag_blocking("woken")


# Leases longer than any test


@gapless.job(partitions=gapless.block_heights(), chunk_size=5, lease_seconds=LONG_LEASE)
async def long_lease(chunk: gapless.Chunk, context: gapless.Context) -> None:
    """Hangs in the middle of each chunk, until the test says that its worker was killed."""
    for height in heights(chunk):
        await write(chunk, context, height)
        if height % 5 == 2 and not _flag("killed").exists():
            raise_flag(f"midway-{chunk.index}")
            await asyncio.Event().wait()


@gapless.job(
    partitions=gapless.block_heights(),
    chunk_size=5,
    lease_seconds=LONG_LEASE,
    retry=gapless.RetryPolicy(lost_limit=3),
)
async def deadly(chunk: gapless.Chunk, context: gapless.Context) -> None:
    """One partition kills its worker."""
    if DEADLY in heights(chunk):
        os.kill(os.getpid(), signal.SIGKILL)
    for height in heights(chunk):
        await write(chunk, context, height)


# Draining


@gapless.job(partitions=gapless.block_heights(), chunk_size=1000, lease_seconds=LONG_LEASE)
async def reporting(chunk: gapless.Chunk, context: gapless.Context) -> None:
    """Never ends, but reports its progress."""
    first, *others = heights(chunk)
    raise_flag(f"began-{first}")
    context.progress(first)
    while not _flag("hurry").exists():
        await asyncio.sleep(0.01)
        context.progress(first)
    for height in others:
        context.progress(height)


@gapless.job(partitions=gapless.block_heights(), chunk_size=1, lease_seconds=LONG_LEASE)
async def quiet(chunk: gapless.Chunk, context: gapless.Context) -> None:
    """Reports nothing until it is done, which it is once the worker drains."""
    raise_flag("midway")
    while not context.stopping:  # noqa: ASYNC110 - there is no event for it
        await asyncio.sleep(0.01)
    raise_flag("done", heights(chunk))  # a transaction would refuse a run that must stop


@gapless.job(partitions=gapless.block_heights(), chunk_size=1, lease_seconds=LONG_LEASE)
def deaf(chunk: gapless.Chunk, context: gapless.BlockingContext) -> None:
    """Its first run never ends and never checks whether to stop."""
    if not _flag("midway").exists():
        raise_flag("midway")
        flag_blocking("never")
    for height in heights(chunk):
        write_blocking(chunk, context, height)


@gapless.job(partitions=gapless.block_heights(), chunk_size=5, lease_seconds=LONG_LEASE)
def commits_late(chunk: gapless.Chunk, context: gapless.BlockingContext) -> None:
    """Its first run commits an effect after its worker has given up on it."""
    for height in heights(chunk):
        with context.transaction(done=height) as tx:
            tx.execute(_EFFECT, **_effect(chunk, context.fence, height))
            if height == 2 and not _flag("midway").exists():
                raise_flag("midway")
                _until_disowned(context)


def _until_disowned(context: gapless.BlockingContext) -> None:
    while True:
        try:
            context.check()
        except LeaseLost:
            return
        except StopRequested:
            pass  # asked to end, not yet given up on
        time.sleep(0.01)
