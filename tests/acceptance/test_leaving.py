"""One SIGTERM ends a worker soon after its drain time, whatever runs and whatever is down."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress

import apsw
import pytest

from gapless.runtime.process_control import CLOSING_SECONDS
from gapless.runtime.signals import INTERRUPTED
from gapless.runtime.worker import LEAVING_SECONDS
from tests.acceptance.commands import GAPLESS, Commands
from tests.acceptance.fleet import heeds
from tests.servers import PostgresServer
from tests.waiting import eventually

DRAIN = 0.5
WORKER = ("worker", "--poll", "50ms", "--drain", f"{DRAIN}s")
SOON = DRAIN + LEAVING_SECONDS + CLOSING_SECONDS + 10  # plus what a busy machine takes


def leaves(worker: subprocess.Popen[str]) -> int:
    """How the worker ends after the signal, which must be soon."""
    worker.send_signal(signal.SIGTERM)
    return worker.wait(timeout=SOON)


@pytest.mark.parametrize("job", ["defiant", "stuck"])
async def test_a_job_that_never_ends_is_given_back(gapless: Commands, job: str) -> None:
    gapless.start(job, "--id", "j", "--range", "0:9")
    with gapless.running(*WORKER, command=GAPLESS) as worker:
        await eventually(lambda: gapless.ran() == ["j:0"], seconds=60)
        assert await asyncio.to_thread(leaves, worker) == INTERRUPTED
    assert gapless.show("j")["chunks"]["pending"] == 1


async def test_a_job_that_blocks_the_event_loop(gapless: Commands) -> None:
    gapless.start("selfish", "--id", "s", "--range", "0:9")
    with gapless.running(*WORKER, command=GAPLESS) as worker:
        await eventually(lambda: gapless.ran() == ["s:0"], seconds=60)
        assert await asyncio.to_thread(leaves, worker) == INTERRUPTED
    assert gapless.show("s")["chunks"]["running"] == 1  # its lease expires


async def test_a_sqlite_ledger_that_stays_locked(sqlite_gapless: Commands) -> None:
    gapless = sqlite_gapless
    gapless.start("held", "--id", "h", "--range", "0:9")
    lock = apsw.Connection(str(gapless.folder / "ledger.db"))
    lock.set_busy_timeout(10_000)
    with gapless.running(*WORKER, command=GAPLESS) as worker:
        await eventually(lambda: gapless.ran() == ["h:0"], seconds=60)
        lock.execute("BEGIN IMMEDIATE")
        assert await asyncio.to_thread(leaves, worker) == INTERRUPTED
        lock.execute("ROLLBACK")
    lock.close()
    assert gapless.show("h")["chunks"]["running"] == 1  # nobody could be told: its lease expires


async def test_a_sqlite_ledger_that_is_locked_from_the_start(sqlite_gapless: Commands) -> None:
    gapless = sqlite_gapless
    gapless.start("held", "--id", "h", "--range", "0:9")
    lock = apsw.Connection(str(gapless.folder / "ledger.db"))
    lock.execute("BEGIN IMMEDIATE")
    with gapless.running(*WORKER, command=GAPLESS) as worker:
        await eventually(lambda: heeds(worker.pid, signal.SIGTERM), seconds=60)
        code = await asyncio.to_thread(leaves, worker)
        assert code in (2, INTERRUPTED)  # the ledger could not be opened, or the signal came first
    lock.close()


@contextmanager
def stopped(server: PostgresServer) -> Iterator[None]:
    server.stop("immediate")
    try:
        yield
    finally:
        server.start()


@contextmanager
def suspended(server: PostgresServer) -> Iterator[None]:
    """Every process of the server is suspended, as on a machine that hangs."""
    postmaster = (server.folder / "data/postmaster.pid").read_text().split()[0]
    children = subprocess.run(
        ["pgrep", "-P", postmaster], capture_output=True, text=True, check=True
    ).stdout.split()
    held = [int(each) for each in (postmaster, *children)]
    try:
        for pid in held:
            signal_to(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in held:
            signal_to(pid, signal.SIGCONT)


def signal_to(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


@pytest.mark.parametrize("gone", [stopped, suspended])
async def test_a_postgresql_server_that_is_down(
    postgres_gapless: Commands,
    postgres: PostgresServer,
    gone: Callable[[PostgresServer], AbstractContextManager[None]],
) -> None:
    gapless = postgres_gapless
    gapless.start("held", "--id", "h", "--range", "0:9")
    with gapless.running(*WORKER, command=GAPLESS) as worker:
        await eventually(lambda: gapless.ran() == ["h:0"], seconds=60)
        with gone(postgres):
            assert await asyncio.to_thread(leaves, worker) == INTERRUPTED
    assert gapless.show("h")["chunks"]["running"] == 1


async def test_a_worker_outlives_its_server(
    postgres_gapless: Commands, postgres: PostgresServer
) -> None:
    gapless = postgres_gapless
    gapless.start("copy", "--id", "before")
    with gapless.running(*WORKER, "--json", command=GAPLESS) as worker:
        await eventually(lambda: len(gapless.ran()) == 5, seconds=60)
        await asyncio.to_thread(gapless, "backfill", "wait", "before")
        with stopped(postgres):
            await eventually(lambda: "ledger_unreachable" in gapless.stderr(), seconds=60)
        gapless.start("copy", "--id", "after")
        began = time.monotonic()
        await asyncio.to_thread(gapless, "backfill", "wait", "after")
        assert time.monotonic() - began < 60
        assert await asyncio.to_thread(leaves, worker) == 0
    lines = [json.loads(line) for line in gapless.stderr().splitlines() if line.startswith("{")]
    actions = [line["action"] for line in lines if "action" in line]
    assert actions.count("worker_started") == 1
    assert "ledger_recovered" in actions
