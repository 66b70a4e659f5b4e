"""Reading a wallet must not take longer because others have long histories.

A plan that reads all movements of a chain, or sorts all entries of a group, is correct but too slow
next to millions of them.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import pytest

from gapless.sinks import AccompaniedSink, CompanionTransaction
from gapless.sinks.dialect import SQLITE
from gapless.wallets.records import HistoryFilter, HistoryPlace, Page
from gapless.wallets.store import WalletStore
from tests.conformance.sink.stage import CHAIN_ID
from tests.conformance.wallet_store.stage import WALLETS

T = TypeVar("T")
Read = Callable[[WalletStore], Awaitable[object]]

US, TOKEN = WALLETS[0], WALLETS[5]
AFTER = Page(after=HistoryPlace(10_000, CHAIN_ID, 1_000, 0, 0, -1, "token", US))
OLDEST_FIRST = Page(newest_first=False)
FILTERS = {
    "": HistoryFilter(),
    " on a chain": HistoryFilter(chains=(CHAIN_ID,)),
    " on chains": HistoryFilter(chains=(CHAIN_ID, 2)),
    " of a day": HistoryFilter(since=5_000, until=6_000),
    " of a category": HistoryFilter(categories=("swap",)),
}
SELECTIVE = {
    " of a token": HistoryFilter(tokens=(TOKEN,)),
    " of a token on a chain": HistoryFilter(chains=(CHAIN_ID,), tokens=(TOKEN,)),
    " with somebody": HistoryFilter(counterparties=(TOKEN,)),
}
PAGES = {"": Page(), ", next page": AFTER, ", oldest first": OLDEST_FIRST}


def _entries(wallets: list[bytes] | None, wanted: HistoryFilter, page: Page) -> Read:
    return lambda store: store.entries("home", wallets, wanted, page)


def _movements(wanted: HistoryFilter, page: Page) -> Read:
    return lambda store: store.movements(CHAIN_ID, [US], wanted, page)


GROUP_READINGS = {
    f"a group's history{what}{which}": _entries(None, wanted, page)
    for what, wanted in FILTERS.items()
    for which, page in PAGES.items()
}
WALLET_READINGS = {
    f"a wallet's history{what}{which}": _entries([US], wanted, page)
    for what, wanted in {**FILTERS, **SELECTIVE}.items()
    for which, page in PAGES.items()
}
OTHERS: dict[str, Read] = {
    "balances at a block": lambda it: it.balances_at("home", US, CHAIN_ID, height=1_000),
    "balances at a time": lambda it: it.balances_at("home", US, CHAIN_ID, time=10_000),
    "balances": lambda it: it.balances("home", [US]),
    "balances on a chain": lambda it: it.balances("home", [US], CHAIN_ID),
    "a member": lambda it: it.members(CHAIN_ID, "home", US),
    "scans": lambda it: it.scans(CHAIN_ID, "one", [US]),
    "tokens": lambda it: it.tokens(CHAIN_ID, [TOKEN]),
    **{
        f"a wallet's movements{what}{which}": _movements(wanted, page)
        for what, wanted in {**FILTERS, **SELECTIVE}.items()
        if not wanted.categories
        for which, page in PAGES.items()
    },
}
EVERYTHING = {**GROUP_READINGS, **WALLET_READINGS, **OTHERS}


class Explained:
    """A transaction that notes how its statements are run."""

    def __init__(self, tx: CompanionTransaction, plans: list[str]) -> None:
        self._tx, self._plans = tx, plans

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tx, name)

    async def execute(self, statement: str, *values: object) -> Sequence[Any]:
        how = "QUERY PLAN" if self._tx.dialect is SQLITE else "(COSTS OFF)"
        rows = await self._tx.execute(f"EXPLAIN {how} {statement}", *values)
        self._plans.append("\n".join(str(row[-1]) for row in rows))
        return await self._tx.execute(statement, *values)


async def _plan(sink: AccompaniedSink, read: Read) -> str:
    """How all statements of a reading are run."""
    plans: list[str] = []

    async def consult(body: Callable[[Any], Awaitable[T]]) -> T:
        return await sink.consult(lambda tx: body(Explained(tx, plans)))

    await read(WalletStore(cast(AccompaniedSink, SimpleNamespace(consult=consult))))
    return "\n".join(plans)


@pytest.mark.parametrize("target", ["sqlite"], indirect=True)
async def test_sqlite_reads_wallets_by_the_right_index(
    store: WalletStore, sink: AccompaniedSink
) -> None:
    await store.remove_members("nobody", CHAIN_ID, [])  # which creates the tables
    for name, read in EVERYTHING.items():
        plan = await _plan(sink, read)
        for table in ("e", "m", "b", "w", r"wallet_\w+", "balances", "tokens"):
            assert not re.search(rf"SCAN {table}\b", plan), f"{name}: {plan}"
        assert not re.search(r"\w*movements USING PRIMARY KEY \(chain_id=\?\)", plan), plan
        assert "wallet_entries_block" not in plan, f"{name}: {plan}"
        assert "FOR ORDER BY" not in plan, f"{name}: {plan}"
        if "movements" in name:
            assert "wallet_movements_sender (sender=?" in plan, f"{name}: {plan}"
            assert "wallet_movements_receiver (receiver=?" in plan, f"{name}: {plan}"
        if "history" in name:
            assert re.search(r"m USING PRIMARY KEY .*batch_position=\?\)", plan), f"{name}: {plan}"
            assert "TEMP B-TREE" not in plan, f"{name}: {plan}"
        if name in GROUP_READINGS:
            assert "e USING INDEX wallet_entries_time (wallet_group=?" in plan, f"{name}: {plan}"
        if name in WALLET_READINGS or "balances at" in name:
            assert "e USING PRIMARY KEY (wallet_group=? AND wallet=?" in plan, f"{name}: {plan}"


FILL = [
    "ALTER TABLE {wallet_movements} SET (autovacuum_enabled = off)",
    "ALTER TABLE {wallet_entries} SET (autovacuum_enabled = off)",
    f"""
INSERT INTO {{wallet_movements}}
SELECT {CHAIN_ID}, n / 10, 'token', n % 10, 0, -1, '\\x01', n, '\\x02',
  decode(lpad(to_hex(n % 300), 40, '0'), 'hex'), decode(lpad(to_hex(n % 301), 40, '0'), 'hex'),
  decode(lpad(to_hex(n % 7), 40, '0'), 'hex'), '', '\\x', false, 5
FROM generate_series(0, 30000) AS n
""",
    """
INSERT INTO {wallet_entries} SELECT 'home', sender, block_timestamp, chain_id, block_number,
  transaction_index, position, batch_position, kind, -1,
  CASE WHEN block_number % 2 = 0 THEN 'out' ELSE 'swap' END, '' FROM {wallet_movements}
""",
]


@pytest.mark.parametrize("target", ["postgres"], indirect=True)
@pytest.mark.parametrize("has_statistics", [False, True])
async def test_postgres_reads_wallets_by_an_index(
    store: WalletStore, sink: AccompaniedSink, has_statistics: bool
) -> None:
    await store.remove_members("nobody", CHAIN_ID, [])  # which creates the tables

    async def fill(tx: CompanionTransaction) -> None:
        for statement in FILL:
            await tx.execute(statement)
        if has_statistics:
            await tx.execute("ANALYZE {wallet_movements}, {wallet_entries}")

    await sink.transact(CHAIN_ID, fill, alone=True)
    # Without statistics, it takes every group for a small one.
    for name, read in (EVERYTHING if has_statistics else {**WALLET_READINGS, **OTHERS}).items():
        plan = await _plan(sink, read)
        for table in ("wallet_movements", "wallet_entries"):
            assert f"Seq Scan on {table}" not in plan, f"{name}: {plan}"
        assert not re.search(
            r"Index Cond: \(chain_id = '?\d+'?(::bigint)?\)$", plan, re.MULTILINE
        ), plan
        if name in GROUP_READINGS:
            assert "wallet_entries_time on wallet_entries" in plan, f"{name}: {plan}"
            assert "Sort" not in plan, f"{name}: {plan}"
