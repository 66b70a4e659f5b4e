"""Which blocks a sink holds with all tables that the history of a wallet needs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from gapless.chains.movements import WalletRules
from gapless.core.heights import HIGHEST
from gapless.core.proof import Proof
from gapless.core.ranges import RangeSet, Span
from gapless.sinks import Sink, Stored
from gapless.wallets.records import Member


@dataclass(frozen=True)
class HeldTables:
    """What a sink holds of a span."""

    heights: RangeSet  # with all tables
    records: tuple[Stored, ...]  # of these tables

    def proof(self, span: Span) -> Proof:
        """What is proven of all blocks of a span that it holds."""
        found = (it for it in self.records if it.span.overlap(span))
        return reduce(Proof.__and__, (Proof(it.proven, it.unproven) for it in found))


async def held_tables(sink: Sink, rules: WalletRules, chain_id: int, span: Span) -> HeldTables:
    """Finds what the sink holds of a span; deleted or damaged rows do not count."""
    records = await sink.records(chain_id, span)
    found = [it for it in records if it.dataset in rules.tables and not it.expired]
    damaged = RangeSet(it.span for it in await sink.damage(chain_id, span))
    by_table = (RangeSet(it.span for it in found if it.dataset == table) for table in rules.tables)
    heights = reduce(RangeSet.__and__, by_table, RangeSet.of(span)) - damaged
    return HeldTables(heights, tuple(found))


async def known_end(sink: Sink, rules: WalletRules, member: Member) -> int:
    """Finds the last block up to which no block of a wallet is missing; -1 if there is none.

    Blocks that are stored above its history continue it, up to the first one that is missing or
    lacks a table.
    """
    after = Span(member.as_of + 1, HIGHEST)
    held = await held_tables(sink, rules, member.chain_id, after)
    watched = (held.heights & RangeSet.of((member.above + 1, HIGHEST))).spans
    return watched[0].last if watched and watched[0].first == after.first else member.as_of
