"""A stopped fetch keeps what it fetched, ends soon, and resumes with the same command."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import sys
import termios
import time

import pytest

from gapless.core.ranges import Span
from gapless.devnode import Chain, Pace, Parameters, simulated
from tests import forks
from tests.acceptance.beside import Patient, run, run_json, running
from tests.acceptance.commands import GAPLESS, Commands
from tests.conformance.fetch.stage import contents, truth
from tests.conformance.sink.conftest import ALL, target_of
from tests.waiting import eventually

LAST = 599
CALLS = 2 * (LAST + 1)
SOON = 20.0  # seconds: several times what it takes, for a busy machine


@pytest.fixture(scope="module")
def parameters() -> Parameters:
    return Parameters(blocks=LAST + 64, txs=1, seed=7)


@pytest.fixture
def chain(parameters: Parameters) -> Chain:
    return simulated(parameters)


def fetch(node: Patient, target: str, *options: str) -> tuple[str, ...]:
    return ("fetch", "custom", f"0:{LAST}", "--rpc", node.url, "--to", target, *options)


@pytest.mark.parametrize("kind", ALL)
async def test_stopped_runs_repeat_few_calls(
    sqlite_gapless: Commands, chain: Chain, kind: str, request: pytest.FixtureRequest
) -> None:
    target = target_of(request, kind)
    stored = 0
    async with Patient(chain) as node:
        for _ in range(3):
            limit = ("--max-requests", str(CALLS // 4))
            stopped = await run_json(sqlite_gapless, *fetch(node, target, *limit), code=130)
            assert stopped["state"] == "INTERRUPTED"
            now = sum(last - first + 1 for first, last in stopped["stored"])
            assert now - stored >= 0.8 * CALLS // 8, "most of what was paid for is stored"
            stored = now
        await run_json(sqlite_gapless, *fetch(node, target))
        assert node.asked <= 1.1 * CALLS
    assert await contents(target) == truth(chain, Span(0, LAST))


async def test_a_stop_is_one_transaction_with_the_ledger_if_they_share_a_database(
    postgres_gapless: Commands, chain: Chain
) -> None:
    target = postgres_gapless.home.url
    async with Patient(chain) as node:
        limit = ("--max-requests", str(CALLS // 2), "--batch-size", "500")
        stopped = await run_json(postgres_gapless, *fetch(node, target, *limit), code=130)
        assert sum(last - first + 1 for first, last in stopped["stored"]) > 0.4 * LAST
        await run_json(postgres_gapless, *fetch(node, target))
    assert await contents(target) == truth(chain, Span(0, LAST))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("kind", ["duckdb", "parquet"])
async def test_a_signal_stores_what_arrived(
    sqlite_gapless: Commands,
    chain: Chain,
    kind: str,
    number: signal.Signals,
    request: pytest.FixtureRequest,
) -> None:
    target = target_of(request, kind)
    async with Patient(chain, pace=Pace(latency=0.1)) as node:
        slow = ("--workers", "2", "--rps", "400")
        async with running(sqlite_gapless, *fetch(node, target, *slow)) as command:
            await eventually(lambda: node.calls["eth_getBlockReceipts"] >= 150)
            command.signal(number)
            answer = await command.ended(130)
        assert "press Ctrl-C again to stop now" in answer.stderr
        assert "INTERRUPTED: custom 0 to 599" in answer.stderr
        words = " ".join(fetch(node, target, *slow))
        assert f"hint: resume with `gapless {words}`" in answer.stderr
        assert len((await contents(target))["blocks"]) >= 100
        before = node.asked
        await run(sqlite_gapless, *fetch(node, target))
        assert node.asked - before < CALLS - 2 * 100
    assert await contents(target) == truth(chain, Span(0, LAST))


@pytest.mark.parametrize("hangs", [True, False])
async def test_a_signal_ends_it_soon_even_if_the_only_endpoint_fails(
    sqlite_gapless: Commands, chain: Chain, hangs: bool
) -> None:
    async with Patient(chain, well_for=100) as node:
        node.hangs = hangs
        async with running(sqlite_gapless, *fetch(node, "chain.db", "--json")) as command:
            await node.ill.wait()
            began = time.monotonic()
            command.signal(signal.SIGTERM)
            answer = await command.ended(130)
        assert time.monotonic() - began < SOON
        assert answer.json["state"] == "INTERRUPTED"
        assert answer.json["stored"]
        node.well_for = None
        await run(sqlite_gapless, *fetch(node, "chain.db"))
    assert await contents(f"{sqlite_gapless.folder}/chain.db") == truth(chain, Span(0, LAST))


@pytest.mark.parametrize(
    ("file", "reason"), [("chain.db", "disk I/O error"), ("chain.duckdb", "Could not write file")]
)
async def test_a_signal_ends_it_even_if_the_sink_fails(
    sqlite_gapless: Commands, chain: Chain, file: str, reason: str
) -> None:
    async with Patient(chain) as node:
        command_line = fetch(node, file, "--chunk-size", "600")
        async with running(sqlite_gapless, *command_line, files=700) as command:
            failed = await command.says("chunk_failed")
            assert f"`{file}` failed: " in failed
            assert reason in failed
            command.signal()
            answer = await command.ended(130)
        assert "INTERRUPTED" in answer.stderr
        await run(sqlite_gapless, *command_line)
    assert await contents(f"{sqlite_gapless.folder}/{file}") == truth(chain, Span(0, LAST))


async def test_a_signal_before_the_first_answer_ends_it(
    sqlite_gapless: Commands, chain: Chain
) -> None:
    async with Patient(chain, well_for=0) as node:
        node.hangs = True
        async with running(sqlite_gapless, *fetch(node, "chain.db", "--json")) as command:
            await node.ill.wait()
            command.signal(signal.SIGTERM)
            answer = await command.ended(130)
    assert answer.json["error"]["code"] == "interrupted"
    assert json.loads(answer.stderr)["message"] == "interrupted"
    assert not (sqlite_gapless.folder / "chain.db").exists()


@pytest.fixture
async def filled(sqlite_gapless: Commands, chain: Chain) -> Commands:
    async with Patient(chain) as node:
        await run(sqlite_gapless, *fetch(node, "chain.db"))
    return sqlite_gapless


async def test_sigterm_interrupts_a_verification(filled: Commands, chain: Chain) -> None:
    async with Patient(chain, well_for=0) as node:
        node.hangs = True
        look = ("verify", "chain.db", "--against", node.url)
        async with running(filled, *look) as command:
            await node.ill.wait()
            command.signal(signal.SIGTERM)
            answer = await command.ended(130)
    assert answer.stderr.endswith("interrupted\n")


async def test_sigterm_interrupts_a_command_in_the_background_of_a_shell(
    filled: Commands, chain: Chain
) -> None:
    """There, Ctrl-C is ignored."""
    async with Patient(chain, well_for=0) as node:
        node.hangs = True
        look = f"'{GAPLESS}' verify chain.db --against {node.url}"
        shell = await asyncio.create_subprocess_exec(
            *("bash", "-c", f"trap '' INT; exec {look}"),
            cwd=filled.folder,
            env=filled.environment(),
            stderr=asyncio.subprocess.PIPE,
        )
        await node.ill.wait()
        shell.send_signal(signal.SIGTERM)
        _, stderr = await shell.communicate()
    assert (shell.returncode, stderr) == (130, b"interrupted\n")


async def test_sigterm_interrupts_an_export(filled: Commands) -> None:
    forks.shim(filled.folder)
    reading, writing = os.pipe()
    size = fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)  # full long before the end

    def is_full() -> bool:
        waiting = bytearray(4)
        fcntl.ioctl(reading, termios.FIONREAD, waiting)
        return int.from_bytes(waiting, sys.byteorder) == size

    process = await asyncio.create_subprocess_exec(
        *(filled.folder / "gapless", "export", "chain.db"),
        *("--table", "transactions", "--format", "json"),
        cwd=filled.folder,
        env=filled.environment(),
        stdout=writing,
        stderr=asyncio.subprocess.PIPE,
    )
    os.close(writing)
    await eventually(is_full)
    process.send_signal(signal.SIGTERM)
    with os.fdopen(reading, "rb") as pipe:
        written = await asyncio.to_thread(pipe.read)
    _, stderr = await process.communicate()
    assert (process.returncode, stderr) == (130, b"interrupted\n")
    assert len(written.splitlines()) < LAST
