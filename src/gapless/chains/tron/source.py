"""The blocks of a TRON chain, as the nodes return them.

Blocks come in ranges, and the infos of their transactions block by block, from the same endpoint.
The infos of a block without transactions are not requested: they would cost as much as a range of
blocks. Before nodes kept infos, an honest node has none for some transactions: there an empty list
is asked for once more, and then believed.

Invariant: every requested block is returned, and none is null: see `insistence`. This module does
not decide whether an answer is correct; the checks do.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from gapless.chains.family import BlockHeader
from gapless.chains.insistence import Insistence
from gapless.chains.network import Network
from gapless.chains.tron.check_names import TronCheck
from gapless.chains.tron.queries import HEAD, SOLID, block_call, header_of, infos_call
from gapless.chains.tron.raw_block import RawTronBlock
from gapless.core.errors import BadAnswer, SourceError
from gapless.core.ranges import Span
from gapless.providers import Pool, Refused
from gapless.providers.calls import is_null

MOST_BYTES = 16 << 20  # of the blocks that are requested at once, with their infos
_SHARE = 0.3  # of a new size in the running mean
_OPINION_PATIENCE = 10.0  # seconds for a second endpoint; after that there is no second opinion
_HAS_TRANSACTIONS = re.compile(rb'"transactions"\s*:\s*\[\s*[^\s\]]')
_NO_INFOS = b"[]"


@dataclass(frozen=True, slots=True)
class _FetchedTronBlock(RawTronBlock):
    """A block, and the endpoint that returned its infos: another one, if the first one failed."""

    infos_endpoint: str = ""

    @property
    def endpoints(self) -> frozenset[str]:
        return frozenset({self.endpoint, self.infos_endpoint} - {""})


class TronSource:
    """Fetches blocks through a pool, with or without the infos of their transactions.

    With `second_opinions`, the same blocks are also requested from a second endpoint.
    """

    def __init__(
        self, pool: Pool, network: Network, *, infos: bool, second_opinions: bool = False
    ) -> None:
        self._pool, self._network, self._infos = pool, network, infos
        self._second_opinions = second_opinions
        self._insistence = Insistence(pool, network, self.head, "infos")
        self._size = 1.0  # mean bytes of a block with its infos

    @property
    def unit(self) -> int:
        return max(1, min(self._pool.room((block_call(0),)), int(MOST_BYTES / self._size)))

    async def fetch(self, span: Span, *, avoid: Collection[str] = ()) -> Sequence[RawTronBlock]:
        heights = range(span.first, span.last + 1)
        way = self._with_infos if self._infos else self._alone
        blocks = await self._insistence.fetch(way, heights, avoid)
        size = sum(each.size for each in blocks) / len(blocks)
        self._size += (_SHARE if self._size > 1 else 1) * (size - self._size)
        return await self._with_opinions(blocks, avoid) if self._second_opinions else blocks

    async def head(self) -> int:
        """Return the highest block seen; a lower head of one endpoint does not reduce it."""
        answers = await self._pool.ask([HEAD])
        found = header_of(answers.results[0])
        if found is None:
            raise BadAnswer(f"endpoint `{answers.endpoint}` does not report its head")
        return self._insistence.saw(found.height)

    async def finalized(self) -> int | None:
        """Return the latest solid block; None if no endpoint reports it."""
        try:
            answers = await self._pool.ask([SOLID])
        except Refused:
            return None
        found = header_of(answers.results[0])
        return (found.height or None) if found else None

    async def block_hash(self, height: int) -> bytes:
        (found,) = await self._insistence.fetch(self._alone, (height,))
        return _hash_of(found)

    async def latest(
        self, endpoint: str, patience: float
    ) -> tuple[BlockHeader, BlockHeader | None] | None:
        found = await self._insistence.from_one(endpoint, [HEAD, SOLID], patience)
        if not found:  # it may lack the solid head only
            found = await self._insistence.from_one(endpoint, [HEAD], patience)
        if not found or (head := header_of(found[0])) is None:
            return None
        final = header_of(found[1]) if len(found) > 1 else None
        self._insistence.saw(head.height)
        return head, final

    async def headers(
        self, endpoint: str, heights: Sequence[int], patience: float
    ) -> dict[int, BlockHeader]:
        calls = [block_call(height) for height in heights]
        answers = await self._insistence.from_one(endpoint, calls, patience)
        found = zip(heights, map(header_of, answers), strict=False)
        return {height: each for height, each in found if each and each.height == height}

    async def hashes(self, span: Span) -> dict[int, bytes]:
        """Return the nodes' current hashes of the blocks up to the head."""
        last = min(span.last, await self.head())
        heights = range(span.first, last + 1)
        found = await self._insistence.fetch(self._alone, heights) if heights else []
        return {each.height: _hash_of(each) for each in found}

    async def _alone(
        self, heights: Sequence[int], avoid: Collection[str]
    ) -> list[_FetchedTronBlock]:
        answers = await self._insistence.ask([block_call(each) for each in heights], avoid)
        return [
            _FetchedTronBlock(height, answers.endpoint, bytes(block), None)
            for height, block in zip(heights, answers.results, strict=True)
        ]

    async def _with_infos(
        self, heights: Sequence[int], avoid: Collection[str]
    ) -> list[_FetchedTronBlock]:
        blocks = {each.height: each for each in await self._alone(heights, avoid)}
        asked = [at for at, each in blocks.items() if at and _has_transactions(each)]
        infos = await self._infos_of(asked, blocks[asked[0]].endpoint) if asked else {}
        return [
            replace(each, infos=_NO_INFOS)
            if (its := infos.get(at)) is None
            else replace(each, infos=its[0], infos_endpoint=its[1])
            for at, each in blocks.items()
        ]

    async def _infos_of(
        self, heights: Sequence[int], endpoint: str
    ) -> dict[int, tuple[bytes, str]]:
        """Return infos of blocks with transactions, and who returned them; null if missing."""
        others = self._pool.names - {endpoint}
        answers = await self._insistence.ask([infos_call(each) for each in heights], others)
        results = zip(heights, answers.results, strict=True)
        found = {at: (bytes(result), answers.endpoint) for at, result in results}
        doubtful = [at for at in heights if is_null(found[at][0]) and self._may_lack_infos(at)]
        if doubtful:
            again = await self._pool.ask([infos_call(at) for at in doubtful], avoid={endpoint})
            for at, result in zip(doubtful, again.results, strict=True):
                its = _NO_INFOS if is_null(result) else bytes(result)
                found[at] = (its, again.endpoint)
        return found

    def _may_lack_infos(self, height: int) -> bool:
        return TronCheck.COUNTS not in self._network.checks_at(height)

    async def _with_opinions(
        self, blocks: Sequence[_FetchedTronBlock], avoid: Collection[str]
    ) -> list[_FetchedTronBlock]:
        """Add what another endpoint returns for the same blocks, if one answers."""
        asked = {name for each in blocks for name in each.endpoints}
        both = asked.union(avoid)
        avoided = both if self._pool.names - both else asked
        if not self._pool.names - avoided:
            return [*blocks]
        way = self._with_infos if self._infos else self._alone
        heights = [each.height for each in blocks]
        try:
            async with asyncio.timeout(_OPINION_PATIENCE):
                others = await self._insistence.fetch(way, heights, avoided)
        except (SourceError, TimeoutError):
            return [*blocks]
        return [
            block
            if other.endpoints & block.endpoints
            else replace(block, other_block=other.block, other_infos=other.infos)
            for block, other in zip(blocks, others, strict=True)
        ]


def _has_transactions(block: RawTronBlock) -> bool:
    return _HAS_TRANSACTIONS.search(block.block) is not None


def _hash_of(block: RawTronBlock) -> bytes:
    found = header_of(block.block)
    if found is None:
        raise BadAnswer(f"the hash of block {block.height:,} cannot be read")
    return found.hash
