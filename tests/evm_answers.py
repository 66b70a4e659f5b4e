"""Raw answers of EVM nodes to read in tests: of simulated chains, and of real blocks."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from functools import cache
from pathlib import Path
from typing import TypeAlias

import pytest
from msgspec import Raw

from gapless.chains import Level
from gapless.chains.evm.family import EVM
from gapless.chains.evm.raw_block import EvmRawBlock
from gapless.chains.family import Wanted
from gapless.devnode import Parameters, simulated
from tests.data.recorded import RealBlock, real_block, real_blocks
from tests.evm import DATASETS, evm_network

Answers: TypeAlias = tuple[list[EvmRawBlock], Wanted]

SMALL = (
    *(("ethereum", 1_000_000), ("ethereum", 15_537_393), ("ethereum-holesky", 70_951)),
    *(("optimism", 105_237_730), ("polygon", 23_887_160), ("cronos", 10_000)),
)
"""Small real blocks, of several eras and chains."""


def raw_block(height: int, block: bytes, receipts: bytes | None) -> EvmRawBlock:
    return EvmRawBlock(
        height, Raw(block), None if receipts is None else Raw(receipts), None, "endpoint"
    )


def wanted_of(
    network: str,
    chain_id: int,
    level: Level = Level.ROOTS,
    datasets: Collection[str] = DATASETS,
) -> Wanted:
    checks = EVM.level(level, datasets)
    return Wanted(evm_network(network), chain_id, checks, frozenset(datasets))


def simulated_answers(parameters: Parameters, heights: Iterable[int], cache: Path) -> Answers:
    """The answers for some blocks of a simulated chain."""
    chain = simulated(parameters, cache)
    raws = [raw_block(at, chain.block(at), chain.receipts(at)) for at in heights]
    return raws, wanted_of("custom", chain.chain_id)


def light(raw: EvmRawBlock) -> EvmRawBlock:
    """The same block as a node returns it without transactions: with their hashes only."""
    block = json.loads(bytes(raw.block))
    block["transactions"] = [it["hash"] for it in block["transactions"]]
    return raw_block(raw.height, json.dumps(block).encode(), None)


def real_answer(it: RealBlock) -> tuple[EvmRawBlock, Wanted]:
    """The answers for a real block, in compact notation."""
    block, receipts = (
        None if part is None else json.dumps(part, separators=(",", ":")).encode()
        for part in (it.block, it.receipts)
    )
    assert block is not None
    network = it.chain.removeprefix("ethereum-")
    return raw_block(it.height, block, receipts), wanted_of(network, it.chain_id)


@cache
def small_real_answer(at: int) -> tuple[EvmRawBlock, Wanted]:
    """One of the small real blocks, if they are recorded here."""
    if not real_blocks():
        pytest.skip("there are no recorded blocks")
    return real_answer(real_block(*SMALL[at]))
