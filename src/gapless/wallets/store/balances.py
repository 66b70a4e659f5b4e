"""Balances as rows: they always are the sums of the entries.

Whatever adds or deletes entries adds the difference to the balances in the same transaction. So
they agree after each commit, in whatever order blocks, retractions and new interpretations arrive.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from gapless.chains.movements import NOBODY, Movement
from gapless.sinks import CompanionTransaction
from gapless.wallets.categories import WalletEntry
from gapless.wallets.records import Balance
from gapless.wallets.store.bindings import Bindings, portions
from gapless.wallets.store.movements import from_token_id, to_token_id

_COLUMNS = "wallet_group, wallet, chain_id, token, token_id"
_STORED = """
SELECT token, token_id, amount, entries FROM {{balances}}
WHERE wallet_group = $1 AND wallet = $2 AND chain_id = $3 AND token IN ({tokens})
"""
_PUT = f"""
INSERT INTO {{balances}} ({_COLUMNS}, amount, entries) VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT ({_COLUMNS}) DO UPDATE SET amount = excluded.amount, entries = excluded.entries
"""  # noqa: S608 - our own names
_DELETE = """
DELETE FROM {balances}
WHERE wallet_group = $1 AND wallet = $2 AND chain_id = $3 AND token = $4 AND token_id = $5
"""
_PURGE = "DELETE FROM {balances} WHERE wallet_group = $1 AND wallet = $2 AND chain_id = $3"
_LIST = """
SELECT b.wallet_group, b.wallet, b.chain_id, b.token, b.token_id, b.amount, b.entries,
  w.epoch, w.is_complete, w.as_of, w.knows_coins
FROM {{balances}} b
LEFT JOIN {{wallet_members}} w
  ON w.chain_id = b.chain_id AND w.wallet_group = b.wallet_group AND w.address = b.wallet
WHERE {conditions} ORDER BY b.wallet, b.chain_id, b.token, b.token_id
"""


class BalanceKey(NamedTuple):
    """What a balance is of."""

    group: str
    wallet: bytes
    chain_id: int
    token: bytes
    token_id: int | None


class Sum(NamedTuple):
    amount: int = 0
    entries: int = 0


class Differences:
    """What to add to balances."""

    def __init__(self) -> None:
        self.sums: defaultdict[BalanceKey, Sum] = defaultdict(Sum)

    def count(self, group: str, it: Movement, entry: WalletEntry, times: int = 1) -> None:
        """Count an entry; `times` is -1 to take it back. One that moves nothing does not count."""
        if entry.direction:
            holding = BalanceKey(group, entry.wallet, it.chain_id, it.token, it.token_id)
            amount, entries = self.sums[holding]
            added = times * entry.direction * it.amount
            self.sums[holding] = Sum(amount + added, entries + times)


async def change(tx: CompanionTransaction, differences: Differences) -> None:
    """Add differences to the balances. One of no entries is deleted."""
    changed = {it: more for it, more in differences.sums.items() if more != Sum()}
    tokens: defaultdict[tuple[str, bytes, int], set[bytes]] = defaultdict(set)
    for holding in changed:
        tokens[holding[:3]].add(holding.token)
    stored: dict[BalanceKey, Sum] = {}
    for owner, wanted in tokens.items():
        for some in portions(sorted(wanted)):
            bound = Bindings(*owner)
            query = _STORED.format(tokens=bound.one_of(some))
            for token, token_id, amount, entries in await tx.execute(query, *bound.values):
                holding = BalanceKey(*owner, token, from_token_id(token_id))
                stored[holding] = Sum(tx.dialect.from_signed(amount), entries)
    put, gone = [], []
    for holding, more in changed.items():
        known = stored.get(holding, Sum())
        entries = known.entries + more.entries
        key = (*holding[:4], to_token_id(holding.token_id))
        if entries:
            put.append((*key, tx.dialect.to_signed(known.amount + more.amount), entries))
        else:
            gone.append(key)
    await tx.execute_many(_PUT, put)
    await tx.execute_many(_DELETE, gone)


async def listed(
    tx: CompanionTransaction,
    group: str,
    wallets: Collection[bytes] | None = None,
    chain_id: int | None = None,
) -> list[Balance]:
    """Return the balances of a group: of all its wallets on all chains, or of some."""
    if wallets is None:
        return await _list(tx, group, None, chain_id)
    found: list[Balance] = []
    for some in portions(sorted(wallets)):
        found += await _list(tx, group, some, chain_id)
    return found


async def _list(
    tx: CompanionTransaction, group: str, wallets: Sequence[bytes] | None, chain_id: int | None
) -> list[Balance]:
    bound = Bindings(group)
    conditions = ["b.wallet_group = $1"]
    if wallets is not None:
        conditions.append(f"b.wallet IN ({bound.one_of(wallets)})")
    if chain_id is not None:
        conditions.append(f"b.chain_id = {bound.mark(chain_id)}")
    rows = await tx.execute(_LIST.format(conditions=" AND ".join(conditions)), *bound.values)
    return [
        Balance(
            group=row[0],
            wallet=row[1],
            chain_id=row[2],
            token=row[3],
            token_id=from_token_id(row[4]),
            amount=tx.dialect.from_signed(row[5]),
            entries=row[6],
            epoch=row[7] or 0,
            is_complete=bool(row[8] and (row[10] or row[3] != NOBODY)),
            as_of=-1 if row[9] is None else row[9],
        )
        for row in rows
    ]


async def purge(
    tx: CompanionTransaction, group: str, chain_id: int, wallets: Iterable[bytes]
) -> None:
    """Delete the balances of wallets on a chain."""
    await tx.execute_many(_PURGE, [(group, wallet, chain_id) for wallet in wallets])
