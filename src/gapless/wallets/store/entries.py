"""Entries as rows: what movements mean to the wallets of a group, and the sums of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from gapless.chains.movements import Movement, MovementKey, MovementKind
from gapless.core.ranges import Span
from gapless.sinks import CompanionTransaction
from gapless.sinks.dialect import SqlDialect
from gapless.wallets.categories import Category, Flag, WalletEntry
from gapless.wallets.records import Balance, HistoryFilter, HistoryItem, HistoryPlace, Page
from gapless.wallets.store import balances, movements
from gapless.wallets.store.balances import Differences
from gapless.wallets.store.bindings import Bindings, portions
from gapless.wallets.store.movements import from_token_id

_PLACE = (
    *("block_timestamp", "chain_id", "block_number", "transaction_index", "position"),
    *("batch_position", "kind", "wallet"),
)
_COLUMNS = f"wallet_group, {', '.join(_PLACE)}, direction, category, flags"
_MEANING = 3  # the last columns
_INSERT = f"""
INSERT INTO {{wallet_entries}} ({_COLUMNS})
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
"""  # noqa: S608 - our own names
_OF_PLACE = " AND ".join(f"{name} = ${at}" for at, name in enumerate(_PLACE, start=2))
_DELETE = f"DELETE FROM {{wallet_entries}} WHERE wallet_group = $1 AND {_OF_PLACE}"  # noqa: S608
_OF_SPAN = f"""
SELECT {_COLUMNS} FROM {{wallet_entries}}
WHERE chain_id = $1 AND block_number BETWEEN $2 AND $3 AND wallet_group = $4
"""  # noqa: S608
_PURGE = "DELETE FROM {wallet_entries} WHERE wallet_group = $1 AND wallet = $2 AND chain_id = $3"
# A cross join, because SQLite then reads entries first, and each movement by its whole key.
_JOINED = (
    "FROM {wallet_entries} e CROSS JOIN {wallet_movements} m"
    f" WHERE {' AND '.join(f'm.{name} = e.{name}' for name in movements.KEY)}"
)
_ITEMS = (
    f"SELECT {', '.join(f'm.{name}' for name in movements.COLUMNS)},"
    f" e.wallet, e.direction, e.category, e.flags {_JOINED}"
)
_PARTS = f"SELECT m.token, m.token_id, m.amount, e.direction {_JOINED}"
_COUNTERPARTY = "CASE WHEN m.sender = e.wallet THEN m.receiver ELSE m.sender END"

Stored = tuple[str, WalletEntry]
"""An entry with its group."""


async def replace(
    tx: CompanionTransaction,
    group: str,
    wallets: Collection[bytes],
    facts: Sequence[Movement],
    new: Iterable[WalletEntry],
    span: Span,
    chain_id: int,
) -> bool:
    """Replace the entries of wallets in a span by those that the facts were found to mean.

    Change nothing and return False if the facts are not what is stored of these wallets in the
    span: they have changed since they were read.
    """
    stored = await movements.of_addresses(tx, chain_id, wallets, span)
    known = {it.key: it for it in stored}
    if known != {it.key: it for it in facts}:
        return False
    after = {_to_row(group, known[entry.movement], entry): entry for entry in new}
    for entry in after.values():
        it = known[entry.movement]
        if entry.wallet not in wallets or entry.wallet not in (it.sender, it.receiver):
            raise ValueError(f"{entry.wallet.hex()} is not a wallet of {entry.movement}")
    rows = map(tuple, await tx.execute(_OF_SPAN, chain_id, *span, group))
    before = {row: entry for row in rows if (entry := _from_row(row)[1]).wallet in wallets}
    gone, come = before.keys() - after.keys(), after.keys() - before.keys()
    differences = Differences()
    for row in gone:
        differences.count(group, known[before[row].movement], before[row], -1)
    for row in come:
        differences.count(group, known[after[row].movement], after[row])
    await tx.execute_many(_DELETE, [row[:-_MEANING] for row in gone])
    await tx.execute_many(_INSERT, [*come])
    await balances.change(tx, differences)
    return True


async def delete_of(tx: CompanionTransaction, facts: Iterable[Movement]) -> None:
    """Delete all entries of some movements, and take them back from the balances."""
    gone = {it.key: it for it in facts}
    differences, keys = Differences(), []
    for group, entry in await _of_movements(tx, gone):
        it = gone[entry.movement]
        differences.count(group, it, entry, -1)
        keys.append((group, *HistoryPlace.of(it, entry.wallet)))
    await tx.execute_many(_DELETE, keys)
    await balances.change(tx, differences)


async def without_any(tx: CompanionTransaction, facts: Sequence[Movement]) -> list[Movement]:
    """Return the movements that have no entry."""
    kept = {entry.movement for _, entry in await _of_movements(tx, {it.key for it in facts})}
    return [it for it in facts if it.key not in kept]


async def purge(
    tx: CompanionTransaction, group: str, chain_id: int, wallets: Collection[bytes]
) -> None:
    """Delete all entries and balances of wallets on a chain."""
    await tx.execute_many(_PURGE, [(group, wallet, chain_id) for wallet in wallets])
    await balances.purge(tx, group, chain_id, wallets)


async def listed(
    tx: CompanionTransaction,
    group: str,
    wallets: Collection[bytes] | None,
    wanted: HistoryFilter,
    page: Page,
) -> list[HistoryItem]:
    """Return a page of the history of a group, or of some of its wallets, across chains."""
    found: list[HistoryItem] = []
    for wallet in (None,) if wallets is None else wallets:
        bound = Bindings(group)
        conditions = _conditions(tx.dialect, bound, wallet, wanted)
        if page.after is not None:
            place = bound.marks(page.after)
            sign = "<" if page.newest_first else ">"
            conditions.append(f"({', '.join(f'e.{name}' for name in _PLACE)}) {sign} ({place})")
        direction = " DESC" if page.newest_first else ""
        order = ", ".join(f"e.{name}{direction}" for name in _PLACE)
        query = f"{_ITEMS} AND {' AND '.join(conditions)} ORDER BY {order}"
        found += await _items(tx, f"{query} LIMIT {bound.mark(page.limit)}", bound)
    ordered = sorted(found, key=lambda it: it.place, reverse=page.newest_first)
    return ordered[: page.limit]


async def sums_at(
    tx: CompanionTransaction,
    group: str,
    wallet: bytes,
    chain_id: int,
    *,
    height: int | None = None,
    time: int | None = None,
) -> list[Balance]:
    """Return the balances of a wallet after a block, or at a time, from its entries."""
    bound = Bindings(group)
    conditions = _conditions(
        tx.dialect, bound, wallet, HistoryFilter(until=time, chains=(chain_id,))
    )
    if height is not None:
        conditions.append(f"e.block_number <= {bound.mark(height)}")
    conditions.append("e.direction <> 0")  # one that moves nothing does not count
    query = f"{_PARTS} AND {' AND '.join(conditions)}"
    parts: defaultdict[tuple[bytes, str], list[int]] = defaultdict(list)
    from_wide = tx.dialect.from_wide
    for token, token_id, amount, direction in await tx.execute(query, *bound.values):
        parts[token, token_id].append(direction * from_wide(amount))
    found = [
        Balance(
            group=group,
            wallet=wallet,
            chain_id=chain_id,
            token=token,
            token_id=from_token_id(token_id),
            amount=sum(amounts),
            entries=len(amounts),
            as_of=-1 if height is None else height,
        )
        for (token, token_id), amounts in parts.items()
    ]
    return sorted(found, key=lambda it: (it.token, it.token_id or 0))


def _conditions(
    dialect: SqlDialect, bound: Bindings, wallet: bytes | None, wanted: HistoryFilter
) -> list[str]:
    conditions = ["e.wallet_group = $1"]
    if wallet is not None:
        conditions.append(f"e.wallet = {bound.mark(wallet)}")
    if wanted.categories:
        conditions.append(f"e.category IN ({bound.one_of(wanted.categories)})")
    return [*conditions, *movements.filters(dialect, bound, wanted, _COUNTERPARTY, "e.", "m.")]


async def _items(tx: CompanionTransaction, query: str, bound: Bindings) -> list[HistoryItem]:
    rows = await tx.execute(query, *bound.values)
    found = movements.from_rows(tx.dialect, rows)
    return [
        HistoryItem(it, _entry(it.key, *row[len(movements.COLUMNS) :]))
        for it, row in zip(found, rows, strict=True)
    ]


async def _of_movements(tx: CompanionTransaction, keys: Collection[MovementKey]) -> list[Stored]:
    found: list[Stored] = []
    blocks = {(key.chain_id, key.block_number) for key in keys}
    for chain_id in {chain_id for chain_id, _ in blocks}:
        heights = sorted(height for each, height in blocks if each == chain_id)
        for some in portions(heights):
            bound = Bindings(chain_id)
            rows = await tx.execute(
                f"SELECT {_COLUMNS} FROM {{wallet_entries}}"  # noqa: S608 - our own names
                f" WHERE chain_id = $1 AND block_number IN ({bound.one_of(some)})",
                *bound.values,
            )
            found += (it for it in map(_from_row, rows) if it[1].movement in keys)
    return found


def _to_row(group: str, it: Movement, entry: WalletEntry) -> tuple[object, ...]:
    meaning = (entry.direction, str(entry.category), " ".join(sorted(entry.flags)))
    return (group, *HistoryPlace.of(it, entry.wallet), *meaning)


def _from_row(row: Sequence[Any]) -> Stored:
    group, _, chain_id, block, transaction, position, batch, kind, wallet, *rest = row
    key = MovementKey(chain_id, block, MovementKind(kind), transaction, position, batch)
    return group, _entry(key, wallet, *rest)


def _entry(
    key: MovementKey, wallet: bytes, direction: int, category: str, flags: str
) -> WalletEntry:
    return WalletEntry(
        wallet=wallet,
        movement=key,
        direction=direction,
        category=Category(category),
        flags=frozenset(map(Flag, flags.split())),
    )
