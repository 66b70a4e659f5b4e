"""The known hashes of networks equal those of their recorded blocks, computed again."""

from __future__ import annotations

import pytest

from gapless.chains import Level
from gapless.chains.evm.check_names import Check
from gapless.chains.evm.checkpoints import CHECKPOINTS
from tests.data.examination import check
from tests.data.recorded import RealBlock, real_blocks, with_blocks

pytestmark = with_blocks

KNOWN = {(chain, it.height): it.hash for chain, found in CHECKPOINTS.items() for it in found}
RECORDED = [it for it in real_blocks() if (it.chain_id, it.height) in KNOWN]


@pytest.mark.parametrize("it", RECORDED, ids=str)
def test_a_known_hash_equals_that_of_the_recorded_block(it: RealBlock) -> None:
    assert it.block["hash"] == f"0x{KNOWN[it.chain_id, it.height].hex()}"
    assert Check.HEADER_HASH in check(it, Level.AUTO).proven


def test_every_hash_except_of_a_genesis_is_compared_with_a_recorded_block() -> None:
    recorded = {(it.chain_id, it.height) for it in RECORDED}
    assert [place for place in KNOWN.keys() - recorded if place[1]] == []
