"""The contract of the wallet store: each method is one transaction, unless it says otherwise.

After every transaction:

- **once**: a movement is stored once, whichever address sets and groups it concerns;
- **newest fence**: no run has overwritten what a higher fence has scanned or retracted;
- **one branch**: all movements of a block have its hash, and that of the stored block if there is
  one;
- **needed**: a movement is stored as long as a scan of an address set that it concerns, or a
  watched member, has to show it;
- **balanced**: the balances are the sums of the entries, and an entry is of a stored movement.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar

import pyarrow as pa

from gapless.chains.movements import Movement, TokenFacts, WalletRules
from gapless.chains.network import Network
from gapless.core.errors import SinkUnusable
from gapless.core.heights import HIGHEST
from gapless.core.ranges import Span
from gapless.schema import Index
from gapless.sinks import AccompaniedSink, CompanionTransaction, Sink, companion
from gapless.wallets.categories import WalletEntry
from gapless.wallets.records import (
    Balance,
    HistoryFilter,
    HistoryItem,
    Member,
    Page,
    Scan,
)
from gapless.wallets.store import (
    balances,
    changing,
    entries,
    lookup,
    members,
    movements,
    scans,
    tables,
    tokens,
)
from gapless.wallets.store.members import Settled

T = TypeVar("T")
Body = Callable[[CompanionTransaction], Awaitable[T]]

COMPANION = "wallets"
"""The name of the companion that keeps wallets in step with the blocks of the sink."""
EVERYTHING = Span(0, HIGHEST)
_ANY = HistoryFilter()
_FIRST = Page()
_STREAMED = 5_000  # movements that a piece of a stream should have
_FIRST_WINDOW = 10_000  # blocks


Interpret = Callable[[CompanionTransaction, str, int, Span], Awaitable[None]]
"""Writes the entries of a group on a chain, for a span whose movements have changed."""


class WalletStore:
    """The wallets of a sink."""

    def __init__(self, sink: AccompaniedSink) -> None:
        self._sink = sink
        self._prepared: set[int] = set()

    @classmethod
    def of(cls, sink: Sink) -> WalletStore:
        """Return the store of a sink; raise `SinkUnusable` if it cannot have one."""
        if not isinstance(sink, AccompaniedSink):
            raise SinkUnusable(
                "wallets need a database that several tables can change in together",
                hint="use a SQLite file or a PostgreSQL database as the sink of wallets",
            )
        return cls(sink)

    async def write(
        self,
        scan: Scan,
        addresses: Collection[bytes],
        found: Sequence[Movement],
        also: Mapping[Scan, Collection[bytes]] = MappingProxyType({}),
        interpret: Interpret | None = None,
    ) -> None:
        """Store a scan, and replace what its address set had in the range by what was found.

        `also` are scans of the same range that looked for some of the addresses in more places. If
        traces have reduced what an earlier scan left unexplained, `interpret` writes the entries of
        these blocks again, for all groups that have some.

        Raise `FencedOff` if a higher fence has scanned the set in the range, or retracted any of
        it; `BrokenSeam` if a stored block has another hash; `ValueError` for movements that the
        scan cannot have found. In these cases, change nothing.
        """

        async def body(tx: CompanionTransaction) -> None:
            changed = await changing.write(tx, scan, frozenset(addresses), found)
            for each, its in also.items():
                own = [it for it in found if not {it.sender, it.receiver}.isdisjoint(its)]
                changed += await changing.write(tx, each, frozenset(its), own)
            if interpret is None or not changed:
                return
            parties = {it.receiver for it in changed} | {it.sender for it in changed}
            concerned = await members.listed(tx, scan.chain_id)
            for group in sorted({it.group for it in concerned if it.address in parties}):
                for height in sorted({it.block_number for it in changed}):
                    await interpret(tx, group, scan.chain_id, Span(height, height))

        await self._change(scan.chain_id, body)

    async def retract(self, chain_id: int, span: Span, fence: int) -> None:
        """Remove the movements of a range with their entries, and forget that it was scanned.

        Raise `FencedOff` if a higher fence has scanned or retracted any of it.
        """
        await self._change(chain_id, lambda tx: changing.retract(tx, chain_id, span, fence))

    async def scans(
        self, chain_id: int, address_set: str, addresses: Collection[bytes] = ()
    ) -> list[Scan]:
        """Return what was scanned for an address set, ascending.

        With addresses, return nothing if one of them is not, or no longer, part of the set.
        """

        async def body(tx: CompanionTransaction) -> list[Scan]:
            if addresses and not {*addresses} <= await scans.addresses(tx, chain_id, address_set):
                return []
            return await scans.of_set(tx, chain_id, address_set, EVERYTHING)

        return await self._read(body, [])

    async def scans_of(self, chain_id: int, address: bytes) -> list[Scan]:
        """Return what was scanned for an address, in all address sets that it is in."""
        return await self._read(lambda tx: scans.of_address(tx, chain_id, address), [])

    async def movements(
        self,
        chain_id: int,
        addresses: Collection[bytes],
        wanted: HistoryFilter = _ANY,
        page: Page = _FIRST,
    ) -> list[Movement]:
        """Return a page of what a few addresses sent or received, by block."""
        return await self._read(
            lambda tx: movements.listed(tx, chain_id, addresses, wanted, page), []
        )

    async def stream(
        self, chain_id: int, addresses: Collection[bytes], span: Span = EVERYTHING
    ) -> AsyncGenerator[list[Movement], None]:
        """Yield all that any number of addresses sent or received in a span, by block.

        Each piece is read in its own transaction, and has whole blocks.
        """
        extent = await self._read(lambda tx: movements.extent(tx, chain_id), None)
        rest = None if extent is None else extent.overlap(span)
        size = _FIRST_WINDOW
        while rest is not None:
            window = Span(rest.first, min(rest.first + size - 1, rest.last))
            nothing: list[Movement] = []
            found = await self._read(_of_addresses(chain_id, addresses, window), nothing)
            if found:
                yield found
            if len(found) > 2 * _STREAMED:
                size = max(size // 2, 1)
            elif len(found) < _STREAMED // 2:
                size *= 4
            rest = rest.overlap(Span(window.last + 1, HIGHEST))

    async def find_rows(
        self, rules: WalletRules, network: Network, addresses: Collection[bytes], span: Span
    ) -> dict[str, pa.Table]:
        """Return the stored rows that the history of some addresses needs; see `WalletRules`.

        The first call builds the indexes that it needs, in transactions of their own.
        """
        chain_id = _chain(network)
        await self._build_indexes(rules)
        return await self._sink.consult(
            lambda tx: lookup.find_rows(tx, rules, chain_id, addresses, span)
        )

    async def add_members(
        self,
        group: str,
        network: Network,
        rules: WalletRules,
        addresses: Collection[bytes],
        above: int,
        *,
        searched_from: int | None = None,
    ) -> list[Movement]:
        """Make new blocks above a height be watched for movements of some addresses.

        Derive, store and return their movements in blocks above the height that are stored with
        all tables of the rules. A member that is watched from a lower height stays so.

        `searched_from` is given if scans have covered everything from there up to the height. A
        member whose scans have lost some of it since is watched from there.
        """
        await self._build_indexes(rules)
        some = frozenset(addresses)
        return await self._change(
            _chain(network),
            lambda tx: members.add(tx, group, network, rules, some, above, searched_from),
            alone=True,
        )

    async def members(
        self, chain_id: int, group: str | None = None, address: bytes | None = None
    ) -> list[Member]:
        """Return the members of all groups on a chain, or of one; or only one address."""
        return await self._read(lambda tx: members.listed(tx, chain_id, group, address), [])

    async def remove_members(
        self, group: str, chain_id: int, addresses: Collection[bytes], *, purge: bool = False
    ) -> None:
        """Watch new blocks no longer; with `purge`, then delete what no one else needs.

        Purging is a transaction of its own. Repeat the call if it was interrupted.
        """
        await self._change(
            chain_id, lambda tx: members.remove(tx, group, chain_id, addresses), alone=True
        )
        if purge:
            await self._change(chain_id, lambda tx: members.purge(tx, group, chain_id, addresses))

    async def begin_epoch(self, group: str, chain_id: int) -> int:
        """Begin to interpret all movements of a group again; what began before gives way."""
        return await self._change(chain_id, lambda tx: members.next_epoch(tx, group, chain_id))

    async def replace_entries(
        self,
        group: str,
        chain_id: int,
        span: Span,
        facts: Sequence[Movement],
        new: Collection[WalletEntry],
        epoch: int,
    ) -> bool:
        """Replace the entries of all members of a group in a span, and adjust their balances.

        `facts` are the movements of the members in the span, as they were read. If they have
        changed since, change nothing and return False: read them again. Raise `FencedOff` if a
        later epoch has begun.
        """

        async def body(tx: CompanionTransaction) -> bool:
            await members.begin_epoch(tx, group, chain_id, epoch)
            wallets = {it.address for it in await members.listed(tx, chain_id, group)}
            return await entries.replace(tx, group, wallets, facts, new, span, chain_id)

        return await self._change(chain_id, body)

    async def settle(
        self, group: str, chain_id: int, wallets: Mapping[bytes, Settled], epoch: int
    ) -> None:
        """Record how far the balances of wallets go, now that all entries of an epoch are stored.

        Raise `FencedOff` if a later epoch has begun.
        """

        async def body(tx: CompanionTransaction) -> None:
            await members.begin_epoch(tx, group, chain_id, epoch)
            await members.settle(tx, group, chain_id, wallets)

        await self._change(chain_id, body)

    async def entries(
        self,
        group: str,
        wallets: Collection[bytes] | None = None,
        wanted: HistoryFilter = _ANY,
        page: Page = _FIRST,
    ) -> list[HistoryItem]:
        """Return a page of the history of a group, or of a few of its wallets, by time."""
        return await self._read(lambda tx: entries.listed(tx, group, wallets, wanted, page), [])

    async def balances(
        self, group: str, wallets: Collection[bytes] | None = None, chain_id: int | None = None
    ) -> list[Balance]:
        """Return the balances of a group, or of some of its wallets, on all chains or on one."""
        return await self._read(lambda tx: balances.listed(tx, group, wallets, chain_id), [])

    async def balances_at(
        self,
        group: str,
        wallet: bytes,
        chain_id: int,
        *,
        height: int | None = None,
        time: int | None = None,
    ) -> list[Balance]:
        """Return the balances of a wallet after a block, or at a time, from its entries."""
        return await self._read(
            lambda tx: entries.sums_at(tx, group, wallet, chain_id, height=height, time=time), []
        )

    async def put_tokens(self, chain_id: int, facts: Mapping[bytes, TokenFacts]) -> None:
        """Store what tokens say about themselves."""
        await self._change(chain_id, lambda tx: tokens.put(tx, chain_id, facts))

    async def tokens(self, chain_id: int, wanted: Collection[bytes]) -> dict[bytes, TokenFacts]:
        """Return what is known about some tokens."""
        return await self._read(lambda tx: tokens.listed(tx, chain_id, wanted), {})

    async def _build_indexes(self, rules: WalletRules) -> None:
        async def wanted(tx: CompanionTransaction) -> dict[str, list[Index]]:
            return lookup.indexes(rules, tx.schema)

        await self._sink.build_indexes(await self._sink.consult(wanted))

    async def _read(self, body: Body[T], empty: T) -> T:
        """Run a body on the tables; a sink that never had wallets has none."""

        async def whole(tx: CompanionTransaction) -> T:
            return await body(tx) if await tables.exist(tx) else empty

        return await self._sink.consult(whole)

    async def _change(self, chain_id: int, body: Body[T], *, alone: bool = False) -> T:
        if chain_id not in self._prepared:
            await self._prepare(chain_id)
            self._prepared.add(chain_id)
        return await self._sink.transact(chain_id, body, alone=alone)

    async def _prepare(self, chain_id: int) -> None:
        """Create the tables, and from now on follow the rows of the chain."""

        async def is_prepared(tx: CompanionTransaction) -> bool:
            return await tables.exist(tx) and await companion.is_attached(tx, chain_id, COMPANION)

        async def prepare(tx: CompanionTransaction) -> None:
            await tables.create(tx)
            await companion.attach(tx, chain_id, COMPANION)

        if not await self._sink.consult(is_prepared):
            await self._sink.transact(chain_id, prepare, alone=True)


def _of_addresses(
    chain_id: int, addresses: Collection[bytes], window: Span
) -> Body[list[Movement]]:
    return lambda tx: movements.of_addresses(tx, chain_id, addresses, window)


def _chain(network: Network) -> int:
    if network.chain_id is None:
        raise ValueError(f"the chain id of `{network.name}` is not known yet")
    return network.chain_id
