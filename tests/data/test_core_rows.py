"""Stored rows of real blocks prove the same with the compiled core as with the reference."""

from __future__ import annotations

import pytest

from gapless.chains import Level
from gapless.chains.evm.reading import read
from gapless.schema.arrow import Tables
from tests.data.recorded import RealBlock, real_blocks, real_chain, with_blocks, with_chains
from tests.evm import checks_of, evm_network
from tests.evm_answers import raw_block, real_answer, wanted_of
from tests.evm_core import with_core
from tests.evm_rows import altered, assert_examined_alike

pytestmark = with_core
FEW_ROWS = 300  # rows of a block that is altered in every column


@with_blocks
@pytest.mark.parametrize("it", real_blocks(), ids=str)
def test_real_blocks(it: RealBlock) -> None:
    raw, wanted = real_answer(it)
    network = evm_network(wanted.network.name)
    reading = read([raw], wanted, {it.height}, whole=True)
    if not reading.blocks:
        return  # a defective answer, of which nothing is stored
    tables = Tables(reading.tables)
    for level in Level:
        found = assert_examined_alike(tables, network, it.chain_id, checks_of(level))
        assert raw.receipts is None or not found.flaws
    if sum(rows.num_rows for rows in tables.values()) < FEW_ROWS:
        for _, changed in altered(tables, seed=it.height):
            assert_examined_alike(changed, network, it.chain_id, checks_of(Level.ROOTS))


@with_chains
@pytest.mark.parametrize("name", ["execution-apis-54", "geth-ethtest-600"])
def test_real_chains(name: str) -> None:
    raws = [raw_block(at, *answers) for at, answers in enumerate(real_chain(name))]
    wanted = wanted_of("custom", 1)
    tables = Tables(read(raws, wanted, (), whole=False).tables)
    found = assert_examined_alike(tables, evm_network("custom"), 1, checks_of(Level.SENDERS))
    assert not found.flaws
