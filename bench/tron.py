"""TRON blocks, compared with EVM blocks: reading them, and fetching them to SQLite.

Both chains are simulated, with the same number of transactions in every block; those of TRON are
decoded from Protocol Buffers inside the JSON. Reading is parsing, all checks of the level `auto`,
and decoding to tables, in processor time. Both fetches ask the same kind of node, `gapless devnode`
in a process of its own, so their rates are not those of the other measurements. A TRON node answers
one request for each block with transactions, besides those for ranges of blocks.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec import Raw

import gapless
from bench.report import Row, at_least, median, median_ratio, per_second
from bench.runs import Room, room
from gapless.chains import Level
from gapless.chains.evm.family import EVM
from gapless.chains.evm.raw_block import EvmRawBlock
from gapless.chains.family import Family, Wanted
from gapless.chains.tron.family import TRON
from gapless.chains.tron.raw_block import RawTronBlock
from gapless.core.backfill import State
from gapless.devnode import Chain, Parameters, simulated
from gapless.devnode.limits import FINALITY_DEPTH

ROUNDS = 5
UNIT = 50  # blocks that are read at once
FETCHED = 2_000  # blocks
FAMILIES: tuple[Family, ...] = (EVM, TRON)


async def measure() -> AsyncIterator[Row]:
    for transactions, blocks in ((5, 1000), (150, 50)):
        yield _reading(transactions, blocks)
    yield await _fetching()


def _reading(transactions: int, blocks: int) -> Row:
    taken: dict[str, list[float]] = {family.name: [] for family in FAMILIES}
    parameters = Parameters(blocks=blocks, txs=transactions, empty_every=0)
    given = {family.name: _answers(family, parameters) for family in FAMILIES}
    for turn in range(ROUNDS):
        for family in FAMILIES[:: -1 if turn % 2 else 1]:
            raws, wanted = given[family.name]
            started = time.process_time()
            for at in range(0, len(raws), UNIT):
                family.read(raws[at : at + UNIT], wanted, (), whole=False)
            taken[family.name].append(time.process_time() - started)
    evm, tron = (blocks / median(taken[family.name]) for family in FAMILIES)
    return Row(
        f"TRON, {transactions} transactions a block, read and checked, of EVM",
        f"{per_second(tron)} of {per_second(evm)} blocks",
        median_ratio(taken[EVM.name], taken[TRON.name]),
        at_least(0.25),
    )


def _answers(family: Family, parameters: Parameters) -> tuple[Sequence[Any], Wanted]:
    """The raw blocks of a chain, and how to read them."""
    chain = simulated(parameters, family=family.name)
    datasets = frozenset(table.name for table in family.tables)
    checks = family.level(Level.AUTO, datasets)
    wanted = Wanted(family.networks[-1], chain.chain_id, checks, datasets)
    heights = range(1, parameters.blocks + 1)
    made = _evm_block if family is EVM else _tron_block
    return [made(chain, height) for height in heights], wanted


def _evm_block(chain: Chain, height: int) -> EvmRawBlock:
    block, receipts = Raw(chain.block(height)), Raw(chain.receipts(height))
    return EvmRawBlock(height, block, receipts, None, "node")


def _tron_block(chain: Chain, height: int) -> RawTronBlock:
    return RawTronBlock(height, "node", chain.block(height), chain.receipts(height))


async def _fetching() -> Row:
    taken: dict[str, list[float]] = {family.name: [] for family in FAMILIES}
    with room() as place:
        for turn in range(3):
            for family in FAMILIES[:: -1 if turn % 2 else 1]:
                async with _devnode(family, place.folder / "cache") as url:
                    taken[family.name].append(await _fetch(place, family, url))
    evm, tron = (FETCHED / median(taken[family.name]) for family in FAMILIES)
    return Row(
        "TRON, fetch from the devnode to SQLite, of EVM",
        f"{per_second(tron)} of {per_second(evm)} blocks",
        median_ratio(taken[EVM.name], taken[TRON.name]),
        at_least(0.15),
    )


async def _fetch(place: Room, family: Family, url: str) -> float:
    """Seconds from the first request to the last durable batch."""
    result = await gapless.fetch(
        family.networks[-1].name,
        f"1:{FETCHED}",
        rpc=[url],
        to=str(place.path(".db")),
        ledger=f"sqlite:///{place.path('.ledger.db')}",
    )
    assert (result.state, result.fetched) == (State.SUCCEEDED, FETCHED)
    return result.seconds


@asynccontextmanager
async def _devnode(family: Family, cache: Path) -> AsyncIterator[str]:
    blocks = str(FETCHED + FINALITY_DEPTH)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gapless", "devnode", "--family", family.name),
        *("--blocks", blocks, "--txs", "5", "--port", "0", "--cache", str(cache)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    try:
        yield (await process.stdout.readline()).decode().split()[-1]
    finally:
        process.send_signal(signal.SIGINT)
        await process.wait()
