"""Statements that workers run repeatedly must not read more as more chunks have ended.

A plan that reads the table, or finds chunks by the first column of the key alone, is correct but
too slow next to a million chunks. PostgreSQL must not choose it even if its statistics are missing
or old.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import apsw
import asyncpg
import pytest

from gapless.ledger.postgres import statements as postgres_dialect
from gapless.ledger.postgres.transactions import Scope, begin
from gapless.ledger.sqlite import database as sqlite_dialect
from tests.support import PostgresHome, SqliteHome, create, open_at

HOT = [
    "lock_candidate",
    "inspect",
    "expired",
    "take_failed",
    "take_pending",
    "take_ranked",
    "lock_cursor",
    "advance_cursor",
    "revoke",
    "append_chunks",
    "delete_dead",
    "delete_attempts_of",
    "foldable",
    "claimed_before",
    "plan",
    "has_work",
    "next_due",
    "active_jobs",
    "heartbeat",
    "signals",
    "complete",
    "fail",
    "release",
    "confirm",
    "hold",
    "backfill",
    "lock_backfill",
    "open_work",
    "unsettled",
    "drained",
    "append_events",
    "end_leases",
    "sweep_pending",
    "sweep_failed",
    "sweep_running",
    "sweep_by_force",
    "add_attempt",
    "attempts",
    "hasten",
    "dead",
    "chunks_abandoned_page",
    "purge_dead",
    "purge_all_dead",
    "first_error",
    "queue_backlog",
    *("pass_counters", "open_segments", "pass_troubles", "inherit_syncs", "still_needed"),
]
LISTS = [
    *("syncs", "syncs_of_group", "syncs_of_address", "syncs_of_network", "syncs_of_wallets"),
    *("unfinished_syncs", "wallet_page", "overrides", "remove_override", "pass_counters"),
    *("open_segments", "pass_troubles", "missing_chunks", "selections", "still_needed"),
]
FILL = """
INSERT INTO gapless.chunks (backfill_id, chunk_index, rank, first, last, status, planned_at, due)
SELECT 'bf', n, n, n, n, {status}, 0, 0 FROM generate_series(0, 20000) AS n
"""
MIXED = "CASE n % 500 WHEN 0 THEN 'PENDING' WHEN 1 THEN 'RUNNING' ELSE 'COMPLETE' END"
STATISTICS = {
    "none": [FILL.format(status=MIXED)],
    "of an empty table": [
        "VACUUM ANALYZE gapless.chunks",
        "VACUUM ANALYZE gapless.backfills",
        FILL.format(status=MIXED),
    ],
    "of the time when all were pending": [
        FILL.format(status="'PENDING'"),
        "ANALYZE gapless.chunks",
        f"UPDATE gapless.chunks SET status = {MIXED.replace('n %', 'chunk_index %')}",
    ],
    "up to date": [FILL.format(status=MIXED), "VACUUM ANALYZE gapless.chunks"],
}


@pytest.fixture(params=STATISTICS)
async def filled(
    request: pytest.FixtureRequest, fresh_postgres_home: PostgresHome
) -> AsyncIterator[asyncpg.Connection]:
    """A ledger of 20,001 chunks, with the statistics that the parameter names."""
    ledger = await open_at(fresh_postgres_home)
    await create(ledger, partitions=30_000)
    await ledger.close()
    connection = await asyncpg.connect(fresh_postgres_home.url, statement_cache_size=0)
    await connection.execute("ALTER TABLE gapless.chunks SET (autovacuum_enabled = off)")
    for statement in STATISTICS[request.param]:
        await connection.execute(statement)
    yield connection
    await connection.close()


async def test_postgres_finds_chunks_by_their_whole_key_or_as_open_ones(
    filled: asyncpg.Connection,
) -> None:
    for name in HOT:
        plan = await _postgres_plan(filled, name)
        assert "Seq Scan on chunks" not in plan, f"{name}: {plan}"
        assert "Bitmap" not in plan, f"{name}: {plan}"
        for scan in re.findall(r"using chunks_pkey on chunks.*\n(?: *Index Cond: .*)?", plan):
            assert "chunk_index" in scan, f"{name}: {plan}"


async def _postgres_plan(connection: asyncpg.Connection, name: str) -> str:
    """How a statement is run, whatever its parameters are."""
    text, statement = postgres_dialect.NUMBERED[name], postgres_dialect.STATEMENTS[name]
    await connection.execute(begin(Scope(write=True, within=10.0)))
    await connection.execute(f"PREPARE hot AS {text}")
    nulls = ", ".join("NULL" for _ in statement.parameters)
    call = f"EXECUTE hot({nulls})" if nulls else "EXECUTE hot"
    rows = await connection.fetch(f"EXPLAIN (COSTS OFF) {call}")
    await connection.execute("ROLLBACK")
    await connection.execute("DEALLOCATE hot")
    return "\n".join(row[0] for row in rows)


async def test_postgres_lists_wallets_and_syncs_by_an_index(filled: asyncpg.Connection) -> None:
    for name in LISTS:
        plan = await _postgres_plan(filled, name)
        assert "Seq Scan" not in plan, f"{name}: {plan}"
        for index, condition in re.findall(r"Scan using (\w+) on .*\n *(.*)", plan):
            whole = index in ("backfills_active", "backfills_unsuccessful")
            assert whole or condition.startswith("Index Cond"), f"{name}: {plan}"
        if name != "unfinished_syncs":  # which sorts what it finds
            assert "Sort" not in plan, f"{name}: {plan}"


async def test_sqlite_lists_wallets_and_syncs_by_an_index(sqlite_home: SqliteHome) -> None:
    await (await open_at(sqlite_home)).close()
    connection = apsw.Connection(str(sqlite_home.path))
    for name in LISTS:
        (step,) = sqlite_dialect.STEPS[name]
        rows = connection.execute(
            f"EXPLAIN QUERY PLAN {step.text}", dict.fromkeys(step.parameters)
        ).fetchall()
        plan = [str(row[-1]) for row in rows]
        for line in plan:
            assert not re.search(r"SCAN (s|p|w|c|n|syncs|wallets|overrides)$", line), (
                f"{name}: {plan}"
            )
        if name not in ("unfinished_syncs", "pass_counters", "open_segments"):  # which sort
            assert not any("TEMP B-TREE" in line for line in plan), f"{name}: {plan}"
    connection.close()


async def test_sqlite_finds_chunks_by_their_whole_key_or_as_open_ones(
    sqlite_home: SqliteHome,
) -> None:
    await (await open_at(sqlite_home)).close()
    connection = apsw.Connection(str(sqlite_home.path))
    for name in HOT:
        for step in sqlite_dialect.STEPS[name]:
            values = dict.fromkeys(step.parameters)
            plan = connection.execute(f"EXPLAIN QUERY PLAN {step.text}", values).fetchall()
            for line in (str(row[-1]) for row in plan):
                assert not re.search(r"SCAN (chunks|c|events)$", line), f"{name}: {line}"
                assert "chunks USING PRIMARY KEY (backfill_id=?)" not in line, f"{name}: {line}"
                assert "c USING PRIMARY KEY (backfill_id=?)" not in line, f"{name}: {line}"
    connection.close()
