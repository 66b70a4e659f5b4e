"""Ten million partitions cost no more than a thousand, and a million finished chunks no time.

Times are the best of several: other processes on the machine only make them longer.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import pytest

from gapless.core.partitions import block_heights
from gapless.core.selector import Range
from gapless.ledger import Ledger
from gapless.runtime.controller import Controller, request_for
from gapless.runtime.job import job
from tests.acceptance.commands import GAPLESS, Commands
from tests.support import SqliteHome, open_at

TEN_MILLION = "0:9999999"
MILLION = 1_000_000
MEGABYTE = 1024 * 1024
START = ("backfill", "start", "--job", "jobs:copy", "--detach")

NUMBERS = {
    "sqlite": "(WITH RECURSIVE i(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM i WHERE n < {last})"
    " SELECT n FROM i)",
    "postgres": "generate_series(0, {last}) AS i(n)",
}
FINISHED = """
INSERT INTO chunks (backfill_id, chunk_index, rank, first, last, status, planned_at, ended_at)
SELECT 'big', n, n, n, n, CASE WHEN n < {million} THEN 'COMPLETE' ELSE 'PENDING' END, 0, 0
FROM {numbers}
"""
COUNTED = "INSERT INTO counts (backfill_id, shard, complete) VALUES ('big', 0, {million})"
PLANNED = "UPDATE backfills SET planned = chunk_total, state = 'RUNNING', started_at = 0"


@job(partitions=block_heights(), name="jobs:copy")
async def copy(chunk: object, context: object) -> None: ...


@pytest.fixture
async def ledger(gapless: Commands) -> AsyncIterator[Ledger]:
    ledger = await open_at(gapless.home)
    yield ledger
    await ledger.close()


@dataclass(frozen=True)
class Cost:
    """What a process took: peak memory in bytes, seconds, and seconds of CPU time."""

    memory: int
    seconds: float
    processor: float


def cost(gapless: Commands, *arguments: str) -> Cost:
    started = time.perf_counter()
    process = subprocess.Popen(
        [GAPLESS, *arguments],
        cwd=gapless.folder,
        env=gapless.environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    seconds = time.perf_counter() - started
    return Cost(usage.ru_maxrss * 1024, seconds, usage.ru_utime + usage.ru_stime)


async def best(action: Callable[[], Awaitable[object]], tries: int = 5) -> float:
    """The seconds that it takes when nothing else interferes."""
    times = []
    for _ in range(tries):
        started = time.perf_counter()
        await action()
        times.append(time.perf_counter() - started)
    return min(times)


async def test_ten_million_partitions_are_created_instantly(ledger: Ledger) -> None:
    requests = iter(
        [
            request_for(copy, Range.parse(TEN_MILLION), {"id": f"b{nth}", "chunk_size": 1})
            for nth in range(5)
        ]
    )

    assert await best(lambda: ledger.create(next(requests))) < 0.5

    created = await ledger.backfill("b0")
    assert (created.partitions, created.chunks.total) == (10_000_000, 10_000_000)
    assert created.chunks.planned == 0
    ((_, row),) = await ledger.events("b0")
    assert row.type == "BackfillCreated"
    assert len(row.payload.encode()) < 1000


def test_a_huge_start_needs_no_more_memory_or_time(sqlite_gapless: Commands) -> None:
    small = [cost(sqlite_gapless, *START, "--range", "0:999") for _ in range(3)]
    huge = [cost(sqlite_gapless, *START, "--range", TEN_MILLION) for _ in range(3)]

    assert min(each.memory for each in huge) < min(each.memory for each in small) + 4 * MEGABYTE
    assert min(each.seconds for each in huge) < 2.0


async def test_ls_and_show_stay_fast_next_to_a_million_finished_chunks(gapless: Commands) -> None:
    gapless.start("copy", "--id", "big", "--range", f"0:+{MILLION + 100}", "--chunk-size", "1")
    dialect = "sqlite" if isinstance(gapless.home, SqliteHome) else "postgres"
    numbers = NUMBERS[dialect].format(last=MILLION + 99)
    for statement in (FINISHED, COUNTED, PLANNED):
        await gapless.home.run(statement.format(million=MILLION, numbers=numbers))
    ledger = await open_at(gapless.home)
    try:
        assert await best(lambda: ledger.backfills(limit=50)) < 0.1
        assert await best(lambda: Controller(ledger).explain("big")) < 0.1
    finally:
        await ledger.close()

    shown = gapless.show("big")
    assert (shown["chunks"]["complete"], shown["chunks"]["pending"]) == (MILLION, 100)
    assert gapless.json("backfill", "ls")[0]["progress_pct"] == pytest.approx(99.99)


def test_help_is_fast(sqlite_gapless: Commands) -> None:
    """In CPU time, which is all the time it takes if nothing else runs."""
    assert min(cost(sqlite_gapless, "--help").processor for _ in range(5)) < 0.3


def test_help_imports_nothing_heavy(sqlite_gapless: Commands) -> None:
    environment = sqlite_gapless.environment({"PYTHONPROFILEIMPORTTIME": "1"})
    said = subprocess.run(
        [GAPLESS, "--help"], env=environment, capture_output=True, text=True, check=True
    ).stderr

    imported = {line.rpartition("|")[2].strip() for line in said.splitlines()}
    assert "click" in imported
    assert not {"apsw", "asyncpg", "asyncio", "msgspec", "gapless.ledger"} & imported
