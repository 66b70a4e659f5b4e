"""Looking at follows and controlling them, and what is refused."""

from __future__ import annotations

import re
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from gapless.devnode import Chain, DevNode, Limits, Parameters, simulated
from tests.acceptance.beside import Patient, run, run_json, running
from tests.acceptance.commands import Answer, Commands
from tests.acceptance.follows import CHAIN_ID, NETWORK, above, is_live, until_shown
from tests.acceptance.test_devnode import devnode

LIMITS = Limits(finality_depth=10)
KEY = "a1b2c3d4e5f6a7b8"


@pytest.fixture
def chain() -> Chain:
    return simulated(Parameters(blocks=100, txs=1, chain_id=CHAIN_ID))


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    simulation = ("--blocks", "40", "--txs", "1", "--chain-id", str(CHAIN_ID))
    with devnode(*simulation, "--cache", tmp_path_factory.mktemp("cache")) as url:
        yield url


@pytest.fixture
def gapless(sqlite_gapless: Commands) -> Commands:
    return sqlite_gapless


def test_ls_show_pause_resume_rm(gapless: Commands, node: str) -> None:
    named = {"NODE": f"{node}/{KEY}", "SINK": "chain.db"}
    start = ("follow", NETWORK, "--rpc", "env:NODE", "--to", "env:SINK", "--name", "mine")
    said: list[Answer] = []

    def follow(*arguments: str) -> Answer:
        said.append(gapless("follow", *arguments))
        return said[-1]

    created = gapless(*start, "--from", "3", "--detach", "--json", env=named)
    assert [each["name"] for each in created.json] == ["mine"]
    row = follow("ls").stdout.splitlines()[1]
    assert row.split()[:3] == ["mine", NETWORK, "starting"]
    assert gapless.json("follow", "ls") == [gapless.json("follow", "show", "mine")]
    assert follow("pause", "mine").stderr == "`mine` is paused\n"
    paused = gapless.json("follow", "pause", "mine")  # again, which changes nothing
    assert (paused["state"], paused["phase"]) == ("PAUSED", "paused")
    assert "`gapless follow resume mine` continues it" in follow("show", "mine").stderr
    assert follow("resume", "mine").stderr == "`mine` is resumed\n"
    assert gapless.json("follow", "show", "mine")["phase"] == "starting"
    assert follow("rm", "mine").stderr == "`mine` is removed; its blocks stay in `env:SINK`\n"
    assert gapless.json("follow", "ls") == []
    assert "there are no follows yet" in follow("ls").stderr
    gone = gapless("follow", "rm", "mine", code=2).stderr
    assert "there is no follow `mine`" in gone
    assert "`gapless follow ls` lists them" in gone
    for each in (created, *said):
        assert KEY not in each.stdout + each.stderr
    assert KEY.encode() not in (gapless.folder / "ledger.db").read_bytes()


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        ("UPDATE backfills SET spec = '{\"network\": 7}'", "the specification of"),
        ("UPDATE cursors SET state = 'nonsense'", "the cursor of"),
    ],
)
def test_a_damaged_follow_is_listed_and_removed(
    gapless: Commands, node: str, damage: str, problem: str
) -> None:
    for name in ("bad", "good"):
        named = {"NODE": f"{node}/{KEY}", "SINK": f"{name}.db"}
        start = ("follow", NETWORK, "--rpc", "env:NODE", "--to", "env:SINK", "--name", name)
        gapless(*start, "--detach", env=named)
    with closing(sqlite3.connect(gapless.folder / "ledger.db")) as ledger, ledger:
        assert ledger.execute(f"{damage} WHERE follow = 'bad'").rowcount == 1
    listed = gapless("follow", "ls")
    rows = [row.split() for row in listed.stdout.splitlines()[1:]]
    assert rows[0] == ["bad", "unreadable"]
    assert rows[1][:3] == ["good", NETWORK, "starting"]
    assert f"`bad` is damaged: {problem}" in listed.stderr
    assert "`gapless follow rm bad` forgets it" in listed.stderr
    bad, good = gapless.json("follow", "ls")
    assert bad["phase"] == "unreadable"
    assert bad["problem"].startswith(problem)
    assert good == gapless.json("follow", "show", "good")
    assert "`gapless follow rm bad`" in gapless("follow", "show", "bad", code=2).stderr
    gapless("follow", "pause", "bad")
    gapless("follow", "rm", "bad")
    assert [each["name"] for each in gapless.json("follow", "ls")] == ["good"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["show", "nothing"], "there is no follow `nothing`"),
        (["pause", "nothing"], "there is no follow `nothing`"),
        (["resume", "nothing"], "there is no follow `nothing`"),
        (["rm", "nothing"], "there is no follow `nothing`"),
        ([], "no network given, and no `[follow.NAME]` in the configuration"),
        (["--to", "chain.db"], "no network given"),
        (["--workers", "2"], "no network given"),
        (["--datasets", "blocks"], "no network given"),
        (["nowhere", "--rpc", "URL", "--to", "chain.db"], "`nowhere`"),
        ([NETWORK, "--to", "chain.db"], f"no endpoint for `{NETWORK}`"),
        ([NETWORK, "--rpc", "URL"], "no sink given"),
        ([NETWORK, "--rpc", "URL", "--to", "chain.db", "--from", "5:9"], "`5:9` is a range"),
        ([NETWORK, "--rpc", "URL", "--to", "chain.db", "--from", "latest"], "neither a height nor"),
        ([NETWORK, "--rpc", "URL", "--to", "chain.db", "--name", "a b"], "cannot be the name"),
        ([NETWORK, "--rpc", "URL", "--to", "chain.db", "--detach"], "`--detach` needs endpoints"),
        ([NETWORK, "--rpc", "WS", "--to", "chain.db"], "has no usable URL"),
        (["celo", "--rpc", "URL", "--to", "chain.db"], "is on chain 42170, not 42220"),
    ],
)
def test_what_is_refused(gapless: Commands, node: str, arguments: list[str], error: str) -> None:
    places = {"URL": f"{node}/{KEY}", "WS": f"{node.replace('http', 'ws')}/{KEY}"}
    gapless.start("copy")  # creates the ledger
    said = gapless.refused("follow", *[places.get(each, each) for each in arguments])
    assert error in said
    assert KEY not in said
    if "WS" in arguments:
        assert "this one as `ws` of an endpoint in `gapless.toml`" in said
    assert not (gapless.folder / "chain.db").exists()


async def test_a_node_that_is_away_for_a_while(gapless: Commands, chain: Chain) -> None:
    """The follow says so, waits, and catches up by itself."""
    name = f"{NETWORK}-chain"
    async with Patient(chain, limits=LIMITS) as node:
        url = f"{node.url}/{KEY}"
        start = ("follow", NETWORK, "--rpc", url, "--to", "chain.db", "--from", "80")
        async with running(gapless, *start, "--json") as process:
            await until_shown(gapless, name, is_live)
            node.well_for = 0
            said = await process.says("follow_troubled")
            assert "no endpoint answers" in said
            troubled = await until_shown(gapless, name, lambda it: it["silent_seconds"] > 0)
            assert "HTTP 500" in troubled["trouble"]
            assert troubled["phase"] == "behind"
            assert troubled["lag_seconds"] >= troubled["silent_seconds"]
            shown = (await run(gapless, "follow", "show", name)).stdout
            assert re.search(r"no endpoint answers since \d\d:\d\d UTC \(.*\): .*HTTP 500", shown)
            assert KEY not in said + shown
            node.advance(5)
            node.well_for = None
            await until_shown(gapless, name, above(104))
            process.signal(signal.SIGTERM)
            await process.ended(0)
        compared = ("verify", "chain.db", "--deep", "--against", node.url)
        assert (await run_json(gapless, *compared))["complete"]


async def test_a_follow_that_is_removed_while_it_runs(gapless: Commands, chain: Chain) -> None:
    async with Patient(chain, limits=LIMITS) as node:
        start = ("follow", NETWORK, "--rpc", node.url, "--to", "chain.db", "--from", "90")
        async with running(gapless, *start) as process:
            await until_shown(gapless, f"{NETWORK}-chain", is_live)
            await run(gapless, "follow", "rm", f"{NETWORK}-chain")
            await process.says(f"removed: `{NETWORK}-chain`")
            await process.ended(0)


async def test_a_change_that_is_too_deep(gapless: Commands, chain: Chain) -> None:
    """Nothing is deleted; a person removes the follow, replaces the branch, and follows again."""
    name = f"{NETWORK}-chain"
    async with DevNode(chain, limits=LIMITS) as node:
        start = ("follow", NETWORK, "--rpc", node.url, "--to", "chain.db", "--from", "10")
        async with running(gapless, *start) as process:
            await until_shown(gapless, name, is_live)
            node.reorg(80)
            assert "changed, although it was final" in await process.says("follow_stopped")
            stopped = await run(gapless, "follow", "show", name)
            assert stopped.stdout.startswith(f"{name}  stopped")
            assert "nothing was deleted" in stopped.stdout
            assert f"`gapless follow rm {name}`" in stopped.stderr
            process.signal(signal.SIGTERM)
            await process.ended(0)
        assert (await run_json(gapless, "verify", "chain.db", "--deep"))["complete"]
        await run(gapless, "follow", "rm", name)
        refused = await run(gapless, *start, code=1)
        assert "--replace-branch" in refused.stderr
        await run(gapless, "repair", "chain.db", "--rpc", node.url, "--replace-branch")
        async with running(gapless, *start) as process:
            await until_shown(gapless, name, lambda it: is_live(it) and it["stored"] == 101)
            process.signal(signal.SIGTERM)
            await process.ended(0)
        compared = ("verify", "chain.db", "--deep", "--against", node.url)
        assert (await run_json(gapless, *compared))["complete"]
