"""What a sink contains, and what the chain says it should contain."""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa

from gapless.chains.evm.decode.structs import parse_block, parse_receipts
from gapless.chains.evm.decode.tables import decode_blocks
from gapless.chains.evm.family import EVM
from gapless.chains.family import Family, Wanted
from gapless.chains.opening import open_sink
from gapless.chains.tron.levels import needs_infos
from gapless.chains.tron.raw_block import RawTronBlock
from gapless.core.ranges import Span
from gapless.devnode import Chain
from gapless.sinks import Access
from tests.evm import with_transfers

HEAD = 300
LAST = HEAD - 64  # the last final block
Contents = dict[str, pa.Table]


async def contents(
    target: str, chain_id: int = 1337, family: Family = EVM, *, derived: bool = False
) -> Contents:
    """All rows of a sink, by table; also of derived tables, if a test requests them."""
    async with await open_sink(target, Access.READ) as sink:
        return {
            table.name: (await sink.read(table, chain_id, Span(0, 10**6))).combine_chunks()
            for table in family.tables
            if derived or not table.derived_from
        }


def truth_of(
    chain: Chain, span: Span, family: Family, datasets: Collection[str] | None = None
) -> Contents:
    """The same as `truth`, for a chain of any family, and for some of its tables."""
    names = frozenset(
        table.name
        for table in family.tables
        if (not table.derived_from if datasets is None else table.name in datasets)
    )
    if family is EVM:
        found = truth(chain, span, with_receipts="logs" in names)
        return {**with_transfers(found)} if "transfers" in names else found
    heights = range(span.first, span.last + 1)
    infos = needs_infos(names)
    raws = [
        RawTronBlock(at, "", chain.block(at), chain.receipts(at) if infos else None)
        for at in heights
    ]
    wanted = Wanted(family.networks[-1], chain.chain_id, frozenset(), names)
    tables = family.read(raws, wanted, (), whole=True).tables
    return {name: tables[name].combine_chunks() for name in tables}


def truth(chain: Chain, span: Span, *, with_receipts: bool = True) -> Contents:
    """The rows of a span from the chain itself, without a node, a pipeline or a sink."""
    heights = range(span.first, span.last + 1)
    blocks = [parse_block(chain.block(height)) for height in heights]
    receipts = [parse_receipts(chain.receipts(height)) for height in heights]
    tables = decode_blocks(blocks, receipts if with_receipts else None, chain.chain_id)
    return {name: tables[name].combine_chunks() for name in tables}
