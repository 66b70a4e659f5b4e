"""TRON has every feature that EVM chains have, in all sinks, over its own node's HTTP API."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import cache
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import duckdb
import pytest

import gapless
from gapless.blocks.stores import opened_store
from gapless.chains.family import Wanted
from gapless.chains.level import Level
from gapless.chains.opening import open_sink
from gapless.chains.tron.check_names import PROVABLE, TronCheck
from gapless.chains.tron.family import TRON
from gapless.chains.tron.networks import TRON_CUSTOM
from gapless.chains.tron.raw_block import RawTronBlock
from gapless.chains.tron.tables import TRON_BLOCKS
from gapless.config import load
from gapless.core.ranges import RangeSet, Span
from gapless.devnode import Chain, DevNode, Parameters, simulated
from gapless.export import FORMATS, NATIVE, Export, find_layout
from gapless.following.spec import FollowSpec
from gapless.schema.arrow import Tables
from gapless.sinks import Access
from tests.conformance.follow.stage import Stage, live_at
from tests.conformance.sink.conftest import ALL, target_of

LAST = 79
SOLID = 19
WHOLE = RangeSet.of((0, LAST))
DATASETS = frozenset(table.name for table in TRON.tables)

Fetch = Callable[..., Awaitable[gapless.FetchResult]]


@pytest.fixture(scope="module")
def chain() -> Chain:
    return simulated(Parameters(blocks=LAST + SOLID, txs=6), family="tron")


@pytest.fixture
async def node(chain: Chain) -> AsyncIterator[DevNode]:
    async with DevNode(chain) as running:
        yield running


@pytest.fixture(params=ALL)
def target(request: pytest.FixtureRequest) -> str:
    return target_of(request, request.param)


@pytest.fixture
def fetch(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fetch:
    ledger = f"sqlite:///{tmp_path}/ledger.db"
    monkeypatch.setenv("GAPLESS_LEDGER", ledger)
    monkeypatch.chdir(tmp_path)

    async def run(*nodes: DevNode, heights: str = f"0:{LAST}", **more: Any) -> gapless.FetchResult:
        urls = [node.url for node in nodes]
        options = {"chunk_size": 50, "batch_size": 20, "datasets": ",".join(DATASETS), **more}
        return await gapless.fetch(
            "tron-custom", heights, rpc=urls, to=target, ledger=ledger, **options
        )

    return run


@cache
def truth(chain: Chain) -> Tables:
    """The rows of the chain, read without any fetch or sink."""
    raws = [RawTronBlock(at, "", chain.block(at), chain.receipts(at)) for at in range(LAST + 1)]
    wanted = Wanted(TRON_CUSTOM, chain.chain_id, frozenset(), DATASETS)
    return TRON.read(raws, wanted, (), whole=False).tables


async def stored(target: str, chain: Chain) -> bool:
    async with await open_sink(target, Access.READ) as sink:
        rows = {it.name: await sink.read(it, chain.chain_id, Span(0, LAST)) for it in TRON.tables}
    return rows == {**truth(chain)}


async def test_fetch_verify_and_export(
    node: DevNode, chain: Chain, fetch: Fetch, target: str
) -> None:
    await fetch(node, heights="0:39")
    done = await fetch(node)
    assert (done.state, done.fetched, done.gaps) == ("SUCCEEDED", 40, RangeSet())
    assert (await fetch(node)).fetched == 0, "what is stored is not fetched again"
    assert await stored(target, chain)
    report = await gapless.verify(target, deep=True)
    assert report.complete
    assert report.reproven is not None
    repeated = PROVABLE - {TronCheck.LINK, TronCheck.PLACES}
    assert report.reproven.proven == dict.fromkeys(repeated, WHOLE)
    lines: dict[str, list[str]] = {}
    async with opened_store(load(), "", target, None, None) as store:
        for table in TRON.tables:
            for form in FORMATS:
                file, layout = io.BytesIO(), find_layout(NATIVE, table.name)
                job = Export(store.sink, store.chain_id, layout, Span(0, LAST))
                count = await job.write_to(FORMATS[form](layout, file))
                assert count == truth(chain)[table.name].num_rows > 20
                if form == "csv":
                    lines[table.name] = file.getvalue().decode().splitlines()
    assert lines["tron_blocks"][0].startswith("chain_id,block_number,block_timestamp,")
    assert ",T" in lines["tron_logs"][1], "addresses are exported as text too"


async def test_nothing_proves_logs_and_both_ends_say_so(
    node: DevNode, fetch: Fetch, target: str
) -> None:
    done = await fetch(node)
    assert done.not_proven == {TronCheck.LOGS}
    report = await gapless.verify(target)
    assert report.not_proven == {TronCheck.LOGS: WHOLE}


@pytest.mark.parametrize("target", ["sqlite"], indirect=True)
async def test_two_endpoints_agree_on_logs(
    node: DevNode, chain: Chain, fetch: Fetch, target: str
) -> None:
    async with DevNode(chain) as second:
        done = await fetch(node, second, verify="roots")
    assert done.not_proven == frozenset()
    report = await gapless.verify(target)
    assert all(TronCheck.AGREED in each.proven for each in report.coverage)


@pytest.mark.parametrize("target", ["sqlite"], indirect=True)
async def test_missing_proofs_are_made_from_stored_rows(node: DevNode, fetch: Fetch) -> None:
    weak = await fetch(node, verify="links")
    ids = {TronCheck.HEADER_HASH, TronCheck.TRANSACTION_IDS, TronCheck.TRANSACTIONS_ROOT}
    assert weak.not_proven == ids | {TronCheck.LOGS}
    done = await fetch(node)
    assert (done.fetched, done.reproven) == (0, LAST + 1)
    assert done.not_proven == {TronCheck.LOGS}


@pytest.mark.parametrize("target", ["sqlite"], indirect=True)
async def test_headers_alone(node: DevNode, fetch: Fetch, target: str) -> None:
    done = await fetch(node, datasets="tron_blocks")
    assert (done.rows, done.not_proven) == ({"tron_blocks": LAST + 1}, frozenset())
    assert (await gapless.verify(target, deep=True)).complete


async def test_changed_rows_are_found(node: DevNode, fetch: Fetch, target: str) -> None:
    await fetch(node)
    if target.endswith("/"):
        lose_a_file(Path(target))
    else:
        await change(target, "UPDATE {}tron_transactions SET amount = 1 WHERE contract_type = 1")
    report = await gapless.verify(target, deep=True)
    assert not report.complete


def lose_a_file(folder: Path) -> None:
    min(folder.glob("*/tron_logs/*.parquet")).unlink()


async def change(target: str, statement: str) -> None:
    if target.endswith(".db"):
        with apsw.Connection(target) as sql:
            sql.execute(statement.format(""))
    elif target.endswith(".duckdb"):
        with duckdb.connect(target) as database:
            database.execute(statement.format(""))
    else:
        url, _, schema = target.partition("?schema=")
        connection = await asyncpg.connect(url)
        await connection.execute(statement.format(f"{schema}."))
        await connection.close()


async def test_views_show_hex_and_base58(
    node: DevNode, chain: Chain, fetch: Fetch, target: str
) -> None:
    await fetch(node, heights="0:9")
    query = (
        "SELECT block_number, block_time, witness_address, witness_base58 FROM {}tron_blocks_hex"
        " ORDER BY block_number"
    )
    if target.endswith(".db"):
        found: Any = apsw.Connection(target).execute(query.format("")).fetchall()
    elif target.endswith(".duckdb"):
        with duckdb.connect(target) as database:
            found = database.execute(query.format("")).fetchall()
    elif target.endswith("/"):
        pytest.skip("files have no views")
    else:
        url, _, schema = target.partition("?schema=")
        connection = await asyncpg.connect(url)
        found = [tuple(row) for row in await connection.fetch(query.format(f"{schema}."))]
        await connection.close()
    genesis, first, *_ = list[Any](found)
    assert genesis[2:] == (None, None)
    header = json.loads(chain.block(1))["block_header"]["raw_data"]
    assert first[2] == f"0x{header['witness_address'][2:]}"
    assert first[3].startswith("T")
    assert "2023-11-14" in str(first[1])


@pytest.mark.parametrize("target", ["sqlite"], indirect=True)
async def test_dates(node: DevNode, chain: Chain, fetch: Fetch) -> None:
    done = await fetch(node, heights="2023-11-14T22:13:50Z:2023-11-14T22:14:11Z")
    times = [json.loads(chain.block(at))["block_header"]["raw_data"] for at in (10, 17)]
    assert [it["timestamp"] for it in times] == [1_700_000_030_000, 1_700_000_051_000]
    assert done.span == Span(10, 17)


@pytest.mark.parametrize("target", ["sqlite"], indirect=True)
async def test_lost_rows_are_repaired_and_compared_with_a_node(
    node: DevNode, chain: Chain, fetch: Fetch, target: str
) -> None:
    await fetch(node)
    await change(target, "DELETE FROM {}tron_logs WHERE block_number > 40")
    mended = await command("repair", target, "--rpc", node.url)
    assert "complete: nothing is missing" in mended
    assert await stored(target, chain)
    compared = await command("verify", target, "--against", node.url)
    assert "not proven: logs" in compared


async def command(*arguments: str) -> str:
    """Runs `gapless`; returns all that it prints."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gapless", *arguments), stdout=PIPE, stderr=STDOUT
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
    return output.decode()


async def test_a_follow_replaces_blocks_that_leave_the_chain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FollowSpec, "poll_seconds", 0.1)
    chain = simulated(Parameters(blocks=LAST, txs=3, seed=1), family="tron")
    stage = Stage(f"sqlite:///{tmp_path}/ledger.db", f"{tmp_path}/blocks.db")
    stage.network = "tron-custom"
    async with DevNode(chain) as node, stage.follow(node, start=50) as follow:
        await live_at(follow, LAST)
        node.reorg(6)
        await live_at(follow, LAST + 1)
    async with await open_sink(stage.target, Access.READ) as sink:
        (rows,) = [await sink.read(TRON_BLOCKS, chain.chain_id, Span(0, LAST + 1))]
    hashes = [bytes.fromhex(chain.hash(at).removeprefix("0x")) for at in range(50, LAST + 2)]
    assert rows["hash"].to_pylist() == hashes
    assert (await gapless.verify(stage.target, deep=True)).complete


def test_a_level_never_needs_what_an_era_lacks() -> None:
    for network in TRON.networks:
        for level in Level:
            checks = TRON.level(level, DATASETS)
            assert network.required(checks, 10**9) <= PROVABLE
