"""`--metrics-port`: metrics of a running command; if the port is taken, nothing is created."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator

import pytest
from aiohttp import ClientSession

from tests.acceptance.commands import Commands
from tests.acceptance.test_devnode import devnode
from tests.scraping import scraped
from tests.waiting import eventually

KEY = "S3CRETKEY"
BLOCKS = 150


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with devnode("--blocks", "300", "--txs", "2", "--cache", tmp_path_factory.mktemp("c")) as node:
        yield f"{node}/v2/{KEY}"


@pytest.fixture
def port() -> Iterator[str]:
    """A port that is already in use."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield str(taken.getsockname()[1])


async def page(gapless: Commands) -> str:
    """Where the command in the background serves its metrics."""
    line = r"metrics: (http://127\.0\.0\.1:\d+/metrics)\b"
    await eventually(lambda: re.search(line, gapless.stderr()) is not None)
    found = re.search(line, gapless.stderr())
    assert found
    return found[1]


async def health(where: str) -> tuple[int, str]:
    """The answer to a health check of the command."""
    page = where.replace("/metrics", "/healthz")
    async with ClientSession() as session, session.get(page) as answer:
        return answer.status, await answer.text()


async def test_a_worker_exports_what_it_did_and_what_is_left(
    sqlite_gapless: Commands, url: str
) -> None:
    gapless = sqlite_gapless
    (gapless.folder / "gapless.toml").write_text(
        f'[endpoints.here]\nurl = "{url}"\nnetwork = "custom"\n[sinks.chain]\nurl = "chain.db"\n'
    )
    sizes = ("--chunk-size", "50", "--batch-size", "25", "--workers", "3")
    created = gapless("fetch", "custom", f"0:+{BLOCKS}", "--detach", *sizes).line
    gapless.start("copy", "--id", "others", "--queue", "others")
    with gapless.running("worker", "--poll", "50ms", "--metrics-port", "0", "--json"):
        where = await page(gapless)
        gapless.json("backfill", "wait", created)
        settled_twice = 2  # the fetch, and the finishing of its sink
        await eventually(lambda: gapless.stderr().count("backfill_settled") == settled_twice)
        found = await scraped(where)
        assert await health(where) == (200, "ok\n")
    assert found["blocks_backfilled_total",] == BLOCKS
    assert found["gapless_batches_written_total",] == 6
    assert found["gapless_rows_written_total", "1337", "blocks"] == BLOCKS
    answered = ("here", "eth_getBlockReceipts", "answered")
    assert found["gapless_calls_total", *answered] == BLOCKS
    assert found["backfill_duration_seconds_count",] == settled_twice
    assert found["backfill_workers",] == 8  # from this process's configuration
    assert found["gapless_actions_total", "chunk_completed"] == 3 + 1
    assert found["gapless_partitions_completed_total",] == BLOCKS + 1
    assert found["gapless_stored_height", "1337", "chain"] == BLOCKS - 1
    assert found["gapless_slots", "default"] == 4
    assert found["gapless_chunks_running", "default"] == 0
    assert found["gapless_ledger_backfills", "pending"] == 1
    assert found["gapless_ledger_chunks", "waiting"] == 5
    assert found["gapless_ledger_queue_chunks", "others", "pending"] == 5
    assert found["gapless_ledger_queue_chunks", "default", "active"] == 0
    assert found["gapless_ledger_queue_runs_total", "completed", "default"] == 3 + 1
    assert ("gapless_ledger_queue_runs_total", "failed", "default") in found
    assert found["gapless_ledger_queue_wait_seconds", "others"] > 0
    assert found["gapless_ledger_queue_wait_seconds", "default"] == 0
    assert found["gapless_ledger_queue_slots", "default"] == 4
    assert found["gapless_ledger_queue_paused", "others"] == 0
    assert not any(KEY in part for key in found for part in key)
    lines = [json.loads(line) for line in gapless.stderr().splitlines()]
    log = [line for line in lines if "action" in line]
    settled = [line for line in log if line["action"] == "backfill_settled"]
    assert (settled[0]["backfill"], settled[0]["state"]) == (created, "succeeded")
    seconds = sum(line["seconds"] for line in settled)
    assert seconds == pytest.approx(found["backfill_duration_seconds_sum",], abs=1e-3)
    assert {line["worker"] for line in log} == {log[0]["worker"]}


async def test_a_fetch_exports_its_progress(sqlite_gapless: Commands, url: str) -> None:
    where = ("--rpc", url, "--to", "chain.db", "--batch-size", "10", "--rps", "100")
    with sqlite_gapless.running("fetch", "custom", "0:200", *where, "--metrics-port", "0"):
        at = await page(sqlite_gapless)

        async def halfway() -> bool:
            found = await scraped(at)
            done = found["blocks_backfilled_total",]
            if done:
                assert 0 < done < 201
                assert found["backfill_workers",] == 8
                assert found["gapless_head_height", "1337"] == 300
                assert found["gapless_stored_height", "1337", "chain.db"] == done - 1
                assert found["gapless_lag_blocks", "1337", "chain.db"] == 300 - (done - 1)
                assert found["gapless_chunks_running", "foreground"] == 1
                assert found["gapless_ledger_backfills", "running"] == 1
            return done > 0

        await eventually(halfway)


COMMANDS = {
    "fetch": ["fetch", "custom", "0:9", "--rpc", "URL", "--to", "x.db"],
    "worker": ["worker", "--until-idle"],
    "start": ["backfill", "start", "--job", "jobs:copy", "--range", "0:9"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_port_in_use_is_refused_before_anything_is_created(
    sqlite_gapless: Commands, url: str, port: str, command: str
) -> None:
    before = sorted(sqlite_gapless.folder.iterdir())
    arguments = [url if each == "URL" else each for each in COMMANDS[command]]
    refused = sqlite_gapless.refused(*arguments, env={"GAPLESS_METRICS_PORT": port})
    assert f"error: port {port} for metrics is in use" in refused
    assert "hint: use another port, or 0 for any free one" in refused
    assert sorted(sqlite_gapless.folder.iterdir()) == before


def test_commands_without_work_need_no_port(sqlite_gapless: Commands, url: str, port: str) -> None:
    fetch = ("fetch", "custom", "0:9", "--rpc", "env:NODE", "--dry-run")
    (sqlite_gapless.folder / "gapless.toml").write_text('[sinks.chain]\nurl = "chain.db"\n')
    said = sqlite_gapless(*fetch, env={"GAPLESS_METRICS_PORT": port, "NODE": url}).stderr
    assert "metrics" not in said
