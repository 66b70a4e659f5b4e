"""A saved backfill of blocks keeps the meaning it had when it was saved."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gapless.blocks.holding import suffices
from gapless.blocks.spec import BlocksSpec, known_hashes
from gapless.chains import Level, find_network
from gapless.chains.evm.check_names import BASIC, Check
from gapless.core.anchors import Anchor
from gapless.core.errors import UsageError
from gapless.core.ranges import Span
from tests.evm import checks_of

SAVED = {
    "network": "optimism",
    "chain_id": 10,
    "endpoints": ["here"],
    "sink": "chain.db",
    "sink_id": "id",
    "datasets": ["blocks", "transactions", "logs", "withdrawals"],
    "verify": "auto",
    "batch_size": 100,
}
BEDROCK = 105_235_063
OF_ROLLUPS = checks_of(Level.AUTO) - {Check.WITHDRAWALS_ROOT}


def saved(checks: frozenset[Check], **fields: Any) -> BlocksSpec:
    return msgspec.convert({**SAVED, "checks": sorted(checks), **fields}, BlocksSpec)


def test_its_checks_are_those_of_its_level_when_it_was_saved() -> None:
    spec = saved(frozenset({Check.HEIGHT, Check.LINK}))
    assert spec.wanted.checks == {Check.HEIGHT, Check.LINK}
    assert suffices(frozenset({"height", "link"}), Span(BEDROCK, BEDROCK), spec)


@pytest.mark.parametrize(
    ("made", "span", "enough"),
    [
        (OF_ROLLUPS, Span(BEDROCK, BEDROCK + 9), True),
        (BASIC, Span(0, BEDROCK - 1), True),
        (BASIC, Span(0, BEDROCK), False),
        (OF_ROLLUPS - {Check.RECEIPTS_ROOT}, Span(BEDROCK, BEDROCK), False),
    ],
)
def test_no_block_requires_a_proof_that_its_network_does_not_offer(
    made: frozenset[Check], span: Span, enough: bool
) -> None:
    assert suffices(frozenset[str](made), span, saved(checks_of(Level.AUTO))) is enough


def test_two_hashes_for_one_height_are_refused() -> None:
    ethereum = find_network("ethereum")
    genesis = ethereum.anchors[0]
    assert known_hashes(ethereum, [genesis])[0] == genesis.hash
    for anchors in ([Anchor(0, b"\x07" * 32)], [Anchor(5, b"\x07" * 32), Anchor(5, b"\x08" * 32)]):
        with pytest.raises(UsageError, match="contradict each other") as refused:
            known_hashes(ethereum, anchors)
        assert refused.value.hint
