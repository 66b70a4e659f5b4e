"""The compiled core and the reference read every real block alike."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gapless.chains import Level
from gapless.chains.evm.checks.levels import needs_receipts
from gapless.chains.evm.family import EVM
from tests.data.recorded import (
    RealBlock,
    real_blocks,
    real_chain,
    with_blocks,
    with_chains,
)
from tests.evm import DATASETS
from tests.evm_answers import light, raw_block, real_answer, wanted_of
from tests.evm_core import assert_agree, with_core

pytestmark = with_core
SUBSETS = (DATASETS, (*DATASETS, "transfers"), ("blocks",), ("transfers",), ("logs", "withdrawals"))


@with_blocks
@pytest.mark.parametrize("it", real_blocks(), ids=str)
def test_real_blocks(it: RealBlock) -> None:
    raw, wanted = real_answer(it)
    for level in Level:
        for datasets in SUBSETS:
            asked = replace(wanted, datasets=frozenset(datasets), checks=EVM.level(level, datasets))
            given = raw if needs_receipts(datasets) else light(raw)
            assert_agree([given], asked, {it.height})


@with_blocks
def test_several_blocks_at_once() -> None:
    """Of several networks, so that some are refused, and with and without receipts."""
    some = [it for it in real_blocks() if it.chain in ("ethereum", "polygon")]
    some.sort(key=lambda it: it.height)
    raws = [real_answer(it)[0] for it in some]
    found = assert_agree(raws, wanted_of("ethereum", 1, Level.SENDERS), {raws[5].height})
    assert found.refused
    assert found.blocks


@with_chains
@pytest.mark.parametrize("name", ["execution-apis-54", "geth-ethtest-600"])
def test_real_chains(name: str) -> None:
    raws = [raw_block(at, *answers) for at, answers in enumerate(real_chain(name))]
    for level in Level:
        found = assert_agree(raws, wanted_of("custom", 1, level), {7, 99})
        assert not found.refused
