"""`gapless verify` and `gapless gaps`, as a person uses them on a sink of each kind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import apsw
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gapless.chains.opening import open_sink
from gapless.core.ranges import Span
from gapless.schema.arrow import Tables
from gapless.sinks import Request
from tests.acceptance.commands import Commands
from tests.acceptance.test_devnode import devnode
from tests.conformance.sink.conftest import ALL, target_of
from tests.conformance.sink.stage import (
    CHAIN_ID,
    FORK,
    HEAD,
    HEADERS,
    batch,
    read_only,
    rows_of,
    snapshot,
    with_column,
)

CLEAN = "proven: link, receipts_root"


def fill(gapless: Commands, name: str, *holes: tuple[int, int], branch: int = 0) -> str:
    """A sink with blocks 5 to 40 of the chain, except for some holes; returns its name."""

    async def write() -> None:
        async with await open_sink(f"{gapless.folder}/{name}") as sink:
            await sink.write(batch(5, HEAD, branch=branch), 3)
            for hole in holes:
                await sink.retract(CHAIN_ID, Span(*hole), 4)

    asyncio.run(write())
    return name


@pytest.fixture(params=["blocks.db", "blocks.duckdb", "blocks/"])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_complete_sink_is_proven(sqlite_gapless: Commands, name: str) -> None:
    sink = fill(sqlite_gapless, name)
    proven = sqlite_gapless("verify", sink, "--deep")
    assert "error" not in proven.stderr
    head, columns, blocks, *_, checks, last = proven.stdout.splitlines()
    assert head == "1337: blocks 5-40 (36 blocks)"
    assert columns.split() == ["table", "blocks", "rows", "missing", "or", "damaged"]
    assert blocks.split() == ["blocks", "36", "36", "none"]
    assert checks.strip() == CLEAN
    complete, _, lacking = last.partition("; not proven: ")
    assert complete == "complete: nothing is missing; digests, links, counts and proofs match"
    assert {"prices", "transactions_root"} <= {*lacking.split(", ")}
    result = sqlite_gapless.json("verify", sink)
    assert (result["complete"], result["deep"], result["chain_id"]) == (True, False, 1337)
    assert (result["first"], result["last"], result["findings"]) == (5, 40, [])
    logs = next(each for each in result["tables"] if each["table"] == "logs")
    assert (logs["stored"], logs["gaps"]) == ([[5, 40]], [])
    assert logs["proven"] == {"link": [[5, 40]], "receipts_root": [[5, 40]]}


def test_gaps_are_named_and_can_be_filled(sqlite_gapless: Commands) -> None:
    sink = fill(sqlite_gapless, "blocks/", (10, 12), (20, 20))
    missing = sqlite_gapless("verify", sink, code=1)
    assert "complete" not in missing.stdout
    assert missing.stderr == (
        "error: 4 blocks missing: 10-12, 20\n\n"
        f"hint: run `gapless fetch 1337 10:20 --rpc … --to {sink} --datasets"
        " blocks,transactions,logs,withdrawals,transfers` to fill the gaps\n"
    )
    assert sqlite_gapless("gaps", sink, code=1).stdout == "10:12\n20:20\n"
    wider = sqlite_gapless("gaps", sink, "--blocks", "11:+40", code=1)
    assert wider.stdout == "11:12\n20:20\n41:50\n"
    assert sqlite_gapless.json("gaps", sink, code=1) == {
        "network": "1337",
        "chain_id": 1337,
        "gaps": [[10, 12], [20, 20]],
        "damaged": [],
        "expired": [],
        "blocks": 4,
    }
    assert sqlite_gapless("gaps", sink, "--blocks", "13:19").stdout == ""
    part = sqlite_gapless("verify", sink, "--blocks", "13:19", "--network", "1337")
    assert "\ncomplete: nothing is missing; links and counts match; not proven: " in part.stdout


def test_damage_is_named(sqlite_gapless: Commands) -> None:
    sink = fill(sqlite_gapless, "blocks.db")
    sql = apsw.Connection(str(sqlite_gapless.folder / sink))
    sql.execute("UPDATE blocks SET transaction_count = 99 WHERE block_number >= 15")
    damaged = sqlite_gapless("verify", sink, code=1)
    lines = [line for line in damaged.stdout.splitlines() if "declares" in line]
    assert lines[0].startswith("transactions 15")
    assert ": the block declares 99, but " in lines[0]
    assert damaged.stderr.startswith("error: ")
    assert (
        " findings\n\nhint: run `gapless repair blocks.db --rpc …` to replace what is wrong"
        in damaged.stderr
    )
    result = sqlite_gapless.json("verify", sink, code=1)
    assert {(each["check"], each["table"]) for each in result["findings"]} == {
        ("count", "transactions")
    }


@pytest.mark.parametrize("name", ["blocks.db", "blocks.duckdb"])
def test_a_deleted_log_is_named(sqlite_gapless: Commands, name: str) -> None:
    sink = fill(sqlite_gapless, name)
    path = str(sqlite_gapless.folder / sink)
    with apsw.Connection(path) if name.endswith(".db") else duckdb.connect(path) as sql:
        sql.execute("DELETE FROM logs WHERE block_number BETWEEN 12 AND 14")
    lines = sqlite_gapless("verify", sink, code=1).stdout.splitlines()
    (logs,) = (line.split() for line in lines if line.startswith("  logs "))
    assert logs[-1] == "12-14"
    result = sqlite_gapless.json("verify", sink, code=1)
    tables = {each["table"]: each["damaged"] for each in result["tables"]}
    assert tables == {
        "blocks": [],
        "transactions": [],
        "logs": [[12, 14]],
        "withdrawals": [],
        "transfers": [],
    }
    named = sqlite_gapless("gaps", sink, code=1)
    assert named.stdout == "12:14\n"
    assert named.stderr == (
        "damaged blocks: 12-14; `gapless verify` shows what is wrong\n\n"
        f"hint: run `gapless repair {sink} --rpc …` to replace them\n"
    )
    missing = sqlite_gapless.json("gaps", sink, code=1)
    assert (missing["gaps"], missing["damaged"], missing["blocks"]) == ([], [[12, 14]], 3)
    assert sqlite_gapless("gaps", sink, "--blocks", "17:40").stdout == ""


def test_stored_blocks_are_compared_with_a_node(sqlite_gapless: Commands, tmp_path: Path) -> None:
    sink = fill(sqlite_gapless, "blocks.db")
    other = fill(sqlite_gapless, "other.db", branch=1)
    simulation = ("--blocks", str(HEAD), "--txs", "0:4", "--seed", "3")
    with devnode(*simulation, "--cache", tmp_path, "--finality-depth", "0") as url:
        agreed = sqlite_gapless("verify", sink, "--against", url)
        assert agreed.stderr == "compared 32 blocks with the node\n"
        differs = sqlite_gapless("verify", other, "--against", url, code=1)
    assert "the node has a different block at this height" in differs.stdout
    assert f"blocks {HEAD}" in differs.stdout or f"-{HEAD}:" in differs.stdout
    assert f"blocks {FORK - 1}:" not in differs.stdout


@pytest.mark.parametrize("head", [HEAD, FORK + 1])
def test_replaced_blocks_that_are_not_final_are_no_finding(
    sqlite_gapless: Commands, tmp_path: Path, head: int
) -> None:
    """Also if the node does not have some of the stored blocks yet."""
    sink = fill(sqlite_gapless, "other.db", branch=1)
    simulation = ("--blocks", str(HEAD), "--txs", "0:4", "--seed", "3", "--head", str(head))
    depth = ("--finality-depth", str(head - FORK + 1))
    with devnode(*simulation, "--cache", tmp_path, *depth) as url:
        compared = sqlite_gapless("verify", sink, "--against", url)
        shown = sqlite_gapless.json("verify", sink, "--against", url)
    assert f"not final yet, and different at the node: {FORK}" in compared.stderr
    assert f"not final yet: {FORK}-{HEAD}" in compared.stdout
    assert (shown["complete"], shown["not_final"]) == (True, [[FORK, HEAD]])


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["verify", "nowhere.db"], "there is no sink at `nowhere.db`"),
        (
            ["gaps", "postgresql://me:secret@127.0.0.1:1/db"],
            "cannot reach `postgresql://127.0.0.1:1",
        ),
        (["verify", "blocks.db", "--blocks", "9:3"], "`9:3` ends before it begins"),
        (["verify", "blocks.db", "--network", "etherium"], "there is no network `etherium`"),
        (["gaps", "empty.db"], "`empty.db` holds no blocks"),
    ],
)
def test_invalid_arguments_are_refused(
    sqlite_gapless: Commands, arguments: list[str], complaint: str
) -> None:
    fill(sqlite_gapless, "blocks.db")
    asyncio.run(_make(f"{sqlite_gapless.folder}/empty.db"))
    said = sqlite_gapless.refused(*arguments)
    assert complaint in said
    assert "secret" not in said
    assert not (sqlite_gapless.folder / "nowhere.db").exists()


async def _make(target: str) -> None:
    await (await open_sink(target)).close()


def test_several_chains_are_distinguished(sqlite_gapless: Commands) -> None:
    fill(sqlite_gapless, "blocks.db")
    given = batch(0, 3)
    tables = {name: with_column(rows, "chain_id", 1) for name, rows in given.tables.items()}
    ethereum = replace(given, chain_id=1, tables=Tables(tables))

    async def write() -> None:
        async with await open_sink(f"{sqlite_gapless.folder}/blocks.db") as sink:
            await sink.write(ethereum, 3)

    asyncio.run(write())
    said = sqlite_gapless.refused("verify", "blocks.db")
    assert "holds several chains: ethereum, 1337" in said
    result = sqlite_gapless.json("verify", "blocks.db", "--network", "eth", code=1)
    assert (result["network"], result["first"], result["last"]) == ("ethereum", 0, 3)
    assert [it["check"] for it in result["findings"]] == ["anchor"], "it is not Ethereum's genesis"


@pytest.mark.parametrize("name", ["blocks.db", "blocks/"])
def test_a_range_far_beyond_the_stored_blocks_is_answered_at_once(
    sqlite_gapless: Commands, name: str
) -> None:
    sink = fill(sqlite_gapless, name)
    result = sqlite_gapless.json("verify", sink, "--blocks", "0:999999999999", code=1)
    assert result["tables"][0]["gaps"] == [[0, 4], [41, 999999999999]]
    said = sqlite_gapless.refused("verify", sink, "--blocks", "0:99999999999999999999999")
    assert "is above any block" in said


def test_a_private_chain_is_not_compared_with_a_public_one(
    sqlite_gapless: Commands, tmp_path: Path
) -> None:
    """It has the id of Ethereum; the backfill records that it is another chain."""
    with devnode("--blocks", "100", "--chain-id", "1", "--cache", tmp_path) as url:
        place = ("--rpc", url, "--to", "chain.db")
        backfill = sqlite_gapless("fetch", "custom", "0:20", *place).line
    assert "complete" in sqlite_gapless("verify", backfill).stdout
    assert "complete" in sqlite_gapless("verify", "chain.db", "--network", "custom").stdout
    assert (
        "its hash differs from the known one" in sqlite_gapless("verify", "chain.db", code=1).stdout
    )


def test_an_unreadable_request_is_reported(sqlite_gapless: Commands) -> None:
    sink = fill(sqlite_gapless, "blocks.db")
    sql = apsw.Connection(str(sqlite_gapless.folder / sink))
    sql.execute("INSERT INTO _gapless_requests VALUES (1337, 5, 9, 'blocks', '', 'zz')")
    sql.close()
    for command in ("verify", "gaps", "repair"):
        assert "request for blocks 5-9 cannot be read" in sqlite_gapless.refused(command, sink)


def test_a_level_that_was_requested_and_not_reached_is_named(sqlite_gapless: Commands) -> None:
    sink = fill(sqlite_gapless, "blocks.db")
    sql = apsw.Connection(str(sqlite_gapless.folder / sink))
    sql.execute("INSERT INTO _gapless_requests VALUES (1337, 5, 40, 'blocks', 'senders link', '')")
    sql.close()
    result = sqlite_gapless.json("verify", sink)
    assert result["not_proven"]["senders"] == [[5, 40]]
    assert "link" not in result["not_proven"]


def hash_at(height: int) -> str:
    found: bytes = rows_of("blocks", Span(height, height))["hash"][0].as_py()
    return found.hex()


def test_blocks_below_a_trusted_hash_are_shown(sqlite_gapless: Commands, name: str) -> None:
    sink = fill(sqlite_gapless, name)
    assert "anchored" not in sqlite_gapless("verify", sink).stdout
    trusted = ("--anchor", f"20:0x{hash_at(20)}")
    assert "\n  anchored at 20: blocks 5-20\n" in sqlite_gapless("verify", sink, *trusted).stdout
    result = sqlite_gapless.json("verify", sink, *trusted)
    assert result["anchored"] == [{"height": 20, "blocks": [[5, 20]]}]
    wrong = sqlite_gapless("verify", sink, "--anchor", f"21:{hash_at(20)}", code=1)
    assert "\nblocks 21: its hash differs from the known one, 0x" in wrong.stdout
    assert (
        f"if your node is right, run `gapless repair {sink} --replace-branch --rpc …`"
        in wrong.stderr
    )


def test_a_trusted_hash_that_is_not_checked_is_named(sqlite_gapless: Commands) -> None:
    sink = fill(sqlite_gapless, "blocks.db")
    given = ("--anchor", f"5000:{hash_at(20)}", "--anchor", f"20:{hash_at(20)}")
    result = sqlite_gapless("verify", sink, *given).stderr
    reason = "it is not among the stored blocks"
    assert result == f"warning: the anchor at 5,000 is not checked: {reason}\n"
    assert "anchor at 20 " in sqlite_gapless("verify", sink, "--blocks", "30:40", *given).stderr


def test_hashes_trusted_by_earlier_fetches_are_remembered(sqlite_gapless: Commands) -> None:
    sink = fill(sqlite_gapless, "blocks.db")
    sql = apsw.Connection(str(sqlite_gapless.folder / sink))
    asked = f"(1337, 5, 40, 'blocks', '', '20:{hash_at(20)}')"
    sql.execute(f"INSERT INTO _gapless_requests VALUES {asked}")
    sql.close()
    assert "\n  anchored at 20: blocks 5-20\n" in sqlite_gapless("verify", sink).stdout


@pytest.mark.parametrize("kind", ALL)
def test_every_command_reports_a_table_that_ends_early(
    sqlite_gapless: Commands, request: pytest.FixtureRequest, kind: str
) -> None:
    """Blocks are stored to the end, and logs up to 25 of 40."""
    sink = target_of(request, kind)

    async def write() -> None:
        async with await open_sink(sink) as opened:
            await opened.request(CHAIN_ID, Request(Span(5, HEAD), frozenset(HEADERS)))
            await opened.request(CHAIN_ID, Request(Span(5, HEAD), frozenset({"blocks", "logs"})))
            await opened.write(batch(5, 25, tables=("blocks", "logs")), 3)
            await opened.write(batch(26, HEAD, tables=HEADERS), 3)

    asyncio.run(write())
    for deep in ((), ("--deep",)):
        result = sqlite_gapless.json("verify", sink, *deep, code=1)
        gaps = {each["table"]: each["gaps"] for each in result["tables"]}
        assert (result["complete"], gaps) == (False, {"blocks": [], "logs": [[26, HEAD]]})
    assert sqlite_gapless("gaps", sink, code=1).stdout == f"26:{HEAD}\n"
    exported = sqlite_gapless("export", sink, "--table", "logs", "--output", "x.csv", code=1)
    assert exported.stderr.startswith(f"error: logs of 15 blocks missing: 26-{HEAD}\n")
    assert not (sqlite_gapless.folder / "x.csv").exists()
    whole = sqlite_gapless("export", sink, "--table", "blocks", "--output", "y.csv")
    assert "36 rows" in whole.stderr


def missing(file: Path) -> None:
    file.unlink()


def shortened(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-50])


def of_another_schema(file: Path) -> None:
    rows = pq.read_table(file)
    pq.write_table(rows.set_column(0, "chain_id", rows["chain_id"].cast(pa.string())), file)


@pytest.mark.parametrize("table", ["blocks", "logs"])
@pytest.mark.parametrize("harm", [missing, shortened, of_another_schema])
def test_a_damaged_file_is_named(
    sqlite_gapless: Commands, harm: Callable[[Path], None], table: str
) -> None:
    sink = fill(sqlite_gapless, "blocks/")
    folder = sqlite_gapless.folder / sink
    file = f"1337/{table}/5-40.3.parquet"
    harm(folder / file)
    before = snapshot(folder)
    for deep in ((), ("--deep",)):
        result = sqlite_gapless.json("verify", sink, *deep, code=1)
        (found,) = (each for each in result["findings"] if each["check"] == "damaged")
        assert (found["table"], found["first"], found["last"]) == (table, 5, 40)
        assert found["message"].startswith(f"`{file}` ")
    gaps = sqlite_gapless.json("gaps", sink, code=1)
    assert (gaps["damaged"], gaps["blocks"]) == ([[5, 40]], 36)
    assert sqlite_gapless("gaps", sink, code=1).stdout == "5:40\n"
    exported = sqlite_gapless("export", sink, "--table", table, "--output", "x.csv", code=1)
    assert file in exported.stderr
    assert not (sqlite_gapless.folder / "x.csv").exists()
    assert snapshot(folder) == before


def test_commands_that_only_read_change_no_file(sqlite_gapless: Commands, name: str) -> None:
    sink = fill(sqlite_gapless, name)
    before = snapshot(sqlite_gapless.folder)
    sqlite_gapless("verify", sink, "--deep")
    sqlite_gapless("gaps", sink)
    sqlite_gapless("export", sink, "--table", "logs")
    assert snapshot(sqlite_gapless.folder) == before


def test_a_read_only_folder_is_enough(sqlite_gapless: Commands, name: str) -> None:
    sink = fill(sqlite_gapless, name)
    with read_only(sqlite_gapless.folder):
        assert "complete" in sqlite_gapless("verify", sink, "--deep").stdout
        assert sqlite_gapless("gaps", sink).stdout == ""
        assert sqlite_gapless("export", sink, "--table", "blocks").stdout.count("\n") == 37


def test_a_sink_may_be_given_by_name(sqlite_gapless: Commands) -> None:
    fill(sqlite_gapless, "blocks.db")
    config = '[sinks.warehouse]\nurl = "blocks.db"\n'
    (sqlite_gapless.folder / "gapless.toml").write_text(config)
    assert sqlite_gapless.json("verify", "warehouse")["complete"]
    assert sqlite_gapless("gaps", "warehouse", "--blocks", "0:6", code=1).stdout == "0:4\n"
    result = sqlite_gapless("verify", "warehouse", "--network", "ethereum", code=1)
    assert result.stderr.startswith("error: `warehouse` holds no blocks of ethereum\n\nhint: ")
