"""The companion that keeps wallets in step with the blocks of their sink.

When a block is written, it derives what watched members sent or received, in the transaction of the
block, and has it interpreted for each group that it concerns. When a block is retracted, what is
known of it goes in the same transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import reduce
from typing import NamedTuple

import pyarrow as pa

from gapless.chains.movements import Movement, WalletRules
from gapless.chains.network import Network
from gapless.core.ranges import RangeSet, Span
from gapless.sinks import Batch, CompanionTransaction
from gapless.wallets.store import changing, members
from gapless.wallets.store.store import Interpret


class Watching(NamedTuple):
    """How movements are derived from the blocks of a chain."""

    network: Network
    rules: WalletRules


class WalletCompanion:
    """Follows the rows of a sink."""

    def __init__(
        self, watching: Callable[[int, Collection[str]], Watching], interpret: Interpret
    ) -> None:
        """`watching` is asked for a chain id and the networks that its members were added on."""
        self._watching = watching
        self._interpret = interpret

    async def written(self, tx: CompanionTransaction, batch: Batch, fence: int) -> None:
        chain_id = batch.chain_id
        await tx.exclude_companions(chain_id)
        hashes = _hashes(tx, batch)
        await changing.forget_other_branches(tx, chain_id, hashes)
        watched = [it for it in await members.listed(tx, chain_id) if it.above < batch.span.last]
        if not watched:
            return
        network, rules = self._watching(chain_id, {it.network for it in watched})
        above = {it.address: it.above for it in sorted(watched, key=lambda it: -it.above)}
        for part in await _whole(tx, batch, rules):
            rows = await _rows(tx, batch, rules, part)
            found = await tx.compute(rules.movements, rows, network, above.keys())
            news = [it for it in found if _is_watched(it, above)]
            await changing.watch(tx, chain_id, part, frozenset(above), news)
            parties = {it.sender for it in news} | {it.receiver for it in news}
            for group in sorted({it.group for it in watched if it.address in parties}):
                await self._interpret(tx, group, chain_id, part)

    async def retracted(
        self, tx: CompanionTransaction, chain_id: int, span: Span, fence: int
    ) -> None:
        await tx.exclude_companions(chain_id)
        await changing.drop(tx, chain_id, span, fence)


def _hashes(tx: CompanionTransaction, batch: Batch) -> dict[int, bytes]:
    anchor = tx.schema.anchor_of(batch.tables)
    columns = ("block_number", anchor.links.hash)
    blocks = batch.tables[anchor.name]
    return dict(zip(*(blocks[name].to_pylist() for name in columns), strict=True))


async def _whole(tx: CompanionTransaction, batch: Batch, rules: WalletRules) -> Iterable[Span]:
    """Return the parts of a batch that the sink now holds in all tables.

    The other parts are watched when the tables that are missing are written too.
    """
    if batch.tables.keys() >= {*rules.tables}:
        return [batch.span]
    known = await tx.known(batch.chain_id, batch.span)
    held = reduce(RangeSet.__and__, map(known.heights, rules.tables))
    return (held & RangeSet.of(batch.span)).spans


async def _rows(
    tx: CompanionTransaction, batch: Batch, rules: WalletRules, span: Span
) -> Mapping[str, pa.Table]:
    """Return all rows that movements are derived from."""
    if batch.tables.keys() >= {*rules.tables}:
        return batch.tables
    return {name: await tx.read(tx.schema[name], batch.chain_id, span) for name in rules.tables}


def _is_watched(it: Movement, above: Mapping[bytes, int]) -> bool:
    return any(
        above.get(each, it.block_number) < it.block_number for each in (it.sender, it.receiver)
    )
