"""Units of blocks that must have a given hash.

Above finality, a block is fetched because somebody has seen its hash. An answer with another hash
is not stored: the endpoint is behind or ahead of a reorganisation, and whoever follows the chain
decides which. The other endpoints are asked at once, because one of them has the block.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping

from gapless.core.errors import TransientError
from gapless.core.ranges import Span
from gapless.pipeline.block_reader import BlockReader
from gapless.pipeline.unit import Unit
from gapless.schema import Table

_PATIENCE = 5.0  # seconds to wait for another endpoint


class PinnedUnits:
    """Units whose blocks have the expected hashes."""

    def __init__(self, reader: BlockReader, expected: Mapping[int, bytes]) -> None:
        self._reader, self._expected = reader, expected
        self.chain_id: int = reader.chain_id
        self.reorg_depth: int = reader.reorg_depth
        self.anchor: Table = reader.anchor

    @property
    def unit(self) -> int:
        return self._reader.unit

    async def fetch(self, span: Span, edges: Collection[int] = ()) -> Unit:
        """Fetch the blocks of a span; raise a `TransientError` if one is not the expected one."""
        asked: frozenset[str] = frozenset()
        unit = await self._reader.fetch(span, edges)
        while (difference := self._difference(unit)) and not unit.endpoints <= asked:
            asked |= unit.endpoints
            try:
                async with asyncio.timeout(_PATIENCE):
                    unit = await self._reader.fetch(span, edges, asked)
            except TimeoutError:
                break
        if difference:
            raise TransientError(difference)
        return unit

    async def hashes(self, span: Span) -> dict[int, bytes]:
        return await self._reader.hashes(span)

    def _difference(self, unit: Unit) -> str | None:
        """The first block that is not the expected one, in words."""
        for height, found in enumerate(unit.hashes, unit.span.first):
            wanted = self._expected.get(height, found)
            if found != wanted:
                return f"block {height:,} is 0x{found.hex()} at the endpoint, not 0x{wanted.hex()}"
        return None
