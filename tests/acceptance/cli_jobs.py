"""The jobs of the command line tests, copied as `jobs.py` to their folder."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import subprocess
import time
from pathlib import Path

import gapless

BLOCKS = gapless.block_heights()
CHAINS = {
    "ethereum": {"layer": "1", "kind": "evm"},
    "base": {"layer": "2", "kind": "evm"},
    "optimism": {"layer": "2", "kind": "evm"},
    "tron": {"layer": "1", "kind": "tron"},
}


def note(text: str) -> None:
    with Path("ran.log").open("a") as file:
        file.write(f"{text}\n")


def may_go() -> bool:
    return Path("go").exists()


@gapless.job(partitions=BLOCKS, chunk_size=10)
async def copy(chunk: gapless.Chunk, context: gapless.Context) -> None:
    note(chunk.id)


@gapless.job(partitions=BLOCKS, chunk_size=10, retry=gapless.RetryPolicy.backoff(base=1, retries=7))
async def patient(chunk: gapless.Chunk, context: gapless.Context) -> None:
    note(chunk.id)


@gapless.job(partitions=gapless.daily("2024-01-01", "2024-12-31"))
def days(chunk: gapless.Chunk, context: gapless.BlockingContext) -> None:
    for day in chunk:
        note(str(day))


@gapless.job(partitions=gapless.static(CHAINS), retry="unbounded")
async def chains(chunk: gapless.Chunk, context: gapless.Context) -> None:
    for chain in chunk:
        note(str(chain))


@gapless.job(partitions=BLOCKS, chunk_size=10)
async def held(chunk: gapless.Chunk, context: gapless.Context) -> None:
    """Runs until the file `go` exists, or until it is stopped."""
    note(chunk.id)
    while not may_go():
        context.check()
        await asyncio.sleep(0.01)


@gapless.job(partitions=BLOCKS, chunk_size=10)
async def deaf(chunk: gapless.Chunk, context: gapless.Context) -> None:
    """Runs for an hour, and ignores every request to stop."""
    note(chunk.id)
    await asyncio.sleep(3600)


@gapless.job(partitions=BLOCKS, chunk_size=10)
async def picky(chunk: gapless.Chunk, context: gapless.Context) -> None:
    """Fails on block 3 of every hundred."""
    for block in chunk:
        if int(block) % 100 == 3:
            raise gapless.PermanentError(f"block {block} is\n\x1b[31mbroken\x1b[0m")
        context.progress(block)


@gapless.job(partitions=BLOCKS, chunk_size=10)
async def stubborn(chunk: gapless.Chunk, context: gapless.Context) -> None:
    raise ConnectionError("https://user:secret@node.example/v2/KEY does not answer")


@gapless.job(partitions=BLOCKS, chunk_size=10)
async def hopeful(chunk: gapless.Chunk, context: gapless.Context) -> None:
    """Fails until the file `go` exists."""
    if not may_go():
        raise ConnectionError("not yet")


@gapless.job(partitions=BLOCKS, chunk_size=10)
def noisy(chunk: gapless.Chunk, context: gapless.BlockingContext) -> None:
    """Prints where only data belongs."""
    print("printed by a job")
    subprocess.run(["/bin/echo", "printed by its child"], check=True)


@gapless.job(partitions=BLOCKS, chunk_size=10)
async def defiant(chunk: gapless.Chunk, context: gapless.Context) -> None:
    """Runs for an hour, and swallows everything that should end it."""
    note(chunk.id)
    for _ in range(3600):
        try:
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            note("swallowed")


@gapless.job(partitions=BLOCKS, chunk_size=10)
async def selfish(chunk: gapless.Chunk, context: gapless.Context) -> None:
    """Blocks the event loop for an hour."""
    note(chunk.id)
    time.sleep(3600)  # noqa: ASYNC251 - that is the point


@gapless.job(partitions=BLOCKS, chunk_size=10)
def stuck(chunk: gapless.Chunk, context: gapless.BlockingContext) -> None:
    """Blocks its thread for an hour."""
    note(chunk.id)
    time.sleep(3600)


@gapless.job(partitions=BLOCKS, chunk_size=10)
async def lending(chunk: gapless.Chunk, context: gapless.Context) -> None:
    """Blocks a thread of the event loop for an hour."""
    await asyncio.to_thread(time.sleep, 3600)


@gapless.job(partitions=BLOCKS, chunk_size=10)
async def divided(chunk: gapless.Chunk, context: gapless.Context) -> None:
    """Forks a child that returns to the event loop, as if it were the worker."""
    child = os.fork()
    await asyncio.sleep(0)
    note("parent" if child else "child")
    if child:
        os.waitpid(child, 0)  # noqa: ASYNC222 - there is nothing else to do


@gapless.job(partitions=BLOCKS, chunk_size=1)
def forking(chunk: gapless.Chunk, context: gapless.BlockingContext) -> None:
    """Forks children and ends them with a signal, sometimes as a pool does it."""
    if int(chunk.first) % 20 == 0:
        with multiprocessing.get_context("fork").Pool(2) as pool:
            assert pool.map(abs, [-1, -2]) == [1, 2]
    if not (child := os.fork()):
        signal.pause()
    os.kill(child, signal.SIGTERM)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGTERM
    if not (child := os.fork()):
        return  # to the worker's code, which this process must not run
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


not_a_job = 7
