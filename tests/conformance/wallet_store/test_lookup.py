"""Rows of wallets are found in stored tables by index, and all that derivation needs."""

from __future__ import annotations

from dataclasses import replace

from gapless.chains.opening import open_sink
from gapless.core.ranges import Span
from gapless.schema import Table
from gapless.schema.arrow import arrow_schema
from gapless.sinks import Access, AccompaniedSink, CompanionTransaction
from gapless.sinks.dialect import SQLITE
from gapless.sinks.postgres import seeking as postgres_seeking
from gapless.sinks.sqlite import seeking as sqlite_seeking
from gapless.wallets.store import WalletStore
from tests.conformance.sink.stage import CHAIN_ID
from tests.conformance.wallet_store.stage import (
    ALL,
    NEEDED,
    NETWORK,
    RULES,
    WALLETS,
    blocks,
    moved,
    tables,
)
from tests.evm import table

US = WALLETS[:2]


async def test_rows_are_found_with_their_transactions_and_blocks(
    store: WalletStore, sink: AccompaniedSink
) -> None:
    await sink.write(blocks(0, 40), 1)
    for span in (ALL, Span(7, 23), Span(41, 50)):
        rows = await store.find_rows(RULES, NETWORK, US, span)
        assert rows.keys() == {*NEEDED}
        assert RULES.movements(rows, NETWORK, US) == moved(span, US)
        assert rows["logs"].num_rows < tables()["logs"].num_rows
        for name, found in rows.items():
            assert found.schema.equals(arrow_schema(table(name)))
            whole = {str(row) for row in tables()[name].to_pylist()}
            assert {str(row) for row in found.to_pylist()} <= whole
            keys = [*zip(*(found[each].to_pylist() for each in table(name).key), strict=True)]
            assert keys == sorted(set(keys))


async def test_a_sink_without_rows_has_none(store: WalletStore) -> None:
    rows = await store.find_rows(RULES, NETWORK, US, ALL)
    assert [found.num_rows for found in rows.values()] == [0, 0, 0]
    assert await store.find_rows(RULES, NETWORK, [], ALL) == rows


async def test_other_chains_are_not_searched(store: WalletStore, sink: AccompaniedSink) -> None:
    await sink.write(blocks(0, 40), 1)
    rows = await store.find_rows(RULES, replace(NETWORK, chain_id=5), US, ALL)
    assert [found.num_rows for found in rows.values()] == [0, 0, 0]


async def test_the_indexes_are_built_once(
    store: WalletStore, sink: AccompaniedSink, target: str
) -> None:
    await sink.write(blocks(0, 20), 1)
    for _ in range(2):
        await store.find_rows(RULES, NETWORK, US, ALL)
    assert await _scans(sink) == []
    await sink.write(blocks(21, 40), 1)
    async with await open_sink(target, Access.READ) as reader:  # needs no index any more
        rows = await WalletStore.of(reader).find_rows(RULES, NETWORK, US, ALL)
        assert RULES.movements(rows, NETWORK, US) == moved(ALL, US)


async def test_rows_are_found_in_partitions_too(postgres_target: str) -> None:
    async with await open_sink(f"{postgres_target}&partition=1000") as sink:
        assert isinstance(sink, AccompaniedSink)
        await sink.write(blocks(0, 40), 1)
        store = WalletStore.of(sink)
        rows = await store.find_rows(RULES, NETWORK, US, ALL)
        assert RULES.movements(rows, NETWORK, US) == moved(ALL, US)
        assert await store.add_members("home", NETWORK, RULES, US, 10) == moved(Span(11, 40), US)


async def _scans(sink: AccompaniedSink) -> list[str]:
    """Return the steps of plans that walk through a whole table."""

    async def explain(tx: CompanionTransaction) -> list[str]:
        steps = [
            step
            for lookup in RULES.lookups
            for step in await _plan(tx, table(lookup.table), lookup.column)
        ]
        return [
            step for step in steps if step.strip(" ->").upper().startswith(("SCAN", "SEQ SCAN"))
        ]

    return await sink.consult(explain)


async def _plan(tx: CompanionTransaction, of: Table, column: str) -> list[str]:
    if tx.dialect is SQLITE:
        query = f"EXPLAIN QUERY PLAN {sqlite_seeking.keys(of, column)}"
        rows = await tx.execute(query, bytes(20), *ALL, CHAIN_ID)
    else:
        await tx.execute("SET LOCAL enable_seqscan = off")  # or it is best for so few rows
        query = f"EXPLAIN {postgres_seeking.keys(of, '{' + of.name + '}', column)}"
        rows = await tx.execute(query, [bytes(20)], *ALL, CHAIN_ID)
    steps = [str(row[-1]) for row in rows]
    assert any(f"{column} =" in step or f"{column}=" in step for step in steps)
    return steps
