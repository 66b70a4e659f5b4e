"""Scans, address sets and retractions as rows, and what they lay claim to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from gapless.chains.movements import NOBODY, Movement
from gapless.core.ranges import RangeSet, Span
from gapless.sinks import CompanionTransaction
from gapless.sinks.records import Retracted
from gapless.wallets.records import Scan
from gapless.wallets.store.bindings import Bindings, portions

_COLUMNS = (
    "chain_id, address_set, first, last, fence, source, proven, unproven, parent_hash, last_hash"
)
_OF_SET = f"""
SELECT {_COLUMNS} FROM {{wallet_scans}}
WHERE chain_id = $1 AND address_set = $2 AND last >= $3 AND first <= $4 ORDER BY first
"""  # noqa: S608 - our own names
_OVERLAPPING = f"""
SELECT {_COLUMNS} FROM {{wallet_scans}} WHERE chain_id = $1 AND last >= $2 AND first <= $3
"""  # noqa: S608
_OF_ADDRESS = f"""
SELECT {", ".join(f"s.{name.strip()}" for name in _COLUMNS.split(","))}
FROM {{wallet_set_addresses}} a
JOIN {{wallet_scans}} s ON s.chain_id = a.chain_id AND s.address_set = a.address_set
WHERE a.address = $1 AND a.chain_id = $2 ORDER BY s.first
"""  # noqa: S608
_INSERT = (
    f"INSERT INTO {{wallet_scans}} ({_COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"  # noqa: S608
)
_DELETE = "DELETE FROM {wallet_scans} WHERE chain_id = $1 AND address_set = $2 AND first = $3"
_FORGET = "DELETE FROM {wallet_scans} WHERE chain_id = $1 AND address_set = $2"
_ADDRESSES = "SELECT address FROM {wallet_set_addresses} WHERE chain_id = $1 AND address_set = $2"
_ADD_ADDRESS = "INSERT INTO {wallet_set_addresses} VALUES ($1, $2, $3)"
_RETRACTED = (
    "SELECT first, last, fence FROM {wallet_retractions}"
    " WHERE chain_id = $1 AND last >= $2 AND first <= $3"
)
_RETRACT = "INSERT INTO {wallet_retractions} VALUES ($1, $2, $3, $4)"
_UNRETRACT = "DELETE FROM {wallet_retractions} WHERE chain_id = $1 AND first = $2"
_WATCH_AGAIN = """
UPDATE {wallet_members} SET above = $3 - 1 WHERE chain_id = $1 AND above >= $3 AND address IN
  (SELECT address FROM {wallet_set_addresses} WHERE chain_id = $1 AND address_set = $2)
"""
_SETS = """
SELECT a.address, s.first, s.last FROM {{wallet_set_addresses}} a
JOIN {{wallet_scans}} s ON s.chain_id = a.chain_id AND s.address_set = a.address_set
WHERE a.address IN ({addresses}) AND a.chain_id = $1 AND a.address_set <> $2
  AND s.last >= $3 AND s.first <= $4
"""
_MEMBERS = """
SELECT address, above FROM {{wallet_members}}
WHERE address IN ({addresses}) AND chain_id = $1 AND above < $2
"""


async def of_set(
    tx: CompanionTransaction, chain_id: int, address_set: str, span: Span
) -> list[Scan]:
    """Return the scans of a set that overlap a span, in order."""
    return _from_rows(await tx.execute(_OF_SET, chain_id, address_set, *span))


async def overlapping(tx: CompanionTransaction, chain_id: int, span: Span) -> list[Scan]:
    """Return the scans of all sets that overlap a span."""
    return _from_rows(await tx.execute(_OVERLAPPING, chain_id, *span))


async def of_address(tx: CompanionTransaction, chain_id: int, address: bytes) -> list[Scan]:
    """Return the scans of all sets that an address is in, in order."""
    return _from_rows(await tx.execute(_OF_ADDRESS, address, chain_id))


async def save(tx: CompanionTransaction, before: Iterable[Scan], after: Iterable[Scan]) -> None:
    """Replace scans by others."""
    old, new = {*before}, {*after}
    await tx.execute_many(
        _DELETE, [(it.chain_id, it.address_set, it.span.first) for it in old - new]
    )
    await tx.execute_many(_INSERT, [_to_row(it) for it in new - old])


async def watch_again(tx: CompanionTransaction, cut: Iterable[Scan], span: Span) -> None:
    """Watch blocks for the members of scans from where they lose a span; see `members`."""
    lost = [(it.chain_id, it.address_set, max(it.span.first, span.first)) for it in cut]
    await tx.execute_many(_WATCH_AGAIN, lost)


async def forget(tx: CompanionTransaction, chain_id: int, address_set: str) -> None:
    """Delete all scans of a set."""
    await tx.execute(_FORGET, chain_id, address_set)


async def addresses(tx: CompanionTransaction, chain_id: int, address_set: str) -> set[bytes]:
    """Return the addresses that the scans of a set have looked for."""
    return {address for (address,) in await tx.execute(_ADDRESSES, chain_id, address_set)}


async def add_addresses(
    tx: CompanionTransaction, chain_id: int, address_set: str, new: Collection[bytes]
) -> None:
    await tx.execute_many(_ADD_ADDRESS, [(chain_id, address_set, it) for it in sorted(new)])


async def retracted(tx: CompanionTransaction, chain_id: int, span: Span) -> list[Retracted]:
    """Return the retractions that overlap a span."""
    rows = await tx.execute(_RETRACTED, chain_id, *span)
    return [Retracted(Span(first, last), fence) for first, last, fence in rows]


async def save_retracted(
    tx: CompanionTransaction, chain_id: int, before: Iterable[Retracted], after: Iterable[Retracted]
) -> None:
    """Replace retractions by others."""
    old, new = {*before}, {*after}
    await tx.execute_many(_UNRETRACT, [(chain_id, it.span.first) for it in old - new])
    await tx.execute_many(_RETRACT, [(chain_id, *it.span, it.fence) for it in new - old])


async def unclaimed(
    tx: CompanionTransaction,
    chain_id: int,
    movements: Sequence[Movement],
    *,
    by_sets_except: str = "",
    by_members: bool = True,
) -> list[Movement]:
    """Return the movements that no scan has to show: of no other set, and of no watched member."""
    if not movements:
        return []
    heights = [it.block_number for it in movements]
    span = Span(min(heights), max(heights))
    parties = {it.sender for it in movements} | {it.receiver for it in movements}
    claims: defaultdict[bytes, list[Span]] = defaultdict(list)
    for some in portions(sorted(parties - {NOBODY})):
        bound = Bindings(chain_id, by_sets_except, *span)
        query = _SETS.format(addresses=bound.one_of(some))
        for address, first, last in await tx.execute(query, *bound.values):
            claims[address].append(Span(first, last))
        if by_members:
            bound = Bindings(chain_id, span.last)
            query = _MEMBERS.format(addresses=bound.one_of(some))
            for address, above in await tx.execute(query, *bound.values):
                claims[address].append(Span(above + 1, span.last))
    covered = {address: RangeSet(spans) for address, spans in claims.items()}
    nothing = RangeSet()
    return [
        it
        for it in movements
        if it.block_number not in covered.get(it.sender, nothing)
        and it.block_number not in covered.get(it.receiver, nothing)
    ]


def _to_row(it: Scan) -> tuple[object, ...]:
    checks = " ".join(sorted(it.proven)), " ".join(sorted(it.unproven))
    where = (it.chain_id, it.address_set, *it.span, it.fence, it.source)
    return (*where, *checks, it.parent_hash, it.last_hash)


def _from_rows(rows: Iterable[Sequence[Any]]) -> list[Scan]:
    return [
        Scan(
            chain_id=row[0],
            address_set=row[1],
            span=Span(row[2], row[3]),
            fence=row[4],
            source=row[5],
            proven=frozenset(row[6].split()),
            unproven=frozenset(row[7].split()),
            parent_hash=row[8],
            last_hash=row[9],
        )
        for row in rows
    ]
