"""The blocks of an EVM chain, as the nodes return them.

A block and its receipts come from one endpoint, in one request if it offers `eth_getBlockReceipts`.
Otherwise they are fetched in one of the ways in `receipts`; a way that no endpoint offers is tried
again once the pool's knowledge expires.

Invariant: every requested block is returned, and none is null: see `insistence`. This module does
not decide whether an answer is correct; the checks do.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec
from msgspec import Raw, Struct

from gapless.chains.evm.decode.structs import UNREADABLE, is_given
from gapless.chains.evm.raw_block import EvmRawBlock
from gapless.chains.evm.receipts import OtherReceipts
from gapless.chains.family import BlockHeader
from gapless.chains.insistence import Insistence
from gapless.chains.network import Network
from gapless.core.errors import BadAnswer
from gapless.core.ranges import Span
from gapless.providers import Call, Pool, Refused
from gapless.providers.provider_errors import Reaction

MOST_BYTES = 16 << 20  # of one answer
_SHARE = 0.3  # of a new size in the running mean


class _Header(Struct, gc=False):
    hash: str
    number: str


class _LinkedHeader(_Header, gc=False):
    parent: str = msgspec.field(name="parentHash")
    timestamp: str | None = None


_header = msgspec.json.Decoder(_Header).decode
_linked_header = msgspec.json.Decoder(_LinkedHeader).decode


class EvmSource:
    """Fetches blocks through a pool: full blocks with receipts, or light blocks without.

    With `second_opinions`, logs that come without receipts are requested from two endpoints.
    """

    def __init__(
        self, pool: Pool, network: Network, *, receipts: bool, second_opinions: bool = False
    ) -> None:
        self._pool, self._network, self._receipts = pool, network, receipts
        self.system = pool.system
        self._insistence = Insistence(pool, network, self.head, "receipts")
        self._other_receipts = OtherReceipts(
            pool, self._insistence.ask, second_opinions=second_opinions
        )
        self._size = 1.0  # mean bytes of a block with its receipts or logs

    @property
    def unit(self) -> int:
        """How many blocks to request at once, given the known limits of the endpoints."""
        calls = (_block_call(0), _receipts_call(0)) if self._receipts else (_block_call(0, False),)
        return max(1, min(self._pool.room(calls), int(MOST_BYTES / self._size)))

    async def fetch(self, span: Span, *, avoid: Collection[str] = ()) -> list[EvmRawBlock]:
        """Fetch the blocks of a span in ascending order, if possible not from those to `avoid`.

        A span larger than `unit` is possible, but holds all its answers in memory at once.
        """
        heights = range(span.first, span.last + 1)
        way = self._in_full if self._receipts else self._light
        blocks = await self._insistence.fetch(way, heights, avoid)
        size = sum(each.size for each in blocks) / len(blocks)
        self._size += (_SHARE if self._size > 1 else 1) * (size - self._size)
        return blocks

    async def head(self) -> int:
        """Return the highest block seen; a lower head of one endpoint does not reduce it."""
        answers = await self._pool.ask([Call("eth_blockNumber")])
        try:
            found = int(msgspec.json.decode(answers.results[0], type=str), 16)
        except (*UNREADABLE, ValueError) as error:
            raise BadAnswer(f"endpoint `{answers.endpoint}` does not report its head") from error
        return self._insistence.saw(found)

    async def finalized(self) -> int | None:
        """Return the highest block that will not change, if the endpoints report it."""
        tag = self._network.finality.tag
        if tag is None:
            return None
        try:
            answers = await self._pool.ask([Call("eth_getBlockByNumber", (tag, False))])
        except Refused:
            return None
        (answer,) = answers.results
        if not is_given(answer):
            return None
        number = _read_header(answer).number
        try:
            return int(number, 16) or None
        except ValueError as error:
            raise BadAnswer(
                f"endpoint `{answers.endpoint}` reports no number of its `{tag}` block"
            ) from error

    async def block_hash(self, height: int) -> bytes:
        (found,) = await self._insistence.fetch(self._light, (height,), ())
        return _read_hash(found.block)

    async def latest(
        self, endpoint: str, patience: float
    ) -> tuple[BlockHeader, BlockHeader | None] | None:
        tag = self._network.finality.tag
        calls = [Call("eth_getBlockByNumber", (each, False)) for each in ("latest", tag) if each]
        found = await self._insistence.from_one(endpoint, calls, patience)
        if not found and tag is not None:  # it may refuse the tag only
            found = await self._insistence.from_one(endpoint, calls[:1], patience)
        if not found or (head := _parse_header(found[0])) is None:
            return None
        final = _parse_header(found[1]) if len(found) > 1 else None
        self._insistence.saw(head.height)
        return head, final

    async def headers(
        self, endpoint: str, heights: Sequence[int], patience: float
    ) -> dict[int, BlockHeader]:
        calls = [_block_call(height, False) for height in heights]
        answers = await self._insistence.from_one(endpoint, calls, patience)
        found = zip(heights, map(_parse_header, answers), strict=False)
        return {height: each for height, each in found if each and each.height == height}

    async def hashes(self, span: Span) -> dict[int, bytes]:
        """Return the nodes' current hashes of the blocks up to the head."""
        last = min(span.last, await self.head())
        heights = range(span.first, last + 1)
        found = await self._insistence.fetch(self._light, heights, ()) if heights else []
        return {each.height: _read_hash(each.block) for each in found}

    async def _light(self, heights: Sequence[int], avoid: Collection[str]) -> list[EvmRawBlock]:
        return await self._blocks(heights, avoid, full=False)

    async def _in_full(self, heights: Sequence[int], avoid: Collection[str]) -> list[EvmRawBlock]:
        """Fetch blocks with receipts, in the best way that is offered."""
        refusals = []
        for way in (self._by_block, self._by_transaction, self._by_range):
            try:
                return await way(heights, avoid)
            except Refused as refused:
                reaction = refused.refusal.reaction
                if reaction is Reaction.SMALLER_RANGE and len(heights) > 1:
                    half = len(heights) // 2
                    low = await self._in_full(heights[:half], avoid)
                    return low + await self._in_full(heights[half:], avoid)
                if reaction not in (Reaction.OTHER_METHOD, Reaction.SMALLER_RANGE):
                    raise
                refusals.append(refused)
        raise refusals[-1]

    async def _by_block(self, heights: Sequence[int], avoid: Collection[str]) -> list[EvmRawBlock]:
        calls = [
            call for height in heights for call in (_block_call(height), _receipts_call(height))
        ]
        answers = await self._insistence.ask(calls, avoid)
        blocks, receipts = answers.results[::2], answers.results[1::2]
        return [
            EvmRawBlock(height, block, its, None, answers.endpoint)
            for height, block, its in zip(heights, blocks, receipts, strict=True)
        ]

    async def _by_transaction(
        self, heights: Sequence[int], avoid: Collection[str]
    ) -> list[EvmRawBlock]:
        return await self._other_receipts.by_transaction(await self._blocks(heights, avoid))

    async def _by_range(self, heights: Sequence[int], avoid: Collection[str]) -> list[EvmRawBlock]:
        return await self._other_receipts.by_range(await self._blocks(heights, avoid), avoid)

    async def _blocks(
        self, heights: Sequence[int], avoid: Collection[str], *, full: bool = True
    ) -> list[EvmRawBlock]:
        answers = await self._insistence.ask([_block_call(each, full) for each in heights], avoid)
        return [
            EvmRawBlock(height, block, None, None, answers.endpoint)
            for height, block in zip(heights, answers.results, strict=True)
        ]


def _block_call(height: int, full: bool = True) -> Call:
    return Call("eth_getBlockByNumber", (hex(height), full), height)


def _receipts_call(height: int) -> Call:
    return Call("eth_getBlockReceipts", (hex(height),), height)


def _parse_header(answer: Raw) -> BlockHeader | None:
    """Read a header; None if there is none, or it cannot be read."""
    if not is_given(answer):
        return None
    try:
        found = _linked_header(answer)
        own, parent = (bytes.fromhex(it.removeprefix("0x")) for it in (found.hash, found.parent))
        time = None if found.timestamp is None else float(int(found.timestamp, 16))
        return BlockHeader(int(found.number, 16), own, parent, time)
    except (ValueError, *UNREADABLE):
        return None


def _read_hash(answer: Raw) -> bytes:
    shown = _read_header(answer).hash
    try:
        return bytes.fromhex(shown.removeprefix("0x"))
    except ValueError as error:
        raise BadAnswer(f"the hash of the returned block cannot be read: {error}") from error


def _read_header(answer: Raw) -> _Header:
    try:
        return _header(answer)
    except UNREADABLE as error:
        raise BadAnswer(f"the returned block cannot be read: {error}") from error
