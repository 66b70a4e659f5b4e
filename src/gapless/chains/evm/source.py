"""The blocks of an EVM chain, as the nodes return them.

A block and its receipts come from one endpoint, in one request if it offers `eth_getBlockReceipts`.
Otherwise they are fetched in one of the ways in `receipts`; a way that no endpoint offers is tried
again once the pool's knowledge expires.

Invariant: every requested block is returned, and none is null. A null below the head means that the
node lags or is wrong, so the block is requested again, from another endpoint if there is one, and
finally reported as an error. A load balancer with one bad node sometimes answers null: an endpoint
that has a lower block is not pruned, and is asked more often. This module does not decide whether
an answer is correct; the checks do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from itertools import count

import msgspec
from msgspec import Raw, Struct

from gapless.chains.evm.decode.structs import UNREADABLE, is_given
from gapless.chains.evm.raw_block import EvmRawBlock, is_null
from gapless.chains.evm.receipts import OtherReceipts
from gapless.chains.family import BlockHeader
from gapless.chains.network import Network
from gapless.core.errors import BadAnswer, MissingHistory, SourceError, Unavailable
from gapless.core.ranges import Span
from gapless.providers import Answers, Call, Pool, Refused
from gapless.providers.limits import delay
from gapless.providers.provider_errors import Reaction, Refusal

MOST_BYTES = 16 << 20  # of one answer
_TIMES = 4  # attempts for a null
_ROUNDS_BELOW = 2
_MORE_TIMES = 12  # attempts for a null if blocks below are answered
_SHARE = 0.3  # of a new size in the running mean
_SOON, _FIRST_WAIT = 0.05, 0.25  # seconds before the first retry of a null, and the next ones
_LONGEST_WAIT = 0.25  # if the next attempt may reach another node
_NO_ENDPOINTS = frozenset[str]()


class _Header(Struct, gc=False):
    hash: str
    number: str


class _LinkedHeader(_Header, gc=False):
    parent: str = msgspec.field(name="parentHash")
    timestamp: str | None = None


_header = msgspec.json.Decoder(_Header).decode
_linked_header = msgspec.json.Decoder(_LinkedHeader).decode
_Way = Callable[[Sequence[int], Collection[str]], Awaitable[list[EvmRawBlock]]]


class EvmSource:
    """Fetches blocks through a pool: full blocks with receipts, or light blocks without.

    With `second_opinions`, logs that come without receipts are requested from two endpoints.
    """

    def __init__(
        self, pool: Pool, network: Network, *, receipts: bool, second_opinions: bool = False
    ) -> None:
        self._pool, self._network, self._receipts = pool, network, receipts
        self.system = pool.system
        self._other_receipts = OtherReceipts(pool, self._ask, second_opinions=second_opinions)
        self._head = -1  # the highest that any endpoint has reported
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
        blocks = await self._insist(way, heights, avoid)
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
        self._head = max(self._head, found)
        return self._head

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
        (found,) = await self._insist(self._light, (height,), ())
        return _read_hash(found.block)

    async def latest(
        self, endpoint: str, patience: float
    ) -> tuple[BlockHeader, BlockHeader | None] | None:
        tag = self._network.finality.tag
        calls = [Call("eth_getBlockByNumber", (each, False)) for each in ("latest", tag) if each]
        found = await self._from(endpoint, calls, patience)
        if not found and tag is not None:  # it may refuse the tag only
            found = await self._from(endpoint, calls[:1], patience)
        if not found or (head := _parse_header(found[0])) is None:
            return None
        final = _parse_header(found[1]) if len(found) > 1 else None
        self._head = max(self._head, head.height)
        return head, final

    async def headers(
        self, endpoint: str, heights: Sequence[int], patience: float
    ) -> dict[int, BlockHeader]:
        calls = [_block_call(height, False) for height in heights]
        answers = await self._from(endpoint, calls, patience)
        found = zip(heights, map(_parse_header, answers), strict=False)
        return {height: each for height, each in found if each and each.height == height}

    async def _from(self, endpoint: str, calls: Sequence[Call], patience: float) -> Sequence[Raw]:
        """Ask one endpoint only; nothing is returned if it does not answer."""
        avoid = self._pool.names - {endpoint}
        try:
            answers = await self._pool.ask(calls, avoid=avoid, patience=patience)
        except SourceError:
            return ()
        return answers.results if answers.endpoint == endpoint else ()

    async def hashes(self, span: Span) -> dict[int, bytes]:
        """Return the nodes' current hashes of the blocks up to the head."""
        last = min(span.last, await self.head())
        heights = range(span.first, last + 1)
        found = await self._insist(self._light, heights, ()) if heights else []
        return {each.height: _read_hash(each.block) for each in found}

    async def _insist(
        self, way: _Way, heights: Sequence[int], avoid: Collection[str]
    ) -> list[EvmRawBlock]:
        """Fetch blocks in one way, and retry those that are null, preferably elsewhere."""
        whole: dict[int, EvmRawBlock] = {}
        empty_handed: dict[str, int] = {}  # endpoints that had none of several blocks
        wanted, avoided, deniers = heights, frozenset(avoid), frozenset[str]()
        attempts, spotty = max(_TIMES, 2 * len(self._pool.names)), False
        for times in count(1):
            blocks = await way(wanted, avoided)
            whole |= {each.height: each for each in blocks if each.is_whole}
            missing = [each for each in blocks if not each.is_whole]
            if not missing:
                self._conclude(whole, empty_handed)
                return [whole[height] for height in heights]
            if len(missing) == len(blocks) > 1:
                empty_handed[missing[0].endpoint] = missing[-1].height
            wanted = [each.height for each in missing]
            latest = {each.endpoint for each in missing}
            deniers |= latest
            if not self._pool.ready - deniers:  # none is left that may be ahead of these
                await self._check_below_head(wanted[-1])
            avoided = self._first_avoidable(deniers.union(avoid), deniers, latest)
            spotty |= any(
                each.height < wanted[-1] and each.endpoint in latest
                for each in blocks
                if each.is_whole
            )
            if times == attempts and (spotty or await self._has_some_below(way, wanted[0])):
                attempts, spotty = max(attempts, _MORE_TIMES), True
            if times >= attempts:
                break
            wait = _SOON if times == 1 else delay(times, self.system.chance(), _FIRST_WAIT)
            await asyncio.sleep(min(wait, _LONGEST_WAIT) if spotty else wait)
        raise self._missing(wanted[0], spotty=spotty)

    async def _has_some_below(self, way: _Way, height: int) -> bool:
        """Whether a lower block exists, so that this one cannot have been pruned."""
        below = sorted(
            {height // 2, height * 3 // 4, *range(max(0, height - 4), height)} - {height}
        )
        for _ in range(_ROUNDS_BELOW if below else 0):
            if any(each.is_whole for each in await way(below, _NO_ENDPOINTS)):
                return True
        return False

    def _first_avoidable(self, *avoided: Collection[str]) -> frozenset[str]:
        """Return the first set of endpoints to avoid that leaves at least one to ask now."""
        usable = (frozenset(each) for each in avoided if self._pool.ready - set(each))
        return next(usable, _NO_ENDPOINTS)

    def _conclude(self, whole: dict[int, EvmRawBlock], empty_handed: dict[str, int]) -> None:
        """Record endpoints that lacked blocks far below the head which another one had."""
        self._head = max(self._head, *whole)
        for name, height in empty_handed.items():
            settled = height < self._head - self._network.reorg_depth
            if settled and whole[height].endpoint != name:
                self._pool.doubt_below(name, height + 1)

    async def _check_below_head(self, height: int) -> None:
        """Raise if the block is above the head: it is not missing, it does not exist yet."""
        if height > self._head and height > await self.head():
            refusal = Refusal(Reaction.LATER)
            raise Refused(f"block {height:,} is above the head, {self._head:,}", refusal)

    def _missing(self, height: int, *, spotty: bool) -> SourceError:
        names = ", ".join(f"`{name}`" for name in sorted(self._pool.names))
        if height >= self._head - self._network.reorg_depth:
            return Unavailable(f"block {height:,} is below the head, but null at {names}")
        message = f"block {height:,} or its receipts are null at {names}"
        if spotty:
            return MissingHistory(
                f"{message}, although lower blocks are answered",
                height=height,
                hint="retry later, or add an endpoint that answers reliably",
            )
        return MissingHistory(
            message, height=height, hint="if they were pruned there, use an archive endpoint"
        )

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
        answers = await self._ask(calls, avoid)
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
        answers = await self._ask([_block_call(each, full) for each in heights], avoid)
        return [
            EvmRawBlock(height, block, None, None, answers.endpoint)
            for height, block in zip(heights, answers.results, strict=True)
        ]

    async def _ask(self, calls: Sequence[Call], avoid: Collection[str]) -> Answers:
        """Ask one endpoint, and repeat the calls that were null while that helps."""
        answers = await self._pool.ask(calls, avoid=avoid)
        results = list(answers.results)
        nulls = [at for at, result in enumerate(results) if is_null(result)]
        others = self._pool.names - {answers.endpoint}
        while 0 < len(nulls) < len(results):
            again = await self._pool.ask([calls[at] for at in nulls], avoid=others)
            if again.endpoint != answers.endpoint or all(map(is_null, again.results)):
                break
            for at, result in zip(nulls, again.results, strict=True):
                results[at] = result
            nulls = [at for at in nulls if is_null(results[at])]
        return Answers(tuple(results), answers.endpoint)


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
