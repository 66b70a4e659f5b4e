"""`gapless wallet add` against nodes: from the first block to balances that are compared."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gapless.chains import find_network
from gapless.devnode.evm.drafts import World
from gapless.wallets.request import rules_of
from tests.acceptance.beside import run_json, running
from tests.acceptance.commands import Commands
from tests.acceptance.follows import NETWORK, is_live, live_node, until_shown
from tests.acceptance.test_devnode import ask, devnode
from tests.waiting import eventually

RULES = rules_of(find_network("custom"))
ADDRESSES = World(0).wallets
ANN, BOB = (RULES.format_address(RULES.parse_address(each)) for each in ADDRESSES[:2])
TRON = "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t"
WRONG_CASE = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAeD"
NOBODY = "http://127.0.0.1:1"
SECRET = "k3ys3cret"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A chain with an economy, and all of its blocks final but the last ten."""
    cache = tmp_path_factory.mktemp("cache")
    chain = ("--economy", "--blocks", "150", "--finality-depth", "10", "--cache", cache)
    with devnode(*chain) as url:
        yield url


@pytest.fixture
def gapless(sqlite_gapless: Commands) -> Commands:
    return sqlite_gapless


def added(gapless: Commands, node: str, *arguments: str, code: int = 0) -> Any:
    start = ("wallet", "add", "--network", "custom", "--rpc", node, "--to", "w.db")
    return gapless.json(*start, *arguments, code=code)


def test_from_adding_to_removing(gapless: Commands, node: str) -> None:
    start = ("wallet", "add", "--network", "custom", "--rpc", node, "--to", "w.db")
    answer = gapless(*start, ANN.lower(), BOB, "--label", "ours", "--scan")
    assert answer.stdout.count("COMPLETE") == 2
    assert "searched: 1337: 141 blocks from every block (proven: " in answer.stderr
    assert f"hint: `gapless wallet show {ANN}` shows what was found" in answer.stderr
    (ann,) = [it for it in gapless.json("wallet", "ls") if it["address"] == ANN]
    assert (ann["label"], ann["from"], ann["to"], ann["state"]) == ("ours", 0, 140, "COMPLETE")
    shown = gapless.json("wallet", "show", ANN)
    assert [it["source"] for it in shown["searched"]] == ["blocks"]
    coin, *tokens = gapless.json("wallet", "balances", ANN, "--rpc", node, "--all")
    assert int(coin["on_chain_raw"]) == int(
        ask(node, "eth_getBalance", ANN, hex(140))["result"], 16
    )
    for each in (coin, *tokens):
        assert each["as_of_block"] == 140
        unexplained = int(each["on_chain_raw"]) - int(each["computed_raw"])
        assert int(each["unexplained_raw"]) == unexplained
    assert {it["symbol"] for it in tokens} & {"WETH", "MKR", "RBS", "TAX"}
    compared = gapless.json("wallet", "show", ANN, "--rpc", node)["balances"]
    assert compared == gapless.json("wallet", "balances", ANN, "--rpc", node)
    assert {it["on_chain"] for it in shown["balances"]} == {None}, "without a node, nobody is asked"
    assert "unexplained" in gapless("wallet", "show", ANN, "--rpc", node).stdout
    assert "unexplained" not in gapless("wallet", "show", ANN).stdout
    items = gapless.json("wallet", "history", ANN)["items"]
    assert {it["kind"] for it in items} >= {"fee", "token"}
    dated = gapless.json("wallet", "balances", ANN, "--rpc", node, "--at", "2023-11-14T22:20:00Z")
    assert dated[0]["as_of_block"] < 140

    removed = gapless("wallet", "rm", ANN)
    assert "its rows stay in `w.db`" in removed.stderr
    assert "there is no wallet" in gapless.refused("wallet", "show", ANN)
    assert "are deleted" in gapless("wallet", "rm", BOB, "--purge").stderr
    assert gapless.json("wallet", "ls") == []


def test_a_plan_costs_nothing(gapless: Commands, node: str, tmp_path: Path) -> None:
    (plan,) = added(gapless, node, ANN, "--from-block", "50", "--dry-run")
    assert (plan["from"], plan["to"], plan["stored"], plan["unstored"]) == (50, 140, 0, 91)
    assert (plan["source"], plan["addresses"]) == ("events", [ANN])
    (dated,) = added(gapless, node, ANN, "--from-block", "2023-11-14", "--dry-run")
    assert (dated["from"], dated["to"]) == (0, 140)
    assert plan["calls"]["eth_getBlockByNumber"] == 91
    assert not (tmp_path / "w.db").exists()
    assert not (tmp_path / "ledger.db").exists()
    start = ("wallet", "add", "--network", "custom", "--rpc", node, "--to", "w.db", ANN)
    told = gapless(*start, "--dry-run").stderr
    assert "141 blocks by a search for events" in told
    assert "`--scan`: 141 eth_getBlockByNumber" in told


def test_what_the_search_cannot_know_is_said(gapless: Commands, node: str) -> None:
    start = ("wallet", "add", "--network", "custom", "--rpc", node, "--to", "w.db", ANN)
    answer = gapless(*start)
    assert "coins that moved without an event were not looked for (unproven: no second" in (
        answer.stderr
    )
    again = gapless(*start)
    assert again.stdout.count("COMPLETE") == 1


def test_stored_tables_need_no_search(gapless: Commands, node: str) -> None:
    gapless("fetch", "custom", "0:140", "--rpc", node, "--to", "w.db", "--quiet")
    (plan,) = added(gapless, node, ANN, "--dry-run")
    assert (plan["stored"], plan["unstored"], plan["calls"]) == (141, 0, {})
    (sync,) = added(gapless, node, ANN)
    assert sync["state"] == "COMPLETE"
    assert [it["source"] for it in gapless.json("wallet", "show", ANN)["searched"]] == ["tables"]


def test_an_override_is_applied_by_a_sync(gapless: Commands, node: str) -> None:
    added(gapless, node, ANN)
    first = gapless.json("wallet", "history", ANN, "--category", "in")["items"][0]
    gapless("wallet", "override", ANN, first["id"], "reward")
    gapless("wallet", "sync", ANN, "--rpc", node)
    (item,) = gapless.json("wallet", "history", ANN, "--category", "reward")["items"]
    assert (item["id"], item["flags"]) == (first["id"], ["manual"])


async def test_interrupted_and_resumed(gapless: Commands, node: str) -> None:
    words = ("wallet", "add", "--network", "custom", "--rpc", node, "--to", "w.db", ANN, "--scan")
    with gapless.running(*words, "--rps", "40") as process:
        await eventually(lambda: "1337: 1 wallet, blocks 0-140" in gapless.stderr())
        await eventually(lambda: gapless.json("wallet", "ls")[0]["state"] == "RUNNING")
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, 60) == 130
    assert f"hint: resume with `gapless {' '.join(words)} --rps 40`" in gapless.stderr()
    (sync,) = gapless.json("wallet", "ls")
    assert sync["state"] == "PENDING"
    assert "COMPLETE" in gapless(*words).stdout


def test_workers_do_what_is_detached(gapless: Commands, node: str, tmp_path: Path) -> None:
    (tmp_path / "gapless.toml").write_text(
        f'[endpoints.main]\nurl = "{node}"\nnetwork = "custom"\n[sinks.own]\nurl = "w.db"\n'
    )
    start = ("wallet", "add", "--network", "custom", "--to", "own", ANN, "--detach")
    answer = gapless(*start)
    assert "PENDING" in answer.stdout
    assert "hint: run them with `gapless worker`" in answer.stderr
    gapless("worker", "--until-idle")
    (sync,) = gapless.json("wallet", "ls")
    assert (sync["state"], sync["sink"]) == ("COMPLETE", "own")
    symbols = {it["symbol"] for it in gapless.json("wallet", "balances", ANN, "--all")}
    assert symbols & {"WETH", "MKR", "RBS", "TAX"}, "workers ask for the names of tokens"


async def test_followed_wallets_are_up_to_date(gapless: Commands, tmp_path: Path) -> None:
    with live_node(tmp_path, "--economy") as live:
        usual = (NETWORK, "--rpc", live, "--to", "chain.db")
        async with running(gapless, "follow", *usual, "--from", "0", "--name", "f", "--quiet"):
            await until_shown(gapless, "f", is_live)
            sync, *others = await run_json(
                gapless, "wallet", "add", *ADDRESSES[:40], "--network", *usual
            )
            assert {it["state"] for it in (sync, *others)} == {"COMPLETE"}
            await eventually(lambda: _newest(tmp_path / "chain.db") > sync["to"])
        shown = gapless.json("wallet", "show", ANN)
        assert shown["followed_to"][NETWORK] > sync["to"]
        assert "followed to block" in gapless("wallet", "show", ANN).stdout


def _newest(path: Path) -> int:
    """The block of the newest entry."""
    with closing(sqlite3.connect(path)) as database:
        return int(*database.execute("SELECT max(block_number) FROM wallet_history").fetchone())


async def test_what_is_stored_beyond_a_hole_does_not_count(gapless: Commands, node: str) -> None:
    (sync,) = added(gapless, node, ANN)
    last, usual = sync["to"], ("custom", "--rpc", node, "--to", "w.db")
    before = gapless.json("wallet", "balances", ANN)
    start = str(last + 5)
    async with running(gapless, "follow", *usual, "--from", start, "--name", "f", "--quiet"):
        await until_shown(gapless, "f", is_live)
    shown = gapless.json("wallet", "show", ANN)
    assert (shown["known_to"], shown["followed_to"]) == ({"1337": last}, {})
    assert gapless.json("wallet", "balances", ANN) == before
    assert "continues to the latest final block" in gapless("wallet", "show", ANN).stderr
    gapless("fetch", *usual, f"{last + 1}:{last + 4}", "--confirmations", "0", "--quiet")
    answer = gapless("wallet", "show", ANN)
    shown = gapless.json("wallet", "show", ANN)
    assert shown["known_to"] == shown["followed_to"]
    assert shown["known_to"]["1337"] > last + 5
    assert {it["as_of_block"] for it in shown["balances"]} == {shown["known_to"]["1337"]}
    assert "followed to block" in answer.stdout
    assert "continues to the latest final block" not in answer.stderr


def test_a_database_that_is_given_by_url(gapless: Commands, node: str, postgres_url: str) -> None:
    """Its URL is a secret that the ledger does not have: whoever reads gives it again."""
    start = ("wallet", "add", "--network", "custom", "--rpc", node, ANN)
    assert "COMPLETE" in gapless(*start, "--to", postgres_url).stdout
    for command in ("show", "history", "balances", "rm"):
        refused = gapless.refused("wallet", command, ANN)
        assert "the ledger does not store the URL of the sink `postgresql://" in refused
        assert "choose one with `--sink`" in refused
    given = ("--sink", postgres_url)
    assert gapless.json("wallet", "history", ANN, *given)["items"]
    assert gapless.json("wallet", "show", ANN, *given)["balances"]
    assert "COMPLETE" in gapless("wallet", "sync", "--rpc", node, *given).stdout
    gapless("wallet", "rm", ANN, "--purge", *given)
    assert gapless.json("wallet", "ls") == []


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([WRONG_CASE], "its upper and lower case do not match its digits"),
        ([TRON], "`T` is not a hex digit"),
        (["0x" + "1" * 64], "like a hash or a private key"),
        ([ANN, "--to", "w.duckdb"], "a duckdb sink cannot hold wallets"),
        ([ANN, "--to", "w/"], "a parquet sink cannot hold wallets"),
        ([ANN, "--group", "no spaces"], "`no spaces` cannot be the name of a group"),
        ([ANN, "--from-block", "1:5"], "`1:5` is a range"),
        ([ANN, "--network", "etherium"], "etherium"),
        ([ANN, "--network", "base", "--rpc", NOBODY], "does not say of which it is"),
        ([ANN, "--detach"], "`--detach` needs endpoints and a sink"),
    ],
)
def test_wrong_words_are_refused_before_anything_is_created(
    gapless: Commands, tmp_path: Path, arguments: list[str], complaint: str
) -> None:
    usual = {"--to": "w.db", "--network": "custom", "--rpc": f"{NOBODY}/{SECRET}"}
    words = [word for option in usual.items() for word in option]
    refused = gapless.refused("wallet", "add", *words, *arguments)
    assert complaint in refused
    assert SECRET not in refused
    assert not [each for each in tmp_path.iterdir() if each.name != "jobs.py"]


def test_a_sync_needs_an_endpoint_whose_url_was_not_stored(gapless: Commands, node: str) -> None:
    gapless("wallet", "add", "--network", "custom", "--rpc", node, "--to", "w.db", ANN)
    assert "no endpoint for `custom`" in gapless.refused("wallet", "sync")


def test_without_an_endpoint(gapless: Commands) -> None:
    refused = gapless.refused("wallet", "add", ANN, "--network", "ethereum", "--to", "w.db")
    assert "no endpoint for `ethereum`" in refused
    assert "`--rpc URL`" in refused
    words = ("--network", "ethereum", "--to", "w.db", "--rpc", f"{NOBODY}/{SECRET}")
    answer = gapless("wallet", "add", ANN, *words, code=2)
    assert SECRET not in answer.stderr + answer.stdout
