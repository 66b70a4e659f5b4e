"""`gapless follow` against a live node: from the first block to a process that is killed."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.acceptance.beside import run, run_json, running
from tests.acceptance.commands import Commands
from tests.acceptance.follows import NETWORK, above, is_live, live_node, until_shown
from tests.acceptance.test_cli_terminal import terminal
from tests.acceptance.test_devnode import ask

LEASE = 10.0


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A node without reorganisations, for all tests of this file."""
    with live_node(tmp_path_factory.mktemp("cache")) as url:
        yield url


@pytest.fixture
def gapless(sqlite_gapless: Commands) -> Commands:
    return sqlite_gapless


def head_of(node: str) -> int:
    return int(ask(node, "eth_blockNumber")["result"], 16)


def test_the_live_line_shows_the_phases(gapless: Commands, tmp_path: Path) -> None:
    with live_node(tmp_path, "--reorg-every", "6:4") as node:
        start = ("follow", NETWORK, "--rpc", node, "--to", "chain.db", "--from", "5")
        with terminal(gapless, 120, *start, "--rps", "40", "--chunk-size", "10") as screen:
            screen.read_until(lambda shown: f"{NETWORK}-chain: backfilling" in shown)
            screen.read_until(lambda shown: ": live, lag " in shown)
            screen.read_until(lambda shown: "chain_reorganised" in shown)
            screen.process.send_signal(signal.SIGTERM)
            assert screen.read_to_the_end() == ""
        assert screen.process.returncode == 0
        assert "as `arbitrum-nova-chain`: head" in screen.shown
        shown = gapless.json("follow", "show", f"{NETWORK}-chain")
        assert (shown["start"], shown["history_pct"], shown["alarm"]) == (5, 100, None)
        assert gapless.json("verify", "chain.db", "--deep")["complete"]
        final = ("--blocks", f"5:{shown['final']}")  # the others may be replaced by now
        assert gapless.json("verify", "chain.db", *final, "--against", node)["complete"]


async def test_run_again_continues_where_it_stopped(gapless: Commands, node: str) -> None:
    start = ("follow", NETWORK, "--rpc", node, "--to", "chain.db", "--name", "mine")
    first = head_of(node)
    async with running(gapless, *start, "--quiet") as process:
        await until_shown(gapless, "mine", above(first))
        process.signal(signal.SIGTERM)
        assert (await process.ended(0)).stderr == ""
    before = await run_json(gapless, "follow", "show", "mine")
    assert before["start"] > first
    async with running(gapless, *start) as process:
        said = await process.says("following")
        assert f"from block {before['start']:,} → chain.db" in said
        shown = await until_shown(gapless, "mine", above(before["stored"] + 2))
        process.signal(signal.SIGINT)
        await process.ended(0)
    assert shown["start"] == before["start"]
    verified = await run_json(gapless, "verify", "chain.db", "--deep", "--against", node)
    assert (verified["complete"], verified["first"]) == (True, before["start"])


async def test_it_starts_at_a_date(gapless: Commands, node: str) -> None:
    block = ask(node, "eth_getBlockByNumber", "0x14", False)["result"]
    moment = datetime.fromtimestamp(int(block["timestamp"], 16), UTC)
    since = f"{moment:%Y-%m-%dT%H:%M:%SZ}"
    start = ("follow", NETWORK, "--rpc", node, "--to", "chain.db", "--from", since, "-q")
    async with running(gapless, *start) as process:
        shown = await until_shown(gapless, f"{NETWORK}-chain", is_live)
        process.signal(signal.SIGTERM)
        await process.ended(0)
    assert shown["start"] == 20


async def test_a_second_process_takes_over(gapless: Commands, node: str) -> None:
    start = ("follow", NETWORK, "--rpc", node, "--to", "chain.db", "--from", "50")
    name = f"{NETWORK}-chain"
    async with running(gapless, *start) as leading:
        led = await until_shown(gapless, name, is_live)
        async with running(gapless, *start) as standing_by:
            await standing_by.says("following")
            same = await until_shown(gapless, name, above(led["stored"]))
            assert same["leader"] == led["leader"]
            killed_at = time.monotonic()
            leading.signal(signal.SIGKILL)
            taken = await until_shown(
                gapless, name, lambda it: it["leader"] not in (None, led["leader"])
            )
            assert time.monotonic() - killed_at < LEASE + 5, "and what a busy machine takes"
            await until_shown(gapless, name, above(taken["head"] + 1))
            standing_by.signal(signal.SIGTERM)
            await standing_by.ended(0)
    assert (await run_json(gapless, "verify", "chain.db", "--deep"))["complete"]


async def test_workers_serve_a_detached_follow(gapless: Commands, node: str) -> None:
    (gapless.folder / "gapless.toml").write_text(
        f"""
        endpoints.node = {{url = "{node}", network = "{NETWORK}"}}
        sinks.chain.url = "chain.db"
        """
    )
    detached = await run(gapless, "follow", NETWORK, "--from", "40", "--detach")
    assert detached.line == f"{NETWORK}-chain"
    assert "worker --slots priority=1,backlog=13,default=1" in detached.stderr
    waiting = await run(gapless, "follow", "show", detached.line)
    assert waiting.stdout.startswith(f"{NETWORK}-chain  starting")
    assert "nobody leads it" in waiting.stderr
    async with running(gapless, "worker", "--slots", "priority=1,backlog=2") as worker:
        await until_shown(gapless, detached.line, is_live)
        worker.signal(signal.SIGTERM)
        await worker.ended(0)
    assert (await run_json(gapless, "verify", "chain", "--deep"))["complete"]


async def test_everything_in_the_file_at_once(gapless: Commands, node: str, tmp_path: Path) -> None:
    with live_node(tmp_path, chain_id=42_220) as other:
        (gapless.folder / "gapless.toml").write_text(
            f"""
            [endpoints.nova]
            url = "{node}"
            network = "arbitrum-nova"
            [endpoints.celo]
            url = "{other}"
            ws = "{other.replace("http", "ws")}"
            network = "celo"
            [sinks.one]
            url = "one.db"
            [sinks.two]
            url = "two.duckdb"
            [follow.first]
            network = "arbitrum-nova"
            to = "one"
            from = 30
            [follow.second]
            network = "celo"
            to = "two"
            from = 40
            datasets = "blocks"
            """
        )
        async with running(gapless, "follow", "--json") as process:
            await until_shown(gapless, "first", is_live)
            await until_shown(gapless, "second", is_live)
            listed = await run_json(gapless, "follow", "ls")
            process.signal(signal.SIGTERM)
            shown = json.loads((await process.ended(0)).stdout)
        assert [(each["name"], each["sink"], each["start"]) for each in shown] == [
            ("first", "one", 30),
            ("second", "two", 40),
        ]
        assert [each["name"] for each in listed] == ["first", "second"]
        for sink in ("one", "two"):
            assert (await run_json(gapless, "verify", sink, "--deep"))["complete"]


async def test_postgresql_for_ledger_and_sink(postgres_gapless: Commands, node: str) -> None:
    gapless = postgres_gapless
    start = ("follow", NETWORK, "--rpc", node, "--to", gapless.home.url, "--name", "mine")
    async with running(gapless, *start, "--from", "30", "--json") as process:
        shown = await until_shown(gapless, "mine", is_live)
        await until_shown(gapless, "mine", above(shown["stored"] + 3))
        process.signal(signal.SIGTERM)
        await process.ended(0)
    verified = await run_json(gapless, "verify", gapless.home.url, "--deep", "--against", node)
    assert (verified["complete"], verified["first"]) == (True, 30)
