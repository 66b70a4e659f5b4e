"""`gapless repair` restores a damaged sink to what the chain says, and changes nothing else."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gapless.core.ranges import Span
from gapless.devnode import Chain, DevNode, Pace, Parameters, simulated
from tests.acceptance.commands import GAPLESS, Answer, Commands
from tests.conformance.fetch.stage import contents, truth
from tests.waiting import eventually

LAST = 150
Damage = Callable[[Path], None]


@pytest.fixture
def chain() -> Chain:
    return simulated(Parameters(blocks=220, txs=3, fewest=1, seed=5))


async def run(gapless: Commands, *arguments: str, code: int = 0) -> Answer:
    """Runs a command while this process serves as a node."""
    return await asyncio.to_thread(gapless, *arguments, code=code)


async def fetch(gapless: Commands, node: DevNode, sink: str, heights: str = f"0:{LAST}") -> None:
    place = ("--rpc", node.url, "--to", sink, "--chunk-size", "50", "--confirmations", "0")
    await run(gapless, "fetch", "custom", heights, *place)


def in_sqlite(path: Path) -> None:
    sql = apsw.Connection(str(path))
    sql.execute("DELETE FROM logs WHERE block_number = 7")
    sql.execute("UPDATE transactions SET value = zeroblob(32) WHERE block_number = 77")
    sql.execute("DELETE FROM withdrawals WHERE block_number = 120")
    sql.execute("DELETE FROM blocks WHERE block_number = 121")
    sql.execute("UPDATE transactions SET hash = x'00' WHERE block_number = 90")
    sql.execute("UPDATE blocks SET hash = x'00' WHERE block_number = 91")


def in_duckdb(path: Path) -> None:
    with duckdb.connect(str(path)) as connection:
        connection.execute("DELETE FROM logs WHERE block_number = 7")
        connection.execute("INSERT INTO blocks SELECT * FROM blocks WHERE block_number = 60")
        connection.execute("UPDATE blocks SET hash = '\\x00'::BLOB WHERE block_number = 91")


def in_parquet(path: Path) -> None:
    files = sorted(path.glob("1337/*/*.parquet"))
    files[0].unlink()
    files[-1].write_bytes(files[-1].read_bytes()[:200])


def without_blocks(path: Path) -> None:
    for file in path.glob("1337/blocks/*.parquet"):
        file.unlink()


def rotten_pages(path: Path) -> None:
    """The footers are intact, so nothing is detected before the pages are read."""
    for table in ("blocks", "logs"):
        file = min(path.glob(f"1337/{table}/*.parquet"))
        whole = bytearray(file.read_bytes())
        whole[100:600] = bytes(it ^ 0xFF for it in whole[100:600])
        file.write_bytes(whole)


@pytest.mark.parametrize(
    ("sink", "damage"),
    [
        ("chain.db", in_sqlite),
        ("chain.duckdb", in_duckdb),
        ("chain/", in_parquet),
        ("chain/", without_blocks),
        ("chain/", rotten_pages),
    ],
)
async def test_damaged_rows_are_replaced(
    sqlite_gapless: Commands, chain: Chain, sink: str, damage: Damage
) -> None:
    path = sqlite_gapless.folder / sink
    async with DevNode(chain) as node:
        await fetch(sqlite_gapless, node, sink)
        damage(path)
        found = await run(sqlite_gapless, "verify", sink, code=1)
        assert f"hint: run `gapless repair {sink} --rpc …` to replace what is wrong" in found.stderr
        planned = await run(sqlite_gapless, "repair", sink, "--dry-run", code=1)
        assert "to replace: " in planned.stderr
        assert (await run(sqlite_gapless, "verify", sink, code=1)).stdout == found.stdout
        mended = await run(sqlite_gapless, "repair", sink, "--rpc", node.url)
        assert "\ncomplete: nothing is missing; digests" in mended.stdout
        again = await run(sqlite_gapless, "repair", sink, "--rpc", node.url)
        assert again.stderr.endswith("nothing to replace: all stored blocks are correct\n")
    assert await contents(str(path)) == truth(chain, Span(0, LAST))


async def test_intact_ranges_are_left_alone(sqlite_gapless: Commands, chain: Chain) -> None:
    """What was written together with the lost row is replaced, because its digest is wrong."""
    async with DevNode(chain) as node:
        await fetch(sqlite_gapless, node, "chain.db")
        sql = apsw.Connection(str(sqlite_gapless.folder / "chain.db"))
        sql.execute("DELETE FROM logs WHERE block_number = 7")
        sql.close()
        before = node.calls["eth_getBlockReceipts"]
        await run(sqlite_gapless, "repair", "chain.db", "--rpc", node.url)
        assert node.calls["eth_getBlockReceipts"] - before == 50
    assert await contents(f"{sqlite_gapless.folder}/chain.db") == truth(chain, Span(0, LAST))


def removed(file: Path) -> None:
    file.unlink()


def shortened(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-50])


def of_another_schema(file: Path) -> None:
    rows = pq.read_table(file)
    pq.write_table(rows.set_column(0, "chain_id", rows["chain_id"].cast(pa.string())), file)


@pytest.mark.parametrize("harm", [removed, shortened, of_another_schema])
@pytest.mark.parametrize("chunk_size", ["50", "20"])
async def test_a_fetch_replaces_a_damaged_file(
    sqlite_gapless: Commands, chain: Chain, harm: Damage, chunk_size: str
) -> None:
    path = sqlite_gapless.folder / "chain"
    place = ("--to", "chain/", "--confirmations", "0", "--chunk-size", chunk_size)
    command = ("fetch", "custom", f"0:{LAST}", *place, "--retry", "halt", "--json")
    async with DevNode(chain) as node:
        await fetch(sqlite_gapless, node, "chain/")
    (file,) = path.glob("1337/logs/50-99.*.parquet")
    harm(file)
    words = "damaged, to fetch again: 50 blocks"
    async with DevNode(chain, faults="wrong-block@77*1000") as liar:
        failed = await run(sqlite_gapless, *command, "--rpc", liar.url, code=1)
        assert words in failed.stderr
        assert failed.json["gaps"] == [[77, 77]]
    async with DevNode(chain) as node:
        done = (await run(sqlite_gapless, *command, "--rpc", node.url)).json
        assert (done["fetched"], done["gaps"]) == (1, [])
        assert "complete" in (await run(sqlite_gapless, "verify", "chain/", "--deep")).stdout
    assert await contents(str(path)) == truth(chain, Span(0, LAST))


async def test_a_fetch_of_other_tables_leaves_a_damaged_file_alone(
    sqlite_gapless: Commands, chain: Chain
) -> None:
    """Replacing it would remove everything that belongs to its blocks."""
    path = sqlite_gapless.folder / "chain"
    async with DevNode(chain) as node:
        await fetch(sqlite_gapless, node, "chain/")
        (file,) = path.glob("1337/logs/50-99.*.parquet")
        removed(file)
        place = ("--rpc", node.url, "--to", "chain/", "--confirmations", "0")
        headers = ("fetch", "custom", f"0:{LAST}", "--datasets", "blocks", *place)
        assert "nothing to fetch" in (await run(sqlite_gapless, *headers)).stderr
    assert len([*path.glob("1337/transactions/50-99.*.parquet")]) == 1
    assert (await run(sqlite_gapless, "gaps", "chain/", code=1)).stdout == "50:99\n"


async def test_a_fetch_of_some_blocks_of_a_damaged_file_loses_no_others(
    sqlite_gapless: Commands, chain: Chain
) -> None:
    path = sqlite_gapless.folder / "chain"
    async with DevNode(chain) as node:
        await fetch(sqlite_gapless, node, "chain/")
        (file,) = path.glob("1337/logs/50-99.*.parquet")
        removed(file)
        await fetch(sqlite_gapless, node, "chain/", "60:70")
        gaps = await run(sqlite_gapless, "gaps", "chain/", code=1)
        assert gaps.stdout == "50:59\n71:99\n"
        await fetch(sqlite_gapless, node, "chain/")
    assert await contents(str(path)) == truth(chain, Span(0, LAST))


async def test_nothing_outside_the_given_blocks_is_touched(
    sqlite_gapless: Commands, chain: Chain
) -> None:
    path = sqlite_gapless.folder / "chain"
    async with DevNode(chain) as node:
        await fetch(sqlite_gapless, node, "chain/")
        without_blocks(path)
        part = await run(sqlite_gapless, "gaps", "chain/", "--blocks", "10:20", code=1)
        assert part.stdout == "10:20\n"
        planned = await run(
            *(sqlite_gapless, "repair", "chain/", "--blocks", "10:20", "--dry-run"), code=1
        )
        assert planned.stderr.startswith("to replace: 11 blocks: 10-20\nerror: ")
        assert "to remove" not in planned.stderr


async def test_an_unfinished_range_is_finished(sqlite_gapless: Commands, chain: Chain) -> None:
    place = ("--to", "chain.db", "--confirmations", "0", "--chunk-size", "20")
    async with DevNode(chain) as node:
        await run(
            *(sqlite_gapless, "fetch", "custom", "0:99", "--rpc", node.url, *place),
            *("--max-requests", "60"),
            code=130,
        )
        gaps = await run(sqlite_gapless, "gaps", "chain.db", code=1)
        assert gaps.stdout
        await run(sqlite_gapless, "repair", "chain.db", "--rpc", node.url)
        assert (await run(sqlite_gapless, "gaps", "chain.db")).stdout == ""
    assert await contents(f"{sqlite_gapless.folder}/chain.db") == truth(chain, Span(0, 99))


async def test_unrequested_rows_are_removed(sqlite_gapless: Commands, chain: Chain) -> None:
    async with DevNode(chain) as node:
        await fetch(sqlite_gapless, node, "chain.db")
        sql = apsw.Connection(str(sqlite_gapless.folder / "chain.db"))
        columns = [row[1] for row in sql.execute("PRAGMA table_info(withdrawals)")]
        shown = ", ".join("900" if name == "block_number" else name for name in columns)
        sql.execute(f"INSERT INTO withdrawals SELECT {shown} FROM withdrawals LIMIT 1")
        found = await run(sqlite_gapless, "verify", "chain.db", code=1)
        assert "withdrawals 900: present, but not recorded as stored" in found.stdout
        await run(sqlite_gapless, "repair", "chain.db", "--rpc", node.url)
    assert await contents(f"{sqlite_gapless.folder}/chain.db") == truth(chain, Span(0, LAST))


async def test_an_unlisted_file_is_left_for_a_person_to_remove(
    sqlite_gapless: Commands, chain: Chain, tmp_path: Path
) -> None:
    """`verify` and `repair` report it in the same way, and neither removes it."""
    async with DevNode(chain) as node:
        await fetch(sqlite_gapless, node, "chain/")
        listed = min((tmp_path / "chain/1337/blocks").glob("*.parquet"))
        copy = listed.with_name("copy.parquet")
        copy.write_bytes(listed.read_bytes())
        for command in (("verify", "chain/"), ("repair", "chain/", "--rpc", node.url)):
            result = await run(sqlite_gapless, *command, code=1)
            assert (
                "the file `1337/blocks/copy.parquet` is not listed" in result.stdout + result.stderr
            )
            assert "\nhint: remove it by hand, or move it out of the folder" in result.stderr
        assert copy.exists()
        copy.unlink()
        await run(sqlite_gapless, "verify", "chain/")


@pytest.mark.parametrize("sink", ["chain.db", "chain/"])
async def test_an_abandoned_branch_is_replaced_only_on_request(
    sqlite_gapless: Commands, chain: Chain, sink: str
) -> None:
    path = f"{sqlite_gapless.folder}/{sink}"
    async with DevNode(chain) as node:
        await fetch(sqlite_gapless, node, sink)
    before = truth(chain, Span(0, LAST))
    chain.reorg(50)
    async with DevNode(chain) as node:
        for arguments in (
            ("fetch", "custom", f"0:{LAST + 10}", "--to", sink, "--confirmations", "0"),
            ("verify", sink, "--against", node.url),
        ):
            rpc = ("--rpc", node.url) if arguments[0] == "fetch" else ()
            result = await run(sqlite_gapless, *arguments, *rpc, code=1)
            assert f"gapless repair {sink} --replace-branch" in result.stderr
        assert await contents(path) == before
        await run(sqlite_gapless, "repair", sink, "--rpc", node.url, "--replace-branch")
    assert await contents(path) == truth(chain, Span(0, LAST))


async def test_withdrawn_blocks_are_not_a_gap(sqlite_gapless: Commands, chain: Chain) -> None:
    async with DevNode(chain) as node:
        await fetch(sqlite_gapless, node, "chain.db", "0:50")
        sql = apsw.Connection(str(sqlite_gapless.folder / "chain.db"))
        sql.execute("UPDATE _gapless_requests SET last = 500")
        assert (await run(sqlite_gapless, "gaps", "chain.db", code=1)).stdout == "51:500\n"
        planned = await run(
            *(sqlite_gapless, "repair", "chain.db", "--withdraw", "51:500", "--dry-run", "--json")
        )
        assert planned.json == {"withdrawn": [51, 500], "dry_run": True}
        assert (await run(sqlite_gapless, "gaps", "chain.db", code=1)).stdout == "51:500\n"
        await run(sqlite_gapless, "repair", "chain.db", "--withdraw", "51:500")
        assert (await run(sqlite_gapless, "gaps", "chain.db")).stdout == ""
        assert "complete" in (await run(sqlite_gapless, "verify", "chain.db")).stdout


async def test_a_repair_needs_a_node_only_if_something_is_wrong(
    sqlite_gapless: Commands, chain: Chain
) -> None:
    async with DevNode(chain) as node:
        await fetch(sqlite_gapless, node, "chain.db", "0:9")
    await run(sqlite_gapless, "repair", "chain.db")
    in_sqlite(sqlite_gapless.folder / "chain.db")
    result = await run(sqlite_gapless, "repair", "chain.db", code=2)
    assert "error: no endpoint for `custom`\n\nhint: give one with `--rpc" in result.stderr


@pytest.mark.parametrize(
    "forgery",
    [
        "DELETE FROM _gapless_ranges WHERE dataset = 'logs'",
        "UPDATE _gapless_ranges SET last = last + 40 WHERE last = 150",
        "UPDATE _gapless_ranges SET last_hash = zeroblob(32) WHERE last = 150",
    ],
)
async def test_forged_records_are_rewritten(
    sqlite_gapless: Commands, chain: Chain, forgery: str
) -> None:
    async with DevNode(chain) as node:
        await fetch(sqlite_gapless, node, "chain.db")
        sql = apsw.Connection(str(sqlite_gapless.folder / "chain.db"))
        sql.execute(forgery)
        sql.close()
        await run(sqlite_gapless, "verify", "chain.db", code=1)
        await run(sqlite_gapless, "repair", "chain.db", "--rpc", node.url)
        await fetch(sqlite_gapless, node, "chain.db", f"0:{LAST + 20}")
    found = await contents(f"{sqlite_gapless.folder}/chain.db")
    assert found == truth(chain, Span(0, LAST + 20))


async def test_an_interrupted_repair_says_so_and_resumes(
    sqlite_gapless: Commands, chain: Chain
) -> None:
    async with DevNode(chain) as node:
        await fetch(sqlite_gapless, node, "chain.db")
        in_sqlite(sqlite_gapless.folder / "chain.db")
    slow = DevNode(chain, pace=Pace(latency=0.5))
    async with slow as node:
        command = (str(GAPLESS), "repair", "chain.db", "--rpc", node.url)
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=sqlite_gapless.folder,
            env=sqlite_gapless.environment(),
            stderr=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
        )
        assert process.stderr is not None
        while b"to replace" not in await process.stderr.readline():
            pass
        await eventually(lambda: node.calls["eth_getBlockReceipts"] > 0)
        process.send_signal(signal.SIGINT)
        said = await process.stderr.read()
        assert await process.wait() == 130, said
        assert b"INTERRUPTED" in said
        assert b"resume with `gapless repair chain.db --rpc http://" in said
    async with DevNode(chain) as node:
        await run(sqlite_gapless, "repair", "chain.db", "--rpc", node.url)
    assert await contents(f"{sqlite_gapless.folder}/chain.db") == truth(chain, Span(0, LAST))


async def test_json_output_is_only_the_report(sqlite_gapless: Commands, chain: Chain) -> None:
    async with DevNode(chain) as node:
        await fetch(sqlite_gapless, node, "chain.db")
        in_sqlite(sqlite_gapless.folder / "chain.db")
        result: Any = (
            await run(sqlite_gapless, "repair", "chain.db", "--rpc", node.url, "--json")
        ).json
    assert (result["complete"], result["findings"]) == (True, [])


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["repair", "nowhere.db"], "there is no sink at `nowhere.db`"),
        (["repair", "chain.db", "--withdraw", "9:3"], "`9:3` ends before it begins"),
        (["repair", "chain.db", "--anchor", "7"], "does not name a block by height and hash"),
    ],
)
async def test_invalid_arguments_are_refused(
    sqlite_gapless: Commands, chain: Chain, arguments: list[str], complaint: str
) -> None:
    async with DevNode(chain) as node:
        await fetch(sqlite_gapless, node, "chain.db", "0:9")
    in_sqlite(sqlite_gapless.folder / "chain.db")
    said = await asyncio.to_thread(sqlite_gapless.refused, *arguments)
    assert complaint in said
