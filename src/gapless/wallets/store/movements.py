"""Movements as rows of `wallet_movements`: finding, listing, adding and deleting them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

from gapless.chains.movements import Movement, MovementKey, MovementKind
from gapless.core.ranges import Span
from gapless.sinks import CompanionTransaction
from gapless.sinks.dialect import SqlDialect
from gapless.wallets.records import HistoryFilter, HistoryPlace, Page
from gapless.wallets.store.bindings import Bindings, portions

KEY = ("chain_id", "block_number", "kind", "transaction_index", "position", "batch_position")
ORDER = ("block_number", "transaction_index", "position", "batch_position", "kind")
"""The order of the movements of a chain: as they happened."""
COLUMNS = (
    *KEY,
    "block_hash",
    "block_timestamp",
    "transaction_hash",
    "sender",
    "receiver",
    "token",
    "token_id",
    "initiator",
    "is_approval",
    "amount",
)
"""What is selected of a movement, in this order."""
_LISTED = ", ".join(COLUMNS)
_KINDS = {str(kind): kind for kind in MovementKind}
_OF_KEY = " AND ".join(f"{name} = ${at}" for at, name in enumerate(KEY, start=1))
_DELETE = f"DELETE FROM {{wallet_movements}} WHERE {_OF_KEY}"  # noqa: S608 - our own names
_OF_SPAN = f"""
SELECT {_LISTED} FROM {{wallet_movements}}
WHERE chain_id = $1 AND block_number BETWEEN $2 AND $3 ORDER BY block_number LIMIT $4
"""  # noqa: S608
_EXTENT = """
SELECT (SELECT min(block_number) FROM {wallet_movements} WHERE chain_id = $1),
       (SELECT max(block_number) FROM {wallet_movements} WHERE chain_id = $1)
"""
_SIDES = (("sender", "receiver"), ("receiver", "sender"))


async def of_addresses(
    tx: CompanionTransaction, chain_id: int, addresses: Collection[bytes], span: Span
) -> list[Movement]:
    """Return what the addresses sent or received in a span, as it happened."""
    found: dict[MovementKey, Movement] = {}
    for some in portions(sorted(addresses)):
        for side, _ in _SIDES:
            bound = Bindings(chain_id, *span)
            rows = await tx.execute(
                f"SELECT {_LISTED} FROM {{wallet_movements}} WHERE {side} IN ({bound.one_of(some)})"  # noqa: S608
                " AND block_number BETWEEN $2 AND $3 AND +chain_id = $1",
                *bound.values,
            )
            found |= {it.key: it for it in from_rows(tx.dialect, rows)}
    return in_order(found.values())


async def extent(tx: CompanionTransaction, chain_id: int) -> Span | None:
    """Return the first and the last block of a chain with a movement."""
    ((first, last),) = await tx.execute(_EXTENT, chain_id)
    return None if first is None else Span(first, last)


async def of_blocks(
    tx: CompanionTransaction, chain_id: int, heights: Collection[int]
) -> list[Movement]:
    """Return all movements of some blocks, as they happened."""
    found: list[Movement] = []
    for some in portions(sorted(heights)):
        bound = Bindings(chain_id)
        rows = await tx.execute(
            f"SELECT {_LISTED} FROM {{wallet_movements}}"  # noqa: S608 - our own names
            f" WHERE chain_id = $1 AND block_number IN ({bound.one_of(some)})",
            *bound.values,
        )
        found += from_rows(tx.dialect, rows)
    return in_order(found)


async def of_span(
    tx: CompanionTransaction, chain_id: int, span: Span, limit: int
) -> list[Movement]:
    """Return the first movements of a span, whoever asked for them."""
    rows = await tx.execute(_OF_SPAN, chain_id, *span, limit)
    return in_order(from_rows(tx.dialect, rows))


async def listed(
    tx: CompanionTransaction,
    chain_id: int,
    addresses: Collection[bytes],
    wanted: HistoryFilter,
    page: Page,
) -> list[Movement]:
    """Return a page of what the addresses sent or received; it takes a query for each address."""
    if wanted.chains and chain_id not in wanted.chains:
        return []
    wanted = replace(wanted, chains=())
    found: dict[MovementKey, Movement] = {}
    for address in addresses:
        bound = Bindings(address, chain_id, page.limit)
        sides = [(side, filters(tx.dialect, bound, wanted, other)) for side, other in _SIDES]
        query = " UNION ALL ".join(
            f"SELECT * FROM ({_side(bound, side, matched, page)}) AS {side}s"  # noqa: S608
            for side, matched in sides
        )
        rows = await tx.execute(query, *bound.values)
        found |= {it.key: it for it in from_rows(tx.dialect, rows)}
    return in_order(found.values(), reverse=page.newest_first)[: page.limit]


def _side(bound: Bindings, side: str, matched: Sequence[str], page: Page) -> str:
    conditions = [f"{side} = $1", "+chain_id = $2", *matched]
    if page.after is not None:
        place = bound.marks([getattr(page.after, name) for name in ORDER])
        sign = "<" if page.newest_first else ">"
        conditions.append(f"({', '.join(ORDER)}) {sign} ({place})")
    direction = " DESC" if page.newest_first else ""
    order = ", ".join(f"{name}{direction}" for name in ORDER)
    return (
        f"SELECT {_LISTED} FROM {{wallet_movements}} WHERE {' AND '.join(conditions)}"  # noqa: S608
        f" ORDER BY {order} LIMIT $3"
    )


def filters(
    dialect: SqlDialect,
    bound: Bindings,
    wanted: HistoryFilter,
    counterparty: str,
    of: str = "",
    fact: str = "",
) -> list[str]:
    """Return the conditions of a filter.

    `of` and `fact` precede the names of columns: `fact` of those that only movements have.
    """
    conditions = []
    if wanted.since is not None:
        conditions.append(f"{of}block_timestamp >= {bound.mark(wanted.since)}")
    if wanted.until is not None:
        conditions.append(f"{of}block_timestamp <= {bound.mark(wanted.until)}")
    for column, values in (
        (f"{of}chain_id", wanted.chains),
        (f"{of}kind", [str(kind) for kind in wanted.kinds]),
        (f"{fact}token", wanted.tokens),
        (counterparty, wanted.counterparties),
    ):
        if values:
            conditions.append(f"{dialect.unindexed(column)} IN ({bound.one_of(values)})")
    return conditions


async def add(tx: CompanionTransaction, movements: Iterable[Movement]) -> None:
    """Insert movements whose keys are not taken."""
    names = (*COLUMNS[:-1], *tx.dialect.wide_columns("amount"))
    await tx.add_rows("wallet_movements", names, [_to_row(it, tx.dialect) for it in movements])


async def delete(tx: CompanionTransaction, movements: Iterable[Movement]) -> None:
    """Delete movements. Entries of theirs must be deleted before."""
    await tx.execute_many(_DELETE, [to_key(it.key) for it in movements])


def in_order(movements: Iterable[Movement], *, reverse: bool = False) -> list[Movement]:
    return sorted(movements, key=HistoryPlace.of, reverse=reverse)


def to_key(key: MovementKey) -> tuple[object, ...]:
    """Return a key as values for the database."""
    return (*key[:2], str(key.kind), *key[3:])


def to_token_id(token_id: int | None) -> str:
    return "" if token_id is None else str(token_id)


def from_token_id(text: str) -> int | None:
    return int(text) if text else None


def _to_row(it: Movement, dialect: SqlDialect) -> tuple[object, ...]:
    return (
        *to_key(it.key),
        it.block_hash,
        it.block_timestamp,
        it.transaction_hash,
        it.sender,
        it.receiver,
        it.token,
        to_token_id(it.token_id),
        it.initiator,
        it.is_approval,
        *dialect.to_wide(it.amount),
    )


def from_rows(dialect: SqlDialect, rows: Iterable[Sequence[Any]]) -> list[Movement]:
    """Return the movements of rows that begin with `COLUMNS`."""
    return [
        Movement(
            chain_id=row[0],
            block_number=row[1],
            kind=_KINDS[row[2]],
            transaction_index=row[3],
            position=row[4],
            batch_position=row[5],
            block_hash=row[6],
            block_timestamp=row[7],
            transaction_hash=row[8],
            sender=row[9],
            receiver=row[10],
            token=row[11],
            token_id=from_token_id(row[12]),
            initiator=row[13],
            is_approval=bool(row[14]),
            amount=dialect.from_wide(row[15]),
        )
        for row in rows
    ]
