"""A real node: anvil, whose chain grows and reorganises while it is read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import msgspec
import pytest

import gapless
from gapless.chains.evm.decode.lossless import keep_block, keep_receipts
from gapless.chains.evm.decode.tables import decode_blocks
from gapless.chains.evm.queries import QUERIES
from gapless.core.backfill import State
from gapless.core.ranges import RangeSet, Span
from gapless.providers import EndpointSpec, Timeouts, heads
from gapless.providers.http import Http
from tests.anvil import Anvil, anvil, needs_anvil
from tests.conformance.fetch.stage import Contents, contents
from tests.conformance.sink.conftest import KINDS
from tests.waiting import eventually

pytestmark = needs_anvil
CHAIN_ID = 31337


@pytest.fixture
async def node() -> AsyncIterator[Anvil]:
    async with anvil() as running:
        yield running


@pytest.fixture(params=KINDS)
def target(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"{tmp_path}/{KINDS[request.param]}"


async def fetched(node: Anvil, heights: str, target: str, **options: object) -> gapless.FetchResult:
    ledger = f"sqlite:///{Path(target).parent}/ledger.db"
    return await gapless.fetch(
        "custom",
        heights,
        rpc=[node.url],
        to=target,
        ledger=ledger,
        **options,  # type: ignore[arg-type]
    )


async def truth(node: Anvil, span: Span) -> Contents:
    """The node's current answer, block by block."""
    blocks, receipts = [], []
    for height in range(span.first, span.last + 1):
        block = await node.call("eth_getBlockByNumber", hex(height), True)
        found = await node.call("eth_getBlockReceipts", hex(height))
        blocks.append(keep_block(msgspec.json.encode(block)))
        receipts.append(keep_receipts(msgspec.json.encode(found), blocks[-1]))
    tables = decode_blocks(blocks, receipts, CHAIN_ID)
    return {name: tables[name].combine_chunks() for name in tables}


async def test_a_chain_is_fetched_and_proven_and_then_extended(node: Anvil, target: str) -> None:
    await node.grow(40)
    result = await fetched(node, ":latest", target, confirmations=0, verify="roots")
    assert (result.state, result.gaps, result.not_proven) == (
        State.SUCCEEDED,
        RangeSet(),
        frozenset(),
    )
    assert result.rows["logs"] > 10
    assert await contents(target, CHAIN_ID) == await truth(node, Span(0, 40))
    await node.grow(10)
    assert (await fetched(node, "0:50", target, confirmations=0, verify="roots")).fetched == 10
    assert await contents(target, CHAIN_ID) == await truth(node, Span(0, 50))


async def test_finality_is_by_depth(node: Anvil, target: str) -> None:
    """Its `finalized` block is always the genesis, which says nothing."""
    await node.call("anvil_mine", hex(100))
    result = await fetched(node, ":latest", target)
    assert result.span == (0, 36)


@pytest.mark.parametrize("depth", [3, 25])
async def test_a_reorganisation_during_the_run(node: Anvil, target: str, depth: int) -> None:
    await node.grow(60)
    options = {"confirmations": 0, "batch_size": 10, "chunk_size": 20, "rps": 60}
    running = asyncio.create_task(fetched(node, "0:60", target, **options))
    await asyncio.sleep(0.8)  # in the middle of it: 122 calls take two seconds
    assert not running.done()
    await node.call("anvil_reorg", depth, [])
    result = await running
    assert (result.state, result.gaps) == (State.SUCCEEDED, RangeSet())
    again = await fetched(node, "0:60", target, **options)
    assert again.fetched == 0
    assert await contents(target, CHAIN_ID) == await truth(node, Span(0, 60))


async def test_a_reorganisation_between_two_fetches(node: Anvil, target: str) -> None:
    await node.grow(50)
    await fetched(node, "0:50", target, confirmations=0)
    await node.call("anvil_reorg", 20, [])
    await node.grow(10)
    result = await fetched(node, "0:60", target, confirmations=0)
    assert (result.state, result.gaps) == (State.SUCCEEDED, RangeSet())
    assert await contents(target, CHAIN_ID) == await truth(node, Span(0, 60))


async def test_a_subscription_to_new_heads(node: Anvil) -> None:
    spec = EndpointSpec("anvil", node.url, ws=node.url.replace("http", "ws", 1))
    async with (
        Http(Timeouts()) as http,
        aclosing(heads(spec, QUERIES, http, silence=5)) as found,
    ):
        first = asyncio.ensure_future(anext(found))

        async def mined() -> bool:
            await node.call("anvil_mine", 1)
            return first.done()

        await eventually(mined)
        await node.call("anvil_mine", 5)
        head, seen = await node.head(), [await first]
        while seen[-1].height < head:
            seen.append(await anext(found))
        assert [each.height for each in seen] == list(range(seen[0].height, head + 1))
        before = len(seen)
        await node.call("anvil_reorg", 3, [])
        await node.call("anvil_mine", 1)
        while seen[-1].height <= head:
            seen.append(await anext(found))
    assert [each.height for each in seen[before:]] == list(range(head - 2, head + 2))
    for height, found_hash in {each.height: each.hash for each in seen}.items():
        block = await node.call("eth_getBlockByNumber", hex(height), False)
        assert block["hash"] == f"0x{found_hash.hex()}"
