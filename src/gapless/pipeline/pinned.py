"""Units of blocks that must have a given hash.

Above finality, a block is fetched because somebody has seen its hash. An answer with another hash
is not stored: the endpoint is behind or ahead of a reorganisation, and whoever follows the chain
decides which.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from gapless.core.errors import TransientError
from gapless.core.ranges import Span
from gapless.pipeline.flow import Units
from gapless.pipeline.unit import Unit
from gapless.schema import Table


class PinnedUnits:
    """Units whose blocks have the expected hashes."""

    def __init__(self, units: Units, expected: Mapping[int, bytes]) -> None:
        self._units, self._expected = units, expected
        self.chain_id: int = units.chain_id
        self.reorg_depth: int = units.reorg_depth
        self.anchor: Table = units.anchor

    @property
    def unit(self) -> int:
        return self._units.unit

    async def fetch(self, span: Span, edges: Collection[int] = ()) -> Unit:
        """Fetch the blocks of a span; raise a `TransientError` if one is not the expected one."""
        unit = await self._units.fetch(span, edges)
        for height, found in zip(range(span.first, span.last + 1), unit.hashes, strict=True):
            expected = self._expected.get(height, found)
            if found != expected:
                raise TransientError(
                    f"block {height:,} is 0x{found.hex()} at the endpoint, not 0x{expected.hex()}"
                )
        return unit

    async def hashes(self, span: Span) -> dict[int, bytes]:
        return await self._units.hashes(span)
