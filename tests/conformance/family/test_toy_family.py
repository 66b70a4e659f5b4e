"""A second chain family, in one folder and with one registration, has every feature.

Nothing in `src` knows the toy family; see tests/toychain.
"""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import duckdb
import pytest
from msgspec.structs import replace

import gapless
from gapless import chains
from gapless.blocks.stores import opened_store
from gapless.chains.opening import open_sink
from gapless.config import load
from gapless.core.errors import UsageError
from gapless.core.ranges import RangeSet, Span
from gapless.devnode import DevNode, Parameters, simulated
from gapless.export import FORMATS, NATIVE, Export, find_layout
from gapless.sinks import Access
from tests import forks, toychain
from tests.conformance.sink.conftest import ALL, target_of
from tests.toychain import TOY
from tests.toychain.blocks import Block, rows_of
from tests.toychain.node import ToyChain, ToyNode
from tests.toychain.tables import BLOCKS, MOVES

LAST = 119
WHOLE = RangeSet.of((0, LAST))
DATASETS = (BLOCKS.name, MOVES.name)

PATIENCE = 30.0
_REGISTRATION = """
import sys
from gapless.chains import register
from tests.toychain import TOY
register(TOY)
del sys.modules["gapless.cli.export"]  # imported again, it lists the tables of this family too
"""

Fetch = Callable[..., Awaitable[gapless.FetchResult]]


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only during a test: no other test should know the family."""
    monkeypatch.setattr(chains, "_families", dict(chains._families))
    chains.register(TOY)


@pytest.fixture
def chain() -> ToyChain:
    return ToyChain(LAST + 1 + 3)  # three blocks are not final


@pytest.fixture
async def node(chain: ToyChain) -> AsyncIterator[ToyNode]:
    async with ToyNode(chain) as running:
        yield running


@pytest.fixture(params=ALL)
def target(request: pytest.FixtureRequest) -> str:
    return target_of(request, request.param)


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    url = f"sqlite:///{tmp_path}/ledger.db"
    monkeypatch.setenv("GAPLESS_LEDGER", url)
    monkeypatch.chdir(tmp_path)
    return url


@pytest.fixture
def fetch(target: str, ledger: str) -> Fetch:
    async def run(
        *nodes: ToyNode | DevNode, heights: str = f"0:{LAST}", network: str = "toy", **options: Any
    ) -> gapless.FetchResult:
        urls = [node.url for node in nodes]
        sizes = {"chunk_size": 50, "batch_size": 20, **options}
        return await gapless.fetch(network, heights, rpc=urls, to=target, ledger=ledger, **sizes)

    return run


async def stored(target: str, chain: ToyChain) -> bool:
    """Whether the sink contains exactly the rows of the chain."""
    truth = rows_of(chain.blocks[: LAST + 1], chain.chain_id, DATASETS)
    async with await open_sink(target, Access.READ) as sink:
        rows = [await sink.read(it, chain.chain_id, Span(0, 10**6)) for it in TOY.tables]
    return rows == [truth[name] for name in DATASETS]


async def command(*arguments: str, code: int = 0) -> tuple[str, str]:
    """Runs `gapless` in a process that knows the family; returns its stdout and stderr."""
    done = await asyncio.to_thread(
        forks.run,
        arguments,
        cwd=Path.cwd(),
        env={**os.environ, "PYTHONPATH": str(Path(toychain.__path__[0]).parents[1])},
        timeout=PATIENCE,
        prelude=_REGISTRATION,
    )
    assert done.returncode == code, done.stderr
    return done.stdout, done.stderr


def wrong_seal(block: Block) -> Block:
    return replace(block, seal=bytes(32)) if block.block_number == 70 else block


def cut_list(block: Block) -> Block:
    moves = (block.moves or ())[:1]
    return replace(block, moves=moves, move_count=len(moves))


def other_coins(block: Block) -> Block:
    moves = tuple(replace(move, coins=move.coins + 1) for move in block.moves or ())
    return replace(block, moves=moves)


def test_the_family_is_small() -> None:
    """All of it, including the node that serves it, in lines that are not blank."""
    folder = Path(toychain.__path__[0])
    lines = [line for file in folder.glob("*.py") for line in file.read_text().splitlines()]
    assert len([line for line in lines if line.strip()]) < 300


async def test_fetch_verify_and_export(
    node: ToyNode, chain: ToyChain, fetch: Fetch, target: str
) -> None:
    first = await fetch(node, heights="0:59")
    assert first.gaps == RangeSet()
    done = await fetch(node)
    assert (done.state, done.fetched, done.not_proven) == ("SUCCEEDED", 60, frozenset())
    assert (await fetch(node)).fetched == 0, "what is stored is not fetched again"
    assert await stored(target, chain)
    assert (await gapless.verify(target)).complete
    report = await gapless.verify(target, deep=True)
    assert report.complete
    assert report.coverage[1].heights == WHOLE
    assert report.reproven is not None
    assert report.reproven.proven == dict.fromkeys(("height", "moves", "seal"), WHOLE)
    file = io.BytesIO()
    async with opened_store(load(), "", target, None, None) as store:
        layout = find_layout(NATIVE, MOVES.name)
        job = Export(store.sink, store.chain_id, layout, Span(0, LAST))
        assert await job.write_to(FORMATS["csv"](layout, file)) == LAST + 1
    header, row, *_ = file.getvalue().decode().splitlines()
    assert header == "chain_id,block_number,move_index,block_timestamp,giver,taker,coins"
    assert row == "770001,1,0,1600000002,0x616e6e,0x626f62,1"


async def test_lost_and_forged_rows_are_found_and_repaired(
    node: ToyNode, chain: ToyChain, fetch: Fetch, target: str
) -> None:
    await fetch(node)
    await harm(target)
    gaps, _ = await command("gaps", target, code=1)
    assert "50" in gaps or gaps.startswith("0:")
    _, found = await command("verify", target, "--deep", code=1)
    assert "hint: " in found
    mended, _ = await command("repair", target, "--rpc", node.url)
    assert "complete: nothing is missing" in mended
    assert await stored(target, chain)


def _lose_a_file(folder: Path) -> None:
    min(folder.glob("toy/toy_moves/*.parquet")).unlink()


async def harm(target: str) -> None:
    """Loses a move, and forges another where rows can be changed."""
    deleting = "DELETE FROM {}toy_moves WHERE block_number = 50"
    forging = "UPDATE {}toy_moves SET coins = 9 WHERE block_number = 77"
    if target.endswith(".db"):
        with apsw.Connection(target) as sql:
            for each in (deleting, forging):
                sql.execute(each.format(""))
    elif target.endswith(".duckdb"):
        with duckdb.connect(target) as database:
            for each in (deleting, forging):
                database.execute(each.format(""))
    elif "://" in target:
        url, _, schema = target.partition("?schema=")
        connection = await asyncpg.connect(url)
        for each in (deleting, forging):
            await connection.execute(each.format(f"{schema}."))
        await connection.close()
    else:
        _lose_a_file(Path(target))


async def test_missing_proofs_are_made_from_stored_rows(
    node: ToyNode, fetch: Fetch, target: str
) -> None:
    weak = await fetch(node, verify="links")
    assert weak.not_proven == {"seal", "moves"}
    done = await fetch(node)
    assert (done.fetched, done.reproven, done.not_proven) == (0, LAST + 1, frozenset())


async def test_blocks_without_moves(node: ToyNode, fetch: Fetch, target: str) -> None:
    done = await fetch(node, datasets=BLOCKS.name)
    assert (done.rows, done.not_proven) == ({BLOCKS.name: LAST + 1}, frozenset())
    assert (await gapless.verify(target, deep=True)).complete


async def test_a_reorganisation_is_repaired(
    node: ToyNode, chain: ToyChain, fetch: Fetch, target: str
) -> None:
    await fetch(node, heights=f"0:{LAST - 3}", confirmations=0)
    del chain.blocks[LAST - 8 :]
    chain.grow(20, giver=b"cyd")
    await fetch(node, confirmations=0)
    assert await stored(target, chain)


@pytest.mark.parametrize("lie", [wrong_seal, cut_list, other_coins])
@pytest.mark.parametrize("target", ["sqlite"], indirect=True)
async def test_a_lie_is_refused(
    node: ToyNode,
    chain: ToyChain,
    fetch: Fetch,
    target: str,
    lie: Callable[[Block], Block],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gapless.pipeline.block_reader.delay", lambda *_: 0)
    async with ToyNode(chain, lie) as liar:
        alone = await fetch(liar, heights="60:79")
        assert alone.state == "FAILED"
        assert "fails the check" in (alone.error or "")
        both = await fetch(liar, node)
    assert both.gaps == RangeSet()
    assert await stored(target, chain)


@pytest.mark.parametrize("target", ["sqlite"], indirect=True)
async def test_dates(node: ToyNode, fetch: Fetch) -> None:
    done = await fetch(node, heights="2020-09-13T12:26:50Z:2020-09-13T12:27:00Z")
    assert done.span == Span(5, 10)


async def test_an_unlisted_chain_is_recognised_by_its_tables(fetch: Fetch, target: str) -> None:
    async with ToyNode(ToyChain(LAST + 4, chain_id=424_242)) as node:
        await fetch(node, network="toy-custom")
        for network in (None, "toy-custom", "424242"):
            assert (await gapless.verify(target, network=network, deep=True)).complete
        async with opened_store(load(), "", target, None, None) as store:
            assert (store.network, store.facts.family) == ("toy-custom", "toy")
        await command("repair", target, "--rpc", node.url)
        with pytest.raises(UsageError, match="holds no chain of the same kind as `custom`"):
            await gapless.verify(target, network="custom")


@pytest.mark.parametrize("target", ["sqlite"], indirect=True)
async def test_two_families_cannot_share_a_chain_id_in_a_sink(fetch: Fetch, target: str) -> None:
    async with (
        ToyNode(ToyChain(50, chain_id=1337)) as node,
        DevNode(simulated(Parameters(blocks=80, txs=1))) as other,
    ):
        await fetch(node, network="toy-custom", heights="0:40")
        with pytest.raises(UsageError, match="holds toy_blocks, toy_moves of another chain"):
            await fetch(other, network="custom", heights="0:10")


@pytest.mark.parametrize("target", ["sqlite"], indirect=True)
async def test_commands(node: ToyNode, target: str, ledger: str) -> None:
    said, _ = await command("networks")
    assert "toy-custom" in said
    for network in ((), ("--network", "toy")):
        page, _ = await command("doctor", "--rpc", node.url, *network)
        assert "a block with its moves costs 1 call" in page
        assert "receipts" not in page
    arguments = ("fetch", "toy", f"0:{LAST}", "--rpc", node.url, "--to", target)
    _, priced = await command(*arguments, "--dry-run")
    assert "to fetch: 120 blocks, at least 120 toy_block" in priced
    _, done = await command(*arguments)
    assert "SELECT block_number, block_time, move_count, seal FROM toy_blocks_hex" in done
    _, compared = await command("verify", target, "--against", node.url)
    assert "compared 32 blocks with the node" in compared
    exported, _ = await command("export", target, "--table", "toy_blocks", "--blocks", "0:0")
    assert exported.startswith("chain_id,block_number,seal,previous,moves_seal,")


def test_names_that_are_taken_cannot_be_registered_again() -> None:
    with pytest.raises(
        ValueError, match="toy, toy-custom, toy_blocks, toy_moves of `toy` is taken"
    ):
        chains.register(TOY)
