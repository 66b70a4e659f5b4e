"""A source on nodes, and what its blocks are compared with."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from gapless.chains import Level
from gapless.chains.evm.checks.check import check_block
from gapless.chains.evm.decode.structs import parse_block, parse_receipts
from gapless.chains.evm.queries import QUERIES
from gapless.chains.evm.raw_block import EvmRawBlock
from gapless.chains.evm.source import EvmSource
from gapless.core.ranges import Span
from gapless.devnode import Chain, DevNode
from gapless.providers import EndpointSpec, Pool, Timeouts
from tests.evm import checks_of, evm_network


@asynccontextmanager
async def source_of(
    *nodes: DevNode, receipts: bool = True, second_opinions: bool = False, seconds: float = 0.5
) -> AsyncIterator[EvmSource]:
    """A source on these nodes, whose endpoints are a, b and c."""
    async with AsyncExitStack() as stack:
        for node in nodes:
            await stack.enter_async_context(node)
        specs = [EndpointSpec(name, node.url) for name, node in zip("abc", nodes, strict=False)]
        timeouts = Timeouts(connect=max(1.0, seconds), read=seconds)
        pool = Pool(specs, QUERIES, patience=max(5.0, 3 * seconds), timeouts=timeouts)
        await stack.enter_async_context(pool)
        network = evm_network(nodes[0].chain.chain_id)
        yield EvmSource(pool, network, receipts=receipts, second_opinions=second_opinions)


def assert_true(chain: Chain, span: Span, blocks: Sequence[EvmRawBlock]) -> None:
    """Every block of the span, in order, proven together with its receipts."""
    assert [each.height for each in blocks] == [*range(span.first, span.last + 1)]
    network = evm_network(chain.chain_id)
    for each in blocks:
        assert bytes(each.block) == chain.block(each.height)
        assert each.receipts is not None
        assert each.logs is None
        block, receipts = parse_block(each.block), parse_receipts(each.receipts)
        proof = check_block(block, receipts, network, checks_of(Level.ROOTS), each.height)
        assert proof.unproven == frozenset()
