"""The specification of a block backfill, as the ledger stores it.

It holds names and hashes, never a URL. It lists the checks themselves rather than the name of a
level, so a stored backfill keeps its meaning when a level changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache

import msgspec

from gapless.chains import Level, Network, family_of, find_network
from gapless.chains.family import Family, Wanted
from gapless.core.anchors import Anchor
from gapless.core.errors import UsageError
from gapless.schema import Table
from gapless.sinks import Sink


@cache
def _chain(network: str, chain_id: int) -> Network:
    return replace(find_network(network), chain_id=chain_id)


class BlocksSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The specification of a block backfill; it holds names, never a URL."""

    network: str
    chain_id: int
    endpoints: tuple[str, ...]
    sink: str
    sink_id: str
    datasets: tuple[str, ...]
    verify: Level  # the requested level; `checks` is what it meant at that time
    checks: tuple[str, ...]
    anchors: tuple[str, ...] = ()  # the user's trusted blocks, in addition to the network's
    batch_size: int
    refetch: bool = False  # replace stored blocks, whatever checks they passed
    final: int | None = None  # no stored block above this height is replaced; None: no limit

    @property
    def chain(self) -> Network:
        return _chain(self.network, self.chain_id)

    @property
    def family(self) -> Family:
        return family_of(self.chain)

    @property
    def derived(self) -> tuple[Table, ...]:
        """The requested tables that follow from others."""
        tables = self.family.tables
        return tuple(it for it in tables if it.derived_from and it.name in self.datasets)

    @property
    def sources(self) -> BlocksSpec:
        """The same backfill of the tables that the derived ones follow from, instead of those."""
        names = {it.name for table in self.derived for it in table.derived_from}
        names |= {*self.datasets} - {table.name for table in self.derived}
        tables = self.family.tables
        datasets = tuple(table.name for table in tables if table.name in names)
        return msgspec.structs.replace(self, datasets=datasets)

    @property
    def known_hashes(self) -> dict[int, bytes]:
        """Block hashes known in advance, by height."""
        return known_hashes(self.chain, map(Anchor.parse, self.anchors))

    @property
    def wanted(self) -> Wanted:
        return Wanted(
            self.chain,
            self.chain_id,
            frozenset(self.checks),
            frozenset(self.datasets),
            self.known_hashes,
        )


async def anchors_of(sink: Sink, chain_id: int) -> set[Anchor]:
    """The anchors that earlier fetches into a sink were given, or knew, for a chain."""
    return {anchor for each in await sink.requests(chain_id) for anchor in each.anchors}


def known_hashes(network: Network, anchors: Iterable[Anchor]) -> dict[int, bytes]:
    """The network's anchors and the user's, by height; contradicting ones are an error."""
    found = dict(network.anchors)
    for height, hash_ in anchors:
        if found.setdefault(height, hash_) != hash_:
            raise UsageError(
                f"two anchors at {height:,} contradict each other: 0x{found[height].hex()} and"
                f" 0x{hash_.hex()}",
                hint="check the hash, the network's name, and earlier fetches into this sink",
            )
    return found
