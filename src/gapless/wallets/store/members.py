"""The addresses of groups, which new blocks are watched for.

Members come and go while nothing is written. So a transaction that writes blocks either knows a new
member, or was committed before; then the member's movements are derived from the stored rows. From
some height on, none is missed, and scans find those below it. Where a scan is lost, because its
blocks were retracted, members are watched from there on.

A new interpretation of a group's movements is stamped with an epoch. An older one is refused. The
store counts epochs, because several ledgers may have wallets in one group.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

from gapless.chains.movements import Movement, WalletRules
from gapless.chains.network import Network
from gapless.core.errors import FencedOff
from gapless.core.heights import HIGHEST
from gapless.core.ranges import RangeSet, Span
from gapless.sinks import CompanionTransaction
from gapless.wallets.records import Member
from gapless.wallets.store import changing, entries, movements, scans
from gapless.wallets.store.bindings import Bindings, portions
from gapless.wallets.store.lookup import find_rows

_COLUMNS = "wallet_group, chain_id, address, network, above, epoch, is_complete, knows_coins, as_of"
_LIST = f"SELECT {_COLUMNS} FROM {{wallet_members}} WHERE chain_id = $1"  # noqa: S608 - our own names
_ADD = f"""
INSERT INTO {{wallet_members}} AS known ({_COLUMNS}) VALUES ($1, $2, $3, $4, $5, 0, $6, $6, -1)
ON CONFLICT (chain_id, wallet_group, address) DO UPDATE
SET above = excluded.above, network = excluded.network
WHERE excluded.above < known.above
"""  # noqa: S608
_REMOVE = """
DELETE FROM {wallet_members} WHERE chain_id = $1 AND wallet_group = $2 AND address = $3
"""
_EPOCH = "SELECT max(epoch) FROM {wallet_members} WHERE chain_id = $1 AND wallet_group = $2"
_BEGIN_EPOCH = """
UPDATE {wallet_members} SET epoch = $3 WHERE chain_id = $1 AND wallet_group = $2 AND epoch < $3
"""
_SETTLE = """
UPDATE {wallet_members} SET is_complete = $4, as_of = $5, knows_coins = $6
WHERE chain_id = $1 AND wallet_group = $2 AND address = $3
"""
_STILL_WATCHED = """
SELECT address FROM {{wallet_members}} WHERE address IN ({addresses}) AND chain_id = $1
"""
_LEAVE_SETS = "DELETE FROM {wallet_set_addresses} WHERE address = $2 AND chain_id = $1"
_FORGET_EMPTY_SETS = """
DELETE FROM {wallet_scans} WHERE chain_id = $1 AND address_set NOT IN
  (SELECT address_set FROM {wallet_set_addresses} WHERE chain_id = $1)
"""
_BLOCKS_AT_ONCE = 100_000


class Settled(NamedTuple):
    """How far the history of a wallet goes."""

    is_complete: bool
    as_of: int
    knows_coins: bool = True
    """False if coins that moved without an event were not looked for in every block."""


async def listed(
    tx: CompanionTransaction,
    chain_id: int,
    group: str | None = None,
    address: bytes | None = None,
) -> list[Member]:
    """Return the members of all groups on a chain, or of one, in order; or only one address."""
    bound, query = Bindings(chain_id), _LIST
    if group is not None:
        query += f" AND wallet_group = {bound.mark(group)}"
    if address is not None:
        query += f" AND address = {bound.mark(address)}"
    found = [_from_row(row) for row in await tx.execute(query, *bound.values)]
    return sorted(found, key=lambda it: (it.group, it.address))


async def add(
    tx: CompanionTransaction,
    group: str,
    network: Network,
    rules: WalletRules,
    addresses: frozenset[bytes],
    above: int,
    searched_from: int | None,
) -> list[Movement]:
    """Register members, and derive what is stored above a height; see `WalletStore`."""
    chain_id = network.chain_id
    assert chain_id is not None
    derived: list[Movement] = []
    for end, some in (await _by_end(tx, chain_id, addresses, searched_from, above)).items():
        rows = [(group, chain_id, it, network.name, end, False) for it in sorted(some)]
        await tx.execute_many(_ADD, rows)
        for span in await _complete(tx, chain_id, rules, end):
            stored = await find_rows(tx, rules, chain_id, some, span)
            found = await tx.compute(rules.movements, stored, network, some)
            await changing.watch(tx, chain_id, span, some, found)
            derived += found
    return derived


async def _by_end(
    tx: CompanionTransaction,
    chain_id: int,
    addresses: frozenset[bytes],
    first: int | None,
    last: int,
) -> dict[int, frozenset[bytes]]:
    """Return the addresses by the height up to which their scans have no hole."""
    if first is None:
        return {last: addresses}
    found: defaultdict[int, set[bytes]] = defaultdict(set)
    for address in addresses:
        known = await scans.of_address(tx, chain_id, address)
        holes = RangeSet.of((first, last)) - RangeSet(it.span for it in known)
        found[holes.spans[0].first - 1 if holes else last].add(address)
    return {end: frozenset(some) for end, some in found.items()}


async def _complete(
    tx: CompanionTransaction, chain_id: int, rules: WalletRules, above: int
) -> Iterable[Span]:
    """Return the spans above a height that the sink holds in all tables that are needed."""
    known = await tx.known(chain_id, Span(above + 1, HIGHEST))
    held = reduce(RangeSet.__and__, map(known.heights, rules.tables))
    whole = held & RangeSet.of((above + 1, HIGHEST))
    return (window for span in whole.spans for window in span.windows(_BLOCKS_AT_ONCE))


async def remove(
    tx: CompanionTransaction, group: str, chain_id: int, addresses: Collection[bytes]
) -> None:
    """Remove members; what is stored of them stays."""
    await tx.execute_many(_REMOVE, [(chain_id, group, it) for it in addresses])


async def purge(
    tx: CompanionTransaction, group: str, chain_id: int, addresses: Collection[bytes]
) -> None:
    """Delete what is stored of a group's former members.

    An address that is a member of another group stays in the address sets. So do movements that
    another address set or member needs, or that have entries of another group.
    """
    await entries.purge(tx, group, chain_id, addresses)
    unwatched = {*addresses}
    for some in portions(sorted(addresses)):
        bound = Bindings(chain_id)
        query = _STILL_WATCHED.format(addresses=bound.one_of(some))
        unwatched -= {address for (address,) in await tx.execute(query, *bound.values)}
    await tx.execute_many(_LEAVE_SETS, [(chain_id, it) for it in sorted(unwatched)])
    await tx.execute(_FORGET_EMPTY_SETS, chain_id)
    extent = await movements.extent(tx, chain_id) if unwatched else None
    for window in extent.windows(_BLOCKS_AT_ONCE) if extent else ():
        found = await movements.of_addresses(tx, chain_id, unwatched, window)
        gone = await scans.unclaimed(tx, chain_id, found)
        await changing.forget(tx, await entries.without_any(tx, gone))


async def next_epoch(tx: CompanionTransaction, group: str, chain_id: int) -> int:
    """Begin an epoch after all others of the group, and return it."""
    ((latest,),) = await tx.execute(_EPOCH, chain_id, group)
    epoch = int(latest or 0) + 1
    await tx.execute(_BEGIN_EPOCH, chain_id, group, epoch)
    return epoch


async def begin_epoch(tx: CompanionTransaction, group: str, chain_id: int, epoch: int) -> None:
    """Raise `FencedOff` if a later epoch has begun for the group; otherwise begin this one."""
    ((latest,),) = await tx.execute(_EPOCH, chain_id, group)
    if (latest or 0) > epoch:
        raise FencedOff(
            f"entries of the group `{group}` on chain {chain_id} are of epoch {latest}, newer than"
            f" {epoch}",
            stored=RangeSet(),
        )
    await tx.execute(_BEGIN_EPOCH, chain_id, group, epoch)


async def settle(
    tx: CompanionTransaction, group: str, chain_id: int, wallets: Mapping[bytes, Settled]
) -> None:
    """Record how far the history of some wallets goes."""
    await tx.execute_many(
        _SETTLE, [(chain_id, group, address, *it) for address, it in sorted(wallets.items())]
    )


def _from_row(row: Sequence[Any]) -> Member:
    return Member(
        group=row[0],
        chain_id=row[1],
        address=row[2],
        network=row[3],
        above=row[4],
        epoch=row[5],
        is_complete=bool(row[6]),
        knows_coins=bool(row[7]),
        as_of=row[8],
    )
