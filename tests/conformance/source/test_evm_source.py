"""An EVM source returns every requested block, from any kind of node."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, cast

import msgspec
import pytest
from msgspec import Raw

from gapless.chains.evm.decode.logs import decode_range_logs
from gapless.chains.evm.decode.structs import (
    parse_block,
    parse_light_block,
    parse_logs,
    parse_receipts,
)
from gapless.chains.evm.source import MOST_BYTES, EvmSource
from gapless.core.errors import BadAnswer
from gapless.core.ranges import Span
from gapless.devnode import Chain, DevNode, Limits, replayed
from gapless.devnode.wire import HttpRequest, Reply
from gapless.providers import Answers, Call, Pool, Refused
from gapless.providers.provider_errors import Reaction
from gapless.system import SYSTEM
from tests.conformance.source.sources import assert_true, source_of
from tests.evm import evm_network
from tests.unit.devnode.asking import DATA, needs_data

NO_BLOCK_RECEIPTS = frozenset({"eth_getBlockReceipts"})
ONLY_LOGS = NO_BLOCK_RECEIPTS | {"eth_getTransactionReceipt"}
SPAN = Span(0, 60)


@pytest.mark.parametrize(
    "limits",
    [
        Limits(),
        Limits(missing=NO_BLOCK_RECEIPTS),
        Limits(max_batch=3, missing=NO_BLOCK_RECEIPTS),
        Limits(max_batch=1),
    ],
    ids=["by block", "by transaction", "by transaction in small batches", "without batches"],
)
@pytest.mark.parametrize("faults", ["", "null=0.02,omit=0.1,500=0.05,shuffle=0.2"])
async def test_blocks_with_receipts(chain: Chain, limits: Limits, faults: str) -> None:
    async with source_of(DevNode(chain, limits=limits, faults=faults)) as source:
        assert_true(chain, SPAN, await source.fetch(SPAN))


async def test_light_blocks(chain: Chain) -> None:
    async with source_of(DevNode(chain), receipts=False) as source:
        blocks = await source.fetch(SPAN)
        for height, each in zip(range(61), blocks, strict=True):
            assert (each.height, each.receipts, each.logs) == (height, None, None)
            assert parse_light_block(each.block).hash == chain.hash(height)


async def test_an_endpoint_with_a_better_method_is_preferred(chain: Chain, other: Chain) -> None:
    poor, rich = DevNode(chain, limits=Limits(missing=NO_BLOCK_RECEIPTS)), DevNode(other)
    async with source_of(poor, rich) as source:
        for _ in range(3):
            assert_true(chain, SPAN, await source.fetch(SPAN))
        assert "eth_getTransactionReceipt" not in poor.calls + rich.calls


async def test_a_pruned_endpoint_does_not_hide_a_limited_one(chain: Chain, other: Chain) -> None:
    """No endpoint has the receipts by block this far back; by transaction, one does."""
    poor = DevNode(chain, limits=Limits(missing=NO_BLOCK_RECEIPTS))
    pruned = DevNode(other, limits=Limits(pruned_below=100))
    async with source_of(poor, pruned) as source:
        assert_true(chain, SPAN, await source.fetch(SPAN))


# Logs by range


@pytest.mark.parametrize("words", ["geth", "alchemy", "infura", "quicknode", "erigon", "ankr"])
@pytest.mark.parametrize(
    "limit", [{}, {"max_range": 7}, {"max_results": 40}], ids=["", "range", "results"]
)
async def test_logs_by_range_if_there_are_no_receipts(
    chain: Chain, words: str, limit: dict[str, int]
) -> None:
    limits = Limits(missing=ONLY_LOGS, words=words, **limit)  # type: ignore[arg-type]
    node = DevNode(chain, limits=limits)
    async with source_of(node) as source:
        blocks = await source.fetch(SPAN)
        headers = [parse_block(each.block) for each in blocks]
        logs = [log for each in blocks for log in parse_logs(each.logs or b"")]
        assert all(each.receipts is None for each in blocks)
        found = decode_range_logs(headers, logs, chain.chain_id)
        receipts = [each for at in range(61) for each in parse_receipts(chain.receipts(at))]
        assert found.num_rows == sum(len(each.logs) for each in receipts) > 0
        asked = node.calls["eth_getLogs"]
        assert asked <= 61 if limit else asked == 1


async def test_a_suggestion_that_does_not_help_is_ignored(chain: Chain) -> None:
    """A provider suggests the very range that failed: halving continues anyway."""
    limits = Limits(missing=ONLY_LOGS, words="alchemy", max_results=30)
    async with source_of(DevNode(chain, limits=limits)) as source:
        assert len(await source.fetch(Span(1, 40))) == 40


async def test_one_block_with_more_logs_than_allowed(chain: Chain) -> None:
    limits = Limits(missing=ONLY_LOGS, max_results=1)
    async with source_of(DevNode(chain, limits=limits)) as source:
        with pytest.raises(Refused) as refused:
            await source.fetch(SPAN)
        assert refused.value.refusal.reaction is Reaction.SMALLER_RANGE


async def test_logs_get_a_second_opinion_if_there_is_a_second_endpoint(
    chain: Chain, other: Chain
) -> None:
    limits = Limits(missing=ONLY_LOGS)
    first, second = DevNode(chain, limits=limits), DevNode(other, limits=limits)
    async with source_of(first, second, second_opinions=True) as source:
        for each in await source.fetch(SPAN):
            assert each.other_logs is not None
            assert bytes(each.other_logs) == bytes(each.logs or b"")
        assert (first.calls["eth_getLogs"], second.calls["eth_getLogs"]) == (1, 1)


@pytest.mark.parametrize(
    "limits",
    [Limits(missing=ONLY_LOGS | {"eth_getLogs"}), Limits(missing=ONLY_LOGS, pruned_below=100)],
    ids=["no method", "no history"],
)
async def test_no_second_opinion_if_no_other_endpoint_can_give_one(
    chain: Chain, other: Chain, limits: Limits
) -> None:
    alone, unable = DevNode(chain, limits=Limits(missing=ONLY_LOGS)), DevNode(other, limits=limits)
    async with source_of(alone, unable, second_opinions=True) as source:
        blocks = await source.fetch(SPAN)
        assert all(each.logs is not None and each.other_logs is None for each in blocks)


# Nulls


@pytest.mark.parametrize(
    "limits",
    [Limits(), Limits(missing=NO_BLOCK_RECEIPTS)],
    ids=["by block", "by transaction"],
)
async def test_null_for_a_third_of_all_calls(chain: Chain, limits: Limits) -> None:
    """As from a balancer with three nodes, one of which has no history."""
    node = DevNode(chain, limits=limits, faults="null=0.33")
    async with source_of(node) as source:
        await source.head()
        for first in range(0, 120, 10):
            span = Span(first, first + 9)
            assert_true(chain, span, await source.fetch(span))
        needed = sum(1 + len(parse_receipts(chain.receipts(at))) for at in range(120))
        assert node.calls.total() < 4 * (240 if limits == Limits() else needed)


async def test_no_answer_for_a_third_of_all_calls(chain: Chain) -> None:
    chance = Random(3)

    class Dropping(DevNode):
        def respond(self, request: HttpRequest) -> Reply:
            reply = super().respond(request)
            if request.method != "POST" or not reply.body.startswith(b"["):
                return reply
            answers = msgspec.json.decode(reply.body, type=list[msgspec.Raw])
            return Reply(msgspec.json.encode([it for it in answers if chance.random() > 1 / 3]))

    node = Dropping(chain)
    async with source_of(node) as source:
        assert_true(chain, SPAN, await source.fetch(SPAN))
        assert node.calls.total() < 4 * 122


# The head


async def test_a_finalized_block_without_a_number_is_refused() -> None:
    class Careless:
        names, system = frozenset({"a"}), SYSTEM

        async def ask(self, calls: Sequence[Call], **_: Any) -> Answers:
            return Answers((Raw(b'{"hash":"0x00","number":"soon"}'),), "a")

    source = EvmSource(cast(Pool, Careless()), evm_network("custom"), receipts=False)
    with pytest.raises(BadAnswer, match="endpoint `a` reports no number of its `finalized` block"):
        await source.finalized()


# How much at once


async def test_large_blocks_make_small_units(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gapless.chains.evm.source.MOST_BYTES", 50_000)
    size = sum(len(chain.block(at)) + len(chain.receipts(at)) for at in range(1, 11)) / 10
    async with source_of(DevNode(chain)) as source:
        await source.fetch(Span(1, 10))
        assert source.unit == pytest.approx(50_000 / size, rel=0.5)
        assert source.unit < 10


@needs_data
@pytest.mark.parametrize("missing", [frozenset[str](), NO_BLOCK_RECEIPTS])
async def test_a_recorded_chain_with_a_giant_block(missing: frozenset[str]) -> None:
    """Its block 2 has about 21 MB of receipts: more than one answer should contain."""
    chain = replayed(DATA / "chains/execution-apis-54")
    async with source_of(DevNode(chain, limits=Limits(missing=missing)), seconds=20) as source:
        blocks = await source.fetch(Span(0, chain.head))
        for each in blocks:
            assert bytes(each.block) == chain.block(each.height)
            assert each.receipts is not None
            assert _receipts(bytes(each.receipts)) == _receipts(chain.receipts(each.height))
        assert source.unit * sum(each.size for each in blocks) / len(blocks) <= MOST_BYTES


def _receipts(raw: bytes) -> list[bytes]:
    return [bytes(each) for each in msgspec.json.decode(raw, type=list[msgspec.Raw])]
