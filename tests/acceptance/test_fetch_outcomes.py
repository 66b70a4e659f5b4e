"""What was requested of a fetch and what was done: in text, JSON and the exit code."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sqlite3
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gapless.core.ranges import Span
from gapless.devnode import Chain, Parameters, simulated
from tests.acceptance.beside import Patient, run, run_json, running
from tests.acceptance.commands import Commands
from tests.acceptance.test_cli_terminal import terminal
from tests.conformance.fetch.stage import contents, truth

HEAD, FINAL = 364, 300
NOBODY = "http://127.0.0.1:1"


@pytest.fixture(scope="module")
def parameters() -> Parameters:
    return Parameters(blocks=HEAD, txs=6, seed=8)


@pytest.fixture
def chain(parameters: Parameters) -> Chain:
    return simulated(parameters)


@pytest.fixture
async def node(chain: Chain) -> AsyncIterator[Patient]:
    async with Patient(chain) as running_node:
        yield running_node


def fetch(node: Patient, heights: str, *options: str, to: str = "chain.db") -> tuple[str, ...]:
    return ("fetch", "custom", heights, "--rpc", node.url, "--to", to, *options)


async def test_a_range_beyond_the_final_block_is_partial(
    sqlite_gapless: Commands, node: Patient
) -> None:
    partial = await run_json(sqlite_gapless, *fetch(node, "0:5000"), code=1)
    assert partial["state"] == "PARTIAL"
    assert (partial["requested"], partial["final"], partial["stored"]) == (
        [0, 5000],
        FINAL,
        [[0, FINAL]],
    )
    again = await run(sqlite_gapless, *fetch(node, "0:5000"), code=1)
    assert "partial: custom 0 to 300" in again.stderr
    assert "error: blocks 301 to 5,000 are not final yet and are left out" in again.stderr
    assert "--allow-partial" in again.stderr
    allowed = await run_json(sqlite_gapless, *fetch(node, "0:5000", "--allow-partial"))
    assert (allowed["state"], allowed["requested"]) == ("SUCCEEDED", [0, 5000])


async def test_a_day_that_is_not_entirely_final_is_partial(
    sqlite_gapless: Commands, node: Patient
) -> None:
    day = "2023-11-14"  # the day of all its blocks
    partial = await run_json(sqlite_gapless, *fetch(node, f"{day}:{day}"), code=1)
    assert (partial["state"], partial["requested"]) == ("PARTIAL", [0, HEAD])
    assert partial["stored"] == [[0, FINAL]]


async def test_a_detached_fetch_reports_what_is_left_out(
    sqlite_gapless: Commands, node: Patient
) -> None:
    (sqlite_gapless.folder / "gapless.toml").write_text(
        f'[endpoints.here]\nurl = "{node.url}"\nnetwork = "custom"\n'
        '[sinks.chain]\nurl = "chain.db"\n'
    )
    created = await run(sqlite_gapless, "fetch", "custom", "0:5000", "--detach", code=1)
    assert created.line.startswith("bf_")
    assert (
        "error: blocks 301 to 5,000 are not final yet and are left out\n\nhint: " in created.stderr
    )
    assert "--allow-partial" in created.stderr
    await run(sqlite_gapless, "fetch", "custom", "0:5000", "--detach", "--allow-partial")


async def test_a_full_disk_is_reported_with_what_is_stored(
    sqlite_gapless: Commands, node: Patient
) -> None:
    command = fetch(node, f"0:{FINAL}", "--retry", "halt", "--batch-size", "20")
    async with running(sqlite_gapless, *command, files=700) as halted:
        answer = await halted.ended(1)
    assert "failed: custom 0 to 300, " in answer.stderr
    assert "hint: check the disk and the sink, then run `gapless fetch custom" in answer.stderr
    assert "--rpc` gives a second opinion" not in answer.stderr


@pytest.mark.parametrize(
    ("end", "said"),
    [
        ("finalized", "`finalized` is block 300"),
        ("", "`finalized` is block 300"),
        ("latest", "`latest` is block 364; "),
    ],
)
async def test_a_tag_is_resolved_and_not_partial(
    sqlite_gapless: Commands, node: Patient, end: str, said: str
) -> None:
    done = await run(sqlite_gapless, *fetch(node, f"250:{end}"))
    assert said in done.stderr
    again = await run_json(sqlite_gapless, *fetch(node, f"250:{end}"))
    assert (again["state"], again["requested"]) == ("SUCCEEDED", [250, FINAL])


async def test_the_same_command_does_not_wait_for_chunks_in_backoff(
    sqlite_gapless: Commands, node: Patient
) -> None:
    command = fetch(node, f"0:{FINAL}", "--retry", "schedule")
    async with running(sqlite_gapless, *command, files=700) as first:
        await first.says("chunk_failed")
        first.signal()
        await first.ended(130)
    await sqlite_gapless.home.run("UPDATE chunks SET due = due + 3000 WHERE status = 'FAILED'")
    done = await run_json(sqlite_gapless, *command)
    assert (done["state"], done["gaps"]) == ("SUCCEEDED", [])


async def test_an_unreachable_node_halts_a_fetch_at_once(
    sqlite_gapless: Commands, chain: Chain
) -> None:
    async with Patient(chain, well_for=100) as node:
        began = time.monotonic()
        command = fetch(node, f"0:{FINAL}", "--retry", "halt", "--chunk-size", "100")
        halted = await run_json(sqlite_gapless, *command, code=1)
        assert time.monotonic() - began < 60
    assert halted["state"] == "FAILED"
    assert "Unavailable: no endpoint answers" in halted["error"]
    assert halted["stored"]


async def test_a_wait_shows_its_reason_and_a_countdown(
    sqlite_gapless: Commands, chain: Chain
) -> None:
    async with Patient(chain) as node:
        node.well_for, node.about = 50, b"Receipt"
        command = fetch(node, f"0:{FINAL}", "--batch-size", "10")

        def watch() -> str:
            with terminal(sqlite_gapless, 120, *command) as screen:
                screen.read_until(lambda shown: "waiting" in shown)
                screen.process.send_signal(signal.SIGINT)
                screen.read_to_the_end()
                return screen.shown

        shown = await asyncio.to_thread(watch)
    assert re.search(r"stored .*waiting [\d.]+s: 127.0.0.1:\d+: HTTP 500", shown)


async def test_a_folder_without_a_slash_gets_a_query_that_works(
    sqlite_gapless: Commands, node: Patient
) -> None:
    (sqlite_gapless.folder / "lake").mkdir()
    done = await run(sqlite_gapless, *fetch(node, "0:9", to="lake"))
    assert "try: duckdb -c \"FROM 'lake/**/blocks/*.parquet'" in done.stderr


async def test_blocks_that_are_stored_but_unproven_are_not_called_missing(
    sqlite_gapless: Commands, chain: Chain
) -> None:
    async with Patient(chain) as node:
        await run(sqlite_gapless, *fetch(node, "0:99", "--verify", "links"))
        with sqlite3.connect(sqlite_gapless.folder / "chain.db") as connection:
            connection.execute("UPDATE transactions SET nonce = nonce + 1 WHERE block_number = 50")
        node.well_for, node.about = 0, b'"0x32"'  # which is block 50
        failed = await run(sqlite_gapless, *fetch(node, "0:99", "--retry", "halt"), code=1)
    assert "missing" not in failed.stderr
    assert "stored but not proven as requested" in failed.stderr


@pytest.mark.parametrize(
    ("height", "said"),
    [(5000, "it is above the latest final block, 300"), (200, "it is outside the range")],
)
async def test_an_anchor_that_is_not_checked_is_named(
    sqlite_gapless: Commands, chain: Chain, node: Patient, height: int, said: str
) -> None:
    hash_ = "0x" + "ab" * 32
    if height <= FINAL:
        hash_ = json.loads(chain.block(height))["hash"]
    done = await run(sqlite_gapless, *fetch(node, "0:9", "--anchor", f"{height}:{hash_}"))
    assert f"warning: the anchor at {height:,} is not checked: {said}" in done.stderr


async def test_quiet_prints_only_the_summary(sqlite_gapless: Commands, node: Patient) -> None:
    done = await run(sqlite_gapless, *fetch(node, "0:9", "--quiet"))
    assert done.stderr.startswith("succeeded: custom 0 to 9, 10 blocks fetched")
    assert "try:" not in done.stderr
    assert done.line.startswith("bf_")


async def test_suggested_commands_include_the_endpoint_without_its_secret(
    sqlite_gapless: Commands, node: Patient
) -> None:
    await run(sqlite_gapless, *fetch(node, "0:9"))
    missing = await run(sqlite_gapless, "verify", "chain.db", "--blocks", "0:19", code=1)
    assert "gapless fetch 1337 10:19 --rpc … --to chain.db" in missing.stderr
    secret = (*fetch(node, "0:5000")[:-3], f"{node.url}/v2/S3CRET", "--to", "chain.db")
    unproven = await run(sqlite_gapless, *secret, "--max-requests", "60", code=130)
    assert "resume with `gapless fetch custom 0:5000 --rpc … --to chain.db" in unproven.stderr
    assert "S3CRET" not in unproven.stderr


REFUSED: dict[str, tuple[list[str], int, str]] = {
    "usage": (["fetch", "--nonsense"], 2, "usage_error"),
    "network": (["fetch", "etherium", "0:9"], 2, "usage_error"),
    "no ledger": (["backfill", "show", "bf_none"], 2, "not_found"),
    "no sink": (["verify", "nothing.db"], 2, "sink_unusable"),
    "gaps of nothing": (["gaps", "nothing.db"], 2, "sink_unusable"),
    "export of nothing": (["export", "nothing.db", "--table", "logs"], 2, "usage_error"),
    "repair of nothing": (["repair", "nothing.db"], 2, "sink_unusable"),
    "dead": (["dead", "retry", "bf_none:0"], 2, "usage_error"),
    "doctor": (["doctor", "--rpc", "nonsense"], 2, "usage_error"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_errors_are_json_too(sqlite_gapless: Commands, case: str) -> None:
    arguments, exit_code, code = REFUSED[case]
    if case in ("no ledger", "dead"):
        sqlite_gapless("backfill", "start", "--job", "jobs:copy", "--range", "0:0", "--detach")
    refused = sqlite_gapless(*arguments, "--json", code=exit_code)
    error: dict[str, Any] = refused.json["error"]
    assert error["message"]
    assert error["code"] == code, error
    for line in refused.stderr.splitlines():
        said = json.loads(line)
        assert said["level"] in ("info", "error")


def test_an_unreachable_endpoint_is_reported_in_json(sqlite_gapless: Commands) -> None:
    gone = sqlite_gapless("doctor", "--rpc", NOBODY, "--json", code=2)
    assert [json.loads(line)["level"] for line in gone.stderr.splitlines()] == ["error", "info"]
    assert not gone.json[0]["usable"]
    plain = sqlite_gapless("doctor", "--rpc", NOBODY, code=2)
    assert plain.stderr.startswith("error: no endpoint answers")


async def test_a_comparison_reports_in_json_why_it_waits(
    sqlite_gapless: Commands, node: Patient
) -> None:
    await run(sqlite_gapless, *fetch(node, "0:9"))
    look = ("verify", "chain.db", "--against", NOBODY, "--json")
    async with running(sqlite_gapless, *look) as command:
        line = json.loads(await command.says("endpoint_failed"))
        command.signal()
        await command.ended(130)
    assert (line["level"], line["endpoint"]) == ("warning", "against")


async def test_progress_is_json_too(sqlite_gapless: Commands, node: Patient) -> None:
    done = await run_json(sqlite_gapless, *fetch(node, "0:99", "--anchor", f"5000:{'ab' * 32}"))
    assert done["state"] == "SUCCEEDED"
    assert await contents(f"{sqlite_gapless.folder}/chain.db") == truth(node.chain, Span(0, 99))
