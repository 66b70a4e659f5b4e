"""Receipts where no endpoint offers `eth_getBlockReceipts`, in two other ways:

by transaction   eth_getTransactionReceipt for each hash, joined to the same list
by range         eth_getLogs: only the logs, not the rest of the receipts; a second endpoint is
                 asked for the same logs, because there is no other way to check them
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace

import msgspec
from msgspec import Raw, Struct

from gapless.chains.evm.decode.structs import UNREADABLE
from gapless.chains.evm.logs_client import OPINION_PATIENCE, LogRanges
from gapless.chains.evm.raw_block import EvmRawBlock
from gapless.core.errors import BadAnswer, SourceError
from gapless.core.ranges import RangeSet, Span
from gapless.providers import Answers, Call, Pool
from gapless.providers.calls import is_null

Ask = Callable[[Sequence[Call], Collection[str]], Awaitable[Answers]]


class _TransactionHash(Struct, gc=False):
    hash: str


class _TransactionHashes(Struct, gc=False):
    transactions: list[_TransactionHash]


_transaction_hashes = msgspec.json.Decoder(_TransactionHashes).decode


class OtherReceipts:
    """Adds receipts, or at least logs, to blocks that came without them."""

    def __init__(self, pool: Pool, ask: Ask, *, second_opinions: bool) -> None:
        self._pool, self._ask = pool, ask
        self._second_opinions = second_opinions
        self._logs = LogRanges(pool)

    async def by_transaction(self, blocks: Sequence[EvmRawBlock]) -> list[EvmRawBlock]:
        hashes = [_hashes(each) for each in blocks]
        calls = [
            Call("eth_getTransactionReceipt", (name,), block.height)
            for block, names in zip(blocks, hashes, strict=True)
            for name in names
        ]
        receipts = iter(await self._ask_same_endpoint(calls, blocks[0].endpoint))
        return [
            replace(block, receipts=_join_receipts([next(receipts) for _ in names]))
            for block, names in zip(blocks, hashes, strict=True)
        ]

    async def by_range(
        self, blocks: Sequence[EvmRawBlock], avoid: Collection[str]
    ) -> list[EvmRawBlock]:
        others = self._pool.names - {blocks[0].endpoint}
        logs, opinions = dict[int, Raw](), dict[int, Raw]()
        for span in RangeSet((each.height, each.height) for each in blocks if each.is_whole).spans:
            found = await self._logs.by_block(span, others)
            logs |= found.by_height
            opinions |= await self._second_opinion(span, found.endpoints, avoid)
        return [
            replace(each, logs=logs.get(each.height), other_logs=opinions.get(each.height))
            for each in blocks
        ]

    async def _second_opinion(
        self, span: Span, asked: frozenset[str], avoid: Collection[str]
    ) -> dict[int, Raw]:
        """Return the logs of a span from another endpoint; empty if there is none."""
        if not self._second_opinions or not self._pool.names - asked:
            return {}
        both = asked.union(avoid)
        avoided = both if self._pool.names - both else asked
        try:
            found = await self._logs.by_block(span, avoided, OPINION_PATIENCE)
        except SourceError:
            return {}
        return {} if found.endpoints & asked else found.by_height

    async def _ask_same_endpoint(self, calls: Sequence[Call], endpoint: str) -> Sequence[Raw]:
        """Ask the endpoint that returned the blocks, as long as it answers at all."""
        if not calls:
            return ()
        return (await self._ask(calls, self._pool.names - {endpoint})).results


def _hashes(block: EvmRawBlock) -> list[str]:
    if is_null(block.block):
        return []
    try:
        return [each.hash for each in _transaction_hashes(block.block).transactions]
    except UNREADABLE as error:
        raise BadAnswer(f"block {block.height:,} cannot be read: {error}") from error


def _join_receipts(receipts: Sequence[Raw]) -> Raw:
    """Join receipts into one list, as by block; null if one of them is."""
    if any(map(is_null, receipts)):
        return Raw(b"null")
    return Raw(b"[" + b",".join(map(bytes, receipts)) + b"]")
