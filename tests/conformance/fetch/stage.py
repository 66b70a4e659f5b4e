"""What a sink contains, and what the chain says it should contain."""

from __future__ import annotations

import pyarrow as pa

from gapless.chains.evm.decode.structs import parse_block, parse_receipts
from gapless.chains.evm.decode.tables import decode_blocks
from gapless.chains.evm.tables import TABLES
from gapless.chains.opening import open_sink
from gapless.core.ranges import Span
from gapless.devnode import Chain
from gapless.sinks import Access

HEAD = 300
LAST = HEAD - 64  # the last final block
Contents = dict[str, pa.Table]


async def contents(target: str, chain_id: int = 1337) -> Contents:
    """All rows of a sink, by table."""
    async with await open_sink(target, Access.READ) as sink:
        return {
            table.name: (await sink.read(table, chain_id, Span(0, 10**6))).combine_chunks()
            for table in TABLES
        }


def truth(chain: Chain, span: Span, *, with_receipts: bool = True) -> Contents:
    """The rows of a span from the chain itself, without a node, a pipeline or a sink."""
    heights = range(span.first, span.last + 1)
    blocks = [parse_block(chain.block(height)) for height in heights]
    receipts = [parse_receipts(chain.receipts(height)) for height in heights]
    tables = decode_blocks(blocks, receipts if with_receipts else None, chain.chain_id)
    return {name: tables[name].combine_chunks() for name in tables}
