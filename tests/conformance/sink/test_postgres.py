"""Specific to PostgreSQL sinks: types, fixed options, partitions, hosts, restarts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from gapless.chains.evm.networks import CUSTOM
from gapless.chains.evm.tables import TRANSACTIONS
from gapless.chains.opening import open_sink
from gapless.core.errors import FencedOff, SinkError, SinkUnusable
from gapless.core.ranges import Span
from gapless.sinks import Access
from gapless.sinks.postgres import PostgresSink, database, locks
from gapless.verification import Verification
from tests.conformance.sink.stage import (
    CHAIN_ID,
    HEADERS_OF_TEN,
    batch,
    examine,
    held,
    ranges,
    rows_of,
)
from tests.evm import EVERY_TABLE, SCHEMA
from tests.pooler import pooler
from tests.servers import PostgresServer


@pytest.fixture
def schema(postgres_target: str) -> str:
    return postgres_target.partition("schema=")[2]


@pytest.fixture
async def connection(records_database: str, schema: str) -> AsyncIterator[asyncpg.Connection]:
    opened = await asyncpg.connect(records_database, server_settings={"search_path": schema})
    yield opened
    await opened.close()


async def indexes(connection: asyncpg.Connection, schema: str) -> int:
    query = "SELECT count(*) FROM pg_indexes WHERE schemaname = $1 AND indexname !~ '_pkey'"
    return int(await connection.fetchval(query, schema))


async def test_numbers_are_exact_and_ready_for_arithmetic(
    postgres_target: str, connection: asyncpg.Connection
) -> None:
    async with await open_sink(postgres_target) as sink:
        await sink.write(batch(0, 9), 1)
    total = await connection.fetchval("SELECT sum(value) FROM transactions")
    values = rows_of("transactions", Span(0, 9))["value"].to_pylist()
    assert int(total) == sum(int.from_bytes(value, "big") for value in values)
    names = {row["column_name"] for row in await _columns(connection, "transactions")}
    assert names == {column.name for column in TRANSACTIONS.columns}, "no rounded copies"


async def _columns(connection: asyncpg.Connection, table: str) -> list[asyncpg.Record]:
    return await connection.fetch(
        "SELECT column_name FROM information_schema.columns"
        " WHERE table_schema = current_schema AND table_name = $1",
        table,
    )


async def test_people_can_read_it(postgres_target: str, connection: asyncpg.Connection) -> None:
    async with await open_sink(postgres_target) as sink:
        await sink.write(batch(0, 5), 1)
    row = await connection.fetchrow("SELECT * FROM blocks_hex WHERE block_number = 5")
    assert row is not None
    (honest,) = rows_of("blocks", Span(5, 5)).to_pylist()
    assert row["hash"] == "0x" + honest["hash"].hex()
    assert row["block_time"].timestamp() is not None
    assert row["base_fee_per_gas"] == int.from_bytes(honest["base_fee_per_gas"], "big")
    signed = await connection.fetchrow("SELECT r, hash FROM transactions_hex LIMIT 1")
    assert signed is not None
    assert int(signed["r"], 16) > 0
    assert not signed["r"].startswith("0x0")


async def test_indexes_are_built_at_the_end_and_once(
    postgres_target: str, connection: asyncpg.Connection, schema: str
) -> None:
    async with await PostgresSink.open(postgres_target, SCHEMA) as sink:
        await sink.write(batch(0, 5), 1)
        assert await indexes(connection, schema) == 0
        await asyncio.gather(sink.finish(), sink.finish())
        assert await indexes(connection, schema) == sum(len(each.indexes) for each in EVERY_TABLE)
        await sink.finish()
        await sink.write(batch(6, 9), 1)
        await examine(sink)


async def test_rows_need_their_parents(postgres_target: str) -> None:
    async with await open_sink(postgres_target) as sink:
        await sink.write(batch(0, 5), 1)
        with pytest.raises(SinkUnusable, match="foreign key") as refused:
            await sink.write(batch(6, 12, tables=["blocks", "logs"]), 1)
        assert "fk=off" in str(refused.value.hint)
        await sink.write(batch(3, 5, tables=["blocks", "logs"]), 1)  # whose transactions exist
        await examine(sink)


@pytest.mark.parametrize("options", ["", "&fk=off"])
async def test_logs_need_no_transactions_if_there_are_none(
    postgres_target: str, connection: asyncpg.Connection, options: str
) -> None:
    async with await open_sink(f"{postgres_target}{options}") as sink:
        await sink.write(batch(0, 12, tables=["blocks", "logs"]), 1)
        await sink.write(batch(0, 5), 2)
        assert (await held(sink, "logs")).equals(rows_of("logs", Span(0, 12)))
        await examine(sink)
    keys = "SELECT count(*) FROM pg_constraint WHERE contype = 'f' AND conrelid = 'logs'::regclass"
    assert await connection.fetchval(keys) == (0 if options else 1)


@pytest.mark.parametrize("options", ["&partition=1000", "&partition=1000&fk=off"])
async def test_large_tables_may_be_partitioned(
    postgres_target: str, connection: asyncpg.Connection, options: str
) -> None:
    async with await open_sink(f"{postgres_target}{options}") as sink:
        await sink.write(batch(0, 12), 1)
        await sink.finish()
        await sink.write(batch(13, 20), 2)
        await sink.retract(CHAIN_ID, Span(5, 1_000_000), 3)
        await sink.write(batch(5, 25), 3)
        await examine(sink)
        report = await Verification(sink, CHAIN_ID, CUSTOM, {}, True).report()
        assert report is not None
        assert report.complete
    parts = "SELECT count(*) FROM pg_inherits WHERE inhparent = $1::text::regclass"
    found = [await connection.fetchval(parts, each.name) for each in EVERY_TABLE]
    assert found == [0, 1, 1, 0, 1]
    rows = await connection.fetchval("SELECT count(*) FROM transactions_0")
    assert rows == rows_of("transactions", Span(0, 25)).num_rows


@pytest.mark.parametrize(
    ("made", "later", "complaint"),
    [
        ("", "&fk=off", "was created with `fk=on`"),
        ("&fk=off", "&fk=on", "was created with `fk=off`"),
        ("", "&partition=5000", "was created with `partition=off`"),
        ("&partition=5000", "&partition=6000", "was created with `partition=5000`"),
    ],
)
async def test_the_layout_of_tables_cannot_be_changed_later(
    postgres_target: str, made: str, later: str, complaint: str
) -> None:
    await (await open_sink(f"{postgres_target}{made}")).close()
    with pytest.raises(SinkUnusable, match=complaint) as refused:
        await open_sink(f"{postgres_target}{later}")
    assert refused.value.hint
    await (await open_sink(postgres_target)).close()  # without options, the existing layout is used


async def test_tables_of_others_are_not_touched(
    postgres_target: str, connection: asyncpg.Connection, schema: str, records_database: str
) -> None:
    with pytest.raises(SinkUnusable, match="has no sink in its schema"):
        await open_sink(postgres_target, Access.READ)
    await connection.execute(f"CREATE SCHEMA {schema}; CREATE TABLE blocks (height bigint)")
    with pytest.raises(SinkUnusable, match="has a table `blocks` that Gapless did not create"):
        await open_sink(postgres_target)
    with pytest.raises(SinkUnusable, match="belongs to the ledger"):
        await open_sink(f"{records_database}?schema=gapless")
    assert [it["tablename"] for it in await _tables(connection, schema)] == ["blocks"]


async def _tables(connection: asyncpg.Connection, schema: str) -> list[asyncpg.Record]:
    return await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = $1", schema)


async def test_a_write_within_a_transaction_retries_within_it(
    postgres_target: str,
    connection: asyncpg.Connection,
    records_database: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With cells of one height, two distant writers meet at a record that both cut."""
    monkeypatch.setattr(locks, "CELL", 1)
    other = await asyncpg.connect(records_database)
    async with await PostgresSink.open(postgres_target, SCHEMA) as sink:
        await sink.write(batch(0, 39), 1)
        await connection.execute("BEGIN")
        await sink.write_within(connection, batch(3, 3), 2)
        await other.execute("BEGIN")
        waiting = asyncio.create_task(sink.write_within(other, batch(30, 30), 3))
        done, _ = await asyncio.wait([waiting], timeout=0.2)
        assert not done
        assert await ranges(sink) == [(0, 39, 1)]
        await connection.execute("COMMIT")
        written = {record.dataset: record.span for record in await waiting}
        assert written == dict.fromkeys((each.name for each in EVERY_TABLE), Span(30, 30))
        await other.execute("COMMIT")
        cut = [(0, 2, 1), (3, 3, 2), (4, 29, 1), (30, 30, 3), (31, 39, 1)]
        assert await ranges(sink) == cut
        await examine(sink)
    await other.close()


async def test_changes_are_numbered_in_the_order_of_the_commits(
    postgres_target: str,
    connection: asyncpg.Connection,
    records_database: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A transaction that began earlier and commits later gets a higher position, not a lower one.

    The writers are distant, so that nothing but the position makes one wait for the other.
    """
    monkeypatch.setattr(locks, "CELL", 1)
    other = await asyncpg.connect(records_database)
    async with await PostgresSink.open(postgres_target, SCHEMA) as sink:
        await sink.write(batch(10, 10), 1)  # creates the tables
        start = await sink.add_change_reader(CHAIN_ID, "alice")
        for each in (connection, other):
            await each.execute("BEGIN; SELECT pg_current_xact_id()")
        await sink.write_within(other, batch(20, 21), 2)  # began second, writes first
        waiting = asyncio.create_task(sink.write_within(connection, batch(0, 1), 3))
        done, _ = await asyncio.wait([waiting], timeout=0.2)
        assert not done
        assert await sink.changes(CHAIN_ID, start) == []
        await other.execute("COMMIT")
        (first,) = await sink.changes(CHAIN_ID, start)
        assert first.span == Span(20, 21)
        await waiting
        assert await sink.changes(CHAIN_ID, first.position) == []
        await connection.execute("COMMIT")
        (second,) = await sink.changes(CHAIN_ID, first.position)
        assert second.span == Span(0, 1)
    await other.close()


async def test_a_transaction_that_is_rolled_back_leaves_no_position(
    postgres_target: str,
    connection: asyncpg.Connection,
    records_database: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(locks, "CELL", 1)
    other = await asyncpg.connect(records_database)
    async with await PostgresSink.open(postgres_target, SCHEMA) as sink:
        await sink.write(batch(10, 10), 1)
        start = await sink.add_change_reader(CHAIN_ID, "alice")
        for each in (connection, other):
            await each.execute("BEGIN")
        await sink.write_within(connection, batch(0, 1), 2)
        waiting = asyncio.create_task(sink.write_within(other, batch(20, 21), 3))
        await asyncio.wait([waiting], timeout=0.2)
        await connection.execute("ROLLBACK")
        await waiting
        await other.execute("COMMIT")
        (change,) = await sink.changes(CHAIN_ID, start)
        assert (change.position, change.span) == (start + 1, Span(20, 21))
    await other.close()


async def test_a_reader_registers_between_transactions(
    postgres_target: str, connection: asyncpg.Connection
) -> None:
    """A writer that has not seen the reader is committed before the reader looks at the rows."""
    async with await PostgresSink.open(postgres_target, SCHEMA) as sink:
        await sink.write(batch(10, 10), 1)
        await connection.execute("BEGIN")
        await sink.write_within(connection, batch(0, 1), 2)
        registering = asyncio.create_task(sink.add_change_reader(CHAIN_ID, "alice"))
        done, _ = await asyncio.wait([registering], timeout=0.2)
        assert not done
        await connection.execute("COMMIT")
        start = await registering
        assert await ranges(sink) == [(0, 1, 2), (10, 10, 1)]
        assert await sink.changes(CHAIN_ID, start) == []


async def test_a_reader_needs_only_read_privileges(
    postgres_target: str, connection: asyncpg.Connection, schema: str
) -> None:
    async with await open_sink(postgres_target) as sink:
        await sink.write(batch(0, 5), 1)
    await connection.execute(
        f"CREATE ROLE {schema} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {schema};"
        f" GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {schema}"
    )
    theirs = postgres_target.replace("postgres@", f"{schema}@")
    async with await open_sink(theirs, Access.READ) as sink:
        await examine(sink)
        report = await Verification(sink, CHAIN_ID, CUSTOM, {}, True).report()
        assert report is not None
        assert report.complete
    async with await open_sink(theirs, Access.WRITE) as sink:
        with pytest.raises(SinkUnusable, match="the user lacks a privilege") as refused:
            await sink.write(batch(6, 9), 1)
        assert refused.value.hint


async def test_a_newer_format_is_not_touched(
    postgres_target: str, connection: asyncpg.Connection
) -> None:
    await (await open_sink(postgres_target)).close()
    await connection.execute("UPDATE _gapless_sink SET version = 2")
    with pytest.raises(
        SinkUnusable, match="has format 2, but this version of Gapless supports format 1"
    ):
        await open_sink(postgres_target)


async def test_a_table_of_an_older_version_gets_the_new_columns(
    postgres_target: str, connection: asyncpg.Connection
) -> None:
    async with await open_sink(postgres_target) as sink:
        await sink.write(batch(0, 9), 1)
    for table, column in (("blocks", "send_root"), ("transactions", "source_hash")):
        await connection.execute(f"DROP VIEW {table}_hex; ALTER TABLE {table} DROP COLUMN {column}")
    async with await open_sink(postgres_target, Access.READ) as sink:
        await examine(sink)
        assert (await held(sink, "blocks")).equals(rows_of("blocks", Span(0, 9)))
    assert "send_root" not in {it["column_name"] for it in await _columns(connection, "blocks")}
    async with await open_sink(postgres_target) as sink:
        await examine(sink)
        await sink.write(batch(10, 12), 1)
        assert (await held(sink, "blocks")).equals(rows_of("blocks", Span(0, 12)))
    await connection.execute("DROP VIEW blocks_hex; ALTER TABLE blocks RENAME hash TO name")
    with pytest.raises(SinkUnusable, match=r"the columns of `blocks` in .* do not match"):
        await open_sink(postgres_target)


async def test_a_schema_of_an_older_version_has_no_requests_or_changes(
    postgres_target: str, connection: asyncpg.Connection
) -> None:
    async with await open_sink(postgres_target) as sink:
        await sink.write(batch(0, 9), 1)
    await connection.execute("DROP TABLE _gapless_requests, _gapless_changes")
    async with await open_sink(postgres_target, Access.READ) as sink:
        assert await sink.requests(CHAIN_ID) == []
        assert await sink.chains() == [CHAIN_ID]
    async with await open_sink(postgres_target) as sink:
        await sink.request(CHAIN_ID, HEADERS_OF_TEN)
        assert await sink.requests(CHAIN_ID) == [HEADERS_OF_TEN]
        start = await sink.add_change_reader(CHAIN_ID, "reader")
        await sink.write(batch(10, 12), 1)
        assert len(await sink.changes(CHAIN_ID, start)) == 1


@pytest.mark.parametrize("option", ["", "&default_transaction_isolation=serializable"])
async def test_concurrent_processes_create_one_sink(postgres_target: str, option: str) -> None:
    sinks = await asyncio.gather(*(open_sink(postgres_target + option) for _ in range(6)))
    assert len({sink.id for sink in sinks}) == 1
    await asyncio.gather(*(sink.write(batch(5 * n, 5 * n + 4), 1) for n, sink in enumerate(sinks)))
    await examine(sinks[0])
    assert await ranges(sinks[0]) == [(0, 29, 1)]
    for sink in sinks:
        await sink.close()


async def test_distant_writers_do_not_wait_and_near_ones_do(
    postgres_target: str, connection: asyncpg.Connection
) -> None:
    async with await open_sink(postgres_target) as sink:
        await sink.write(batch(0, 4), 1)
        far, near = Span(10 * locks.CELL, 10 * locks.CELL), Span(10, 20)
        async with connection.transaction():  # another write, far away, is in progress
            await connection.execute(locks.to_write(sink.id, CHAIN_ID, far))
            await sink.write(batch(5, 9), 1)
        async with connection.transaction():
            await connection.execute(locks.to_write(sink.id, CHAIN_ID, near))
            waiting = asyncio.create_task(sink.write(batch(5, 9), 2))
            done, _ = await asyncio.wait([waiting], timeout=0.2)
            assert not done
        await waiting
        await examine(sink)


async def test_two_writers_that_cut_one_range_far_apart_both_succeed(
    postgres_target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With cells of one height, they share nothing but the record."""
    monkeypatch.setattr(locks, "CELL", 1)
    async with await open_sink(postgres_target) as one, await open_sink(postgres_target) as two:
        await one.write(batch(0, 39), 1)
        await asyncio.gather(
            *(one.write(batch(at, at), 2 + at) for at in (3, 9, 15)),
            *(two.write(batch(at, at), 2 + at) for at in (24, 30)),
        )
        await examine(one)
        assert len(await ranges(one)) == 2 * 5 + 1


@pytest.mark.parametrize("option", ["", "&prepared_statements=off"])
async def test_a_sink_works_through_a_pooler(
    records_database: str, schema: str, option: str
) -> None:
    async with pooler(records_database) as url:
        target = f"{url}?schema={schema}{option}"
        async with await open_sink(target) as one, await open_sink(target) as two:
            for at in range(0, 36, 4):
                sinks = ((one, at), (two, at + 2))
                await asyncio.gather(*(it.write(batch(n, n + 1), 1) for it, n in sinks))
            await asyncio.gather(one.finish(), two.finish())
            await examine(one)
            assert await ranges(one) == [(0, 35, 1)]


async def test_a_restarting_server_is_waited_for(
    postgres: PostgresServer, postgres_target: str
) -> None:
    async with await open_sink(postgres_target) as sink:
        await sink.write(batch(0, 4), 1)
        restarting = asyncio.create_task(asyncio.to_thread(postgres.restart_immediate))
        await asyncio.sleep(0)
        for first in range(5, 35, 5):
            await sink.write(batch(first, first + 4), 1)
        await restarting
        await examine(sink)
        assert await ranges(sink) == [(0, 34, 1)]
        with pytest.raises(FencedOff):
            await sink.write(batch(0, 4), 0)


async def test_a_server_that_stays_down_is_an_error_without_secrets(
    postgres_target: str, monkeypatch: pytest.MonkeyPatch, postgres: PostgresServer
) -> None:
    monkeypatch.setattr(database, "PATIENCE", 0.2)
    secret = postgres_target.replace("postgres@", "postgres:hidden@")
    async with await PostgresSink.open(secret, SCHEMA) as sink:
        postgres.stop("immediate")
        try:
            with pytest.raises(SinkError, match="does not answer") as lost:
                await sink.write(batch(0, 4), 1)
        finally:
            postgres.start()
        assert "hidden" not in f"{lost.value}{lost.value.hint}"
        await sink.write(batch(0, 4), 1)
