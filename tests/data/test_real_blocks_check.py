"""Every real block proves as much as was recorded for it, and any loss is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from gapless.chains import Level
from gapless.chains.evm.check_names import Check
from gapless.chains.evm.checks.check import check_block
from gapless.chains.evm.codec.bloom import bloom_of_logs
from gapless.chains.evm.decode.structs import (
    LightBlock,
    parse_block,
    parse_light_block,
    parse_receipts,
)
from gapless.chains.evm.networks import CUSTOM
from gapless.core.errors import BadBlock
from gapless.core.proof import Proof
from tests.data.examination import check, network, parsed, parsed_receipts
from tests.data.recorded import (
    CHAINS,
    RealBlock,
    real_block,
    real_blocks,
    real_chain,
    with_blocks,
    with_chains,
)
from tests.evm import checks_of

pytestmark = with_blocks

DEFECTIVE = [("ethereum", 3_918_649), ("ethereum", 13_367_153)]
# What is proven here beyond the records: forms of headers, an Arbitrum type, state-sync.
BEYOND = {
    "arbitrum-sepolia-185232422": {Check.TRANSACTIONS_ROOT},
    "gnosis-10000000": {Check.HEADER_HASH},
    "polygon-10000000": {Check.TRANSACTIONS_ROOT, Check.RECEIPTS_ROOT},
    "tempo-17708868": {Check.HEADER_HASH},
    "tempo-moderato-6541": {Check.HEADER_HASH},
    "tempo-moderato-6000178": {Check.HEADER_HASH},
}
RECORDED = {
    Check.HEADER_HASH: "hash",
    Check.TRANSACTIONS_ROOT: "txRoot",
    Check.RECEIPTS_ROOT: "rcptRoot",
}


def honest() -> list[RealBlock]:
    return [it for it in real_blocks() if (it.chain, it.height) not in DEFECTIVE]


def rooted() -> list[RealBlock]:
    """Blocks whose receipts are proven at `auto`."""
    return [it for it in honest() if it.tier in "AB"]


@pytest.mark.parametrize("it", honest(), ids=str)
def test_a_real_block_proves_what_was_recorded_for_it(it: RealBlock) -> None:
    proof = check(it, Level.ROOTS)
    recorded = {check for check, key in RECORDED.items() if it.verified.get(key) is True}
    assert proof.proven & RECORDED.keys() == recorded | BEYOND.get(str(it), set())
    assert not proof.proven & proof.unproven


@pytest.mark.parametrize("it", honest(), ids=str)
def test_a_real_block_passes_every_check_that_its_network_supports(it: RealBlock) -> None:
    for level in Level:
        checks = checks_of(level, receipts=it.receipts is not None)
        wanted = network(it).required(checks, it.height)
        lacking = wanted - check(it, level).proven - {Check.LINK}
        unknown_type = it.chain.startswith(("tempo", "stable"))
        assert lacking <= ({Check.TRANSACTIONS_ROOT} if unknown_type else set())


@pytest.mark.parametrize("level", [Level.LINKS, Level.AUTO, Level.ROOTS])
@pytest.mark.parametrize(("chain", "height"), DEFECTIVE)
def test_a_defective_block_is_refused(chain: str, height: int, level: Level) -> None:
    with pytest.raises(BadBlock, match=f"block {height:,} of `{chain}` fails") as refused:
        check(real_block(chain, height), level)
    assert refused.value.height == height
    assert refused.value.hint


@pytest.mark.parametrize("it", rooted(), ids=str)
def test_light_blocks_prove_header_and_receipts_too(it: RealBlock) -> None:
    raw = it.block
    raw["transactions"] = [each["hash"] for each in raw["transactions"]]
    block: LightBlock = parse_light_block(msgspec.json.encode(raw))
    checks, receipts = checks_of(Level.ROOTS), parsed_receipts(it.receipts)
    proof = check_block(block, receipts, network(it), checks, it.height)
    assert proof.proven >= {Check.HEADER_HASH, Check.RECEIPTS_ROOT, Check.COUNTS, Check.PLACES}
    assert proof.unproven >= {Check.TRANSACTIONS_ROOT, Check.DERIVED}


def without_last_log(receipts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    last = next(each for each in reversed(receipts) if each["logs"])
    last["logs"].pop()
    return receipts


def without_last_log_and_with_its_bloom(receipts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    last = next(each for each in reversed(receipts) if each["logs"])
    last["logs"].pop()
    last["logsBloom"] = bloom_of_logs(parse_receipts(msgspec.json.encode([last]))[0].logs)
    return receipts


def without_last(receipts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return receipts[:-1]


def without_any(receipts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return []


def in_another_order(receipts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [receipts[-1], *receipts[1:-1], receipts[0]]


LOSSES: list[Callable[[list[dict[str, Any]]], list[dict[str, Any]]]] = [
    without_last_log,
    without_last_log_and_with_its_bloom,
    without_last,
    without_any,
    in_another_order,
]


@pytest.mark.parametrize("lose", LOSSES, ids=lambda lose: lose.__name__)
@pytest.mark.parametrize("it", [it for it in rooted() if it.logs], ids=str)
def test_a_loss_among_receipts_is_refused(it: RealBlock, lose: Callable[..., Any]) -> None:
    receipts = it.receipts
    assert receipts is not None
    if len(receipts) < 2 and lose is in_another_order:
        pytest.skip("a single receipt has only one order")
    if it.tier == "B" and "log" in lose.__name__:
        receipts[-1]["logs"] = []  # outside the roots: see the test of state-sync below
        receipts[-1]["logsBloom"] = "0x" + "00" * 256
    with pytest.raises(BadBlock):
        check(it, Level.AUTO, receipts=lose(receipts))


@pytest.mark.parametrize("it", [it for it in rooted() if it.logs], ids=str)
def test_a_loss_of_transactions_with_their_receipts_is_refused(it: RealBlock) -> None:
    block, receipts = it.block, it.receipts
    assert receipts is not None
    lost = 2 if it.tier == "B" else 1
    del block["transactions"][-lost:], receipts[-lost:]
    with pytest.raises(BadBlock):
        check(it, Level.AUTO, block, receipts)


@pytest.mark.parametrize("level", [Level.LINKS, Level.AUTO])
def test_a_block_other_than_the_requested_one_is_refused(level: Level) -> None:
    it = real_block("ethereum", 1_000_000)
    with pytest.raises(BadBlock, match="a different block than the one requested"):
        check_block(parsed(it.block), None, network(it), checks_of(level), it.height + 1)


def test_receipts_of_another_block_are_refused() -> None:
    it, other = real_block("ethereum", 1_000_000), real_block("ethereum", 1_755_635)
    with pytest.raises(BadBlock, match="a receipt names another block"):
        check(it, Level.LINKS, receipts=other.receipts)


def test_level_off_requires_nothing() -> None:
    for chain, height in DEFECTIVE:
        assert check(real_block(chain, height), Level.OFF) == Proof()


def test_what_polygons_roots_do_not_cover_is_never_called_proven() -> None:
    it = real_block("polygon", 10_000_000)
    receipts = it.receipts
    assert receipts is not None
    assert Check.STATE_SYNC in check(it, Level.AUTO).unproven
    receipts[-1]["logs"][0]["data"] = "0x"
    assert Check.STATE_SYNC in check(it, Level.AUTO, receipts=receipts).unproven
    receipts[-1]["logs"].pop()
    with pytest.raises(BadBlock, match="the logs of receipt 0x5 do not match its bloom"):
        check(it, Level.AUTO, receipts=receipts)


def test_a_node_without_old_state_roots_proves_less_and_is_not_refused() -> None:
    it = real_block("ethereum", 1_000_000)
    receipts = it.receipts
    assert receipts is not None
    for each in receipts:
        del each["root"]
        each["status"] = "0x1"
    proof = check(it, Level.ROOTS, receipts=receipts)
    assert Check.RECEIPTS_ROOT in proof.unproven
    assert proof.proven >= {Check.HEADER_HASH, Check.TRANSACTIONS_ROOT, Check.BLOOM, Check.GAS}


def test_blocks_together_prove_what_each_of_them_proves() -> None:
    whole = check(real_block("ethereum", 17_034_873), Level.ROOTS)
    bare = check(real_block("ethereum", 16_000_000), Level.ROOTS)
    assert (whole & bare).proven == bare.proven
    assert (whole & bare).unproven == bare.unproven > whole.unproven == frozenset()


@with_chains
@pytest.mark.parametrize("name", ["execution-apis-54", "geth-ethtest-600"])
def test_a_real_chain_is_proven_from_its_first_block_to_its_last(name: str) -> None:
    network, previous = CUSTOM, None
    for height, (raw, raw_receipts) in enumerate(real_chain(name)):
        block, receipts = parse_block(raw), parse_receipts(raw_receipts)
        proof = check_block(block, receipts, network, checks_of(Level.ROOTS), height)
        assert proof.unproven == frozenset()
        if previous is not None:
            assert block.parent_hash == previous
        previous = block.hash
    info = json.loads((CHAINS / name / "info.json").read_text())
    assert (previous, height) == (info["head"], info["head_number"])
