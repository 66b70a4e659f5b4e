"""Sources of each family on nodes, and what their blocks are compared with."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from gapless.chains import Level
from gapless.chains.evm.checks.check import check_block
from gapless.chains.evm.decode.structs import parse_block, parse_receipts
from gapless.chains.evm.family import EVM
from gapless.chains.evm.raw_block import EvmRawBlock
from gapless.chains.evm.source import EvmSource
from gapless.chains.family import Family, Source, Wanted
from gapless.chains.tron.family import TRON
from gapless.chains.tron.networks import TRON_CUSTOM
from gapless.core.ranges import Span
from gapless.devnode import Chain, DevNode
from gapless.providers import EndpointSpec, Pool, Timeouts
from tests.evm import checks_of, evm_network


@dataclass(frozen=True)
class Subject:
    """A family, and what its nodes call things."""

    family: Family
    block_method: str  # for one block
    receipts_method: str
    block_calls: int  # that a provider counts for 60 blocks with their receipts, at most
    finality_depth: int
    first_units: tuple[int, ...]  # blocks at once, while larger requests are answered

    def hash_of(self, shown: str) -> bytes:
        return bytes.fromhex(shown.removeprefix("0x"))

    def assert_true(self, chain: Chain, span: Span, blocks: Sequence[Any]) -> None:
        """Every block of the span, in order, as the chain has it, and good by all checks."""
        assert [each.height for each in blocks] == [*range(span.first, span.last + 1)]
        assert [bytes(each.block) for each in blocks] == [chain.block(it.height) for it in blocks]
        datasets = frozenset(table.name for table in self.family.tables)
        network = evm_network(chain.chain_id) if self.family is EVM else TRON_CUSTOM
        checks = self.family.level(Level.AUTO, datasets)
        wanted = Wanted(network, chain.chain_id, checks, datasets)
        reading = self.family.read(blocks, wanted, (), whole=False)
        assert not reading.refused
        assert len(reading.blocks) == span.size


SUBJECTS = {
    "evm": Subject(
        EVM, "eth_getBlockByNumber", "eth_getBlockReceipts", 120, 64, (10, 20, 40, 50, 50)
    ),
    "tron": Subject(
        TRON,
        "/wallet/getblockbynum",
        "/wallet/gettransactioninfobyblocknum",
        65,
        19,
        (20, 40, 80, 100, 100),
    ),
}


@asynccontextmanager
async def pool_on(*nodes: DevNode, family: Family, seconds: float = 0.5) -> AsyncIterator[Pool]:
    """A pool on these nodes, whose endpoints are a, b and c."""
    async with AsyncExitStack() as stack:
        for node in nodes:
            await stack.enter_async_context(node)
        specs = [EndpointSpec(name, node.url) for name, node in zip("abc", nodes, strict=False)]
        timeouts = Timeouts(connect=max(1.0, seconds), read=seconds)
        pool = Pool(specs, family.queries, patience=max(5.0, 3 * seconds), timeouts=timeouts)
        yield await stack.enter_async_context(pool)


@asynccontextmanager
async def family_source(
    subject: Subject,
    *nodes: DevNode,
    datasets: Collection[str] | None = None,
    checks: Collection[str] = (),
) -> AsyncIterator[Source]:
    """The source that a fetch of these tables, by default all, would use."""
    family, chain = subject.family, nodes[0].chain
    network = evm_network(chain.chain_id) if family is EVM else TRON_CUSTOM
    names = [table.name for table in family.tables] if datasets is None else datasets
    async with pool_on(*nodes, family=family) as pool:
        yield family.source(pool, network, names, checks)


@asynccontextmanager
async def source_of(
    *nodes: DevNode, receipts: bool = True, second_opinions: bool = False, seconds: float = 0.5
) -> AsyncIterator[EvmSource]:
    """An EVM source on these nodes, whose endpoints are a, b and c."""
    async with pool_on(*nodes, family=EVM, seconds=seconds) as pool:
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
