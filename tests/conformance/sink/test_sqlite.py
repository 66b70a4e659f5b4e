"""Specific to SQLite sinks: foreign keys, views, indexes, and files of other programs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import apsw
import pytest

from gapless.chains.opening import open_sink
from gapless.core.errors import SinkError, SinkUnusable
from gapless.core.ranges import Span
from gapless.ledger import open_ledger
from gapless.sinks import Access
from gapless.sinks.sqlite import SqliteSink, file
from tests.conformance.sink.stage import (
    CHAIN_ID,
    HEADERS_OF_TEN,
    batch,
    examine,
    held,
    rows_of,
    snapshot,
)
from tests.evm import SCHEMA


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "blocks.db"


def indexes(path: Path) -> int:
    query = "SELECT count(*) FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL"
    return int(apsw.Connection(str(path)).execute(query).get)


async def test_a_new_file_has_no_indexes_until_it_is_finished(path: Path) -> None:
    async with await SqliteSink.open(path, SCHEMA) as sink:
        await sink.write(batch(0, 5), 1)
        assert indexes(path) == 0
        await sink.finish()
        assert indexes(path) > 10
        await sink.write(batch(6, 9), 1)
        await examine(sink)
    assert indexes(path) > 10


async def test_people_can_read_it(path: Path) -> None:
    async with await SqliteSink.open(path, SCHEMA) as sink:
        await sink.write(batch(0, 5), 1)
    connection = apsw.Connection(str(path))
    found = connection.execute("SELECT hash FROM blocks_hex WHERE block_number = 5").get
    assert found == "0x" + rows_of("blocks", Span(5, 5))["hash"][0].as_py().hex()
    assert connection.pragma("foreign_key_check") is None
    assert connection.pragma("journal_mode") == "wal"


async def test_rows_need_their_parents(path: Path) -> None:
    async with await SqliteSink.open(path, SCHEMA) as sink:
        await sink.write(batch(0, 5), 1)
        with pytest.raises(SinkUnusable, match="FOREIGN KEY") as refused:
            await sink.write(batch(6, 12, tables=["blocks", "logs"]), 1)
        assert "fk=off" in str(refused.value.hint)
        await sink.write(batch(3, 5, tables=["blocks", "logs"]), 1)  # whose transactions exist
        await examine(sink)


@pytest.mark.parametrize("options", ["", "?fk=off"])
async def test_logs_need_no_transactions_if_there_are_none(path: Path, options: str) -> None:
    async with await open_sink(f"{path}{options}") as sink:
        await sink.write(batch(0, 12, tables=["blocks", "logs"]), 1)
        await examine(sink)
        await sink.write(batch(0, 5), 2)
        assert (await held(sink, "logs")).equals(rows_of("logs", Span(0, 12)))
        await examine(sink)
    definition = apsw.Connection(str(path)).execute(
        "SELECT sql FROM sqlite_schema WHERE name='logs'"
    )
    assert ("REFERENCES blocks" in definition.get) == (options == "")


async def test_a_ledger_is_not_a_sink(path: Path) -> None:
    await (await open_ledger(str(path))).close()
    for access in Access:
        made = access is Access.CREATE
        with pytest.raises(SinkUnusable, match="ledger" if made else "is not a Gapless sink"):
            await open_sink(str(path), access)


async def test_a_file_of_another_program_is_refused(path: Path) -> None:
    apsw.Connection(str(path)).execute("CREATE TABLE blocks (height INTEGER)")
    with pytest.raises(SinkUnusable, match="has a table `blocks` that Gapless did not create"):
        await open_sink(str(path))
    path.with_suffix(".sqlite").write_bytes(b"not a database, but long enough to look at" * 50)
    with pytest.raises(SinkUnusable, match="cannot be used as a sink"):
        await open_sink(str(path.with_suffix(".sqlite")))


async def test_it_may_share_the_file_with_other_tables(path: Path) -> None:
    apsw.Connection(str(path)).execute("CREATE TABLE mine (height INTEGER)")
    async with await SqliteSink.open(path, SCHEMA) as sink:
        await sink.write(batch(0, 5), 1)
        await examine(sink)


async def test_a_recreated_file_is_a_new_sink(path: Path) -> None:
    async with await SqliteSink.open(path, SCHEMA) as sink:
        before = sink.id
    Path.unlink(path)
    async with await SqliteSink.open(path, SCHEMA) as sink:
        assert sink.id != before


async def test_a_newer_format_is_not_touched(path: Path) -> None:
    await (await SqliteSink.open(path, SCHEMA)).close()
    apsw.Connection(str(path)).execute("UPDATE _gapless_sink SET version = 2")
    with pytest.raises(
        SinkUnusable, match="has format 2, but this version of Gapless supports format 1"
    ):
        await SqliteSink.open(path, SCHEMA)


async def test_a_table_of_an_older_version_gets_the_new_columns(path: Path) -> None:
    async with await SqliteSink.open(path, SCHEMA) as sink:
        await sink.write(batch(0, 9), 1)
    old = apsw.Connection(str(path))
    old.pragma("journal_mode", "DELETE")  # so that everything is in the file
    for table, column in (("blocks", "send_root"), ("transactions", "source_hash")):
        old.execute(f"DROP VIEW {table}_hex; ALTER TABLE {table} DROP COLUMN {column}")
    before = snapshot(path.parent)[path.name]
    async with await SqliteSink.open(path, SCHEMA, Access.READ) as sink:
        await examine(sink)
        assert (await held(sink, "blocks")).equals(rows_of("blocks", Span(0, 9)))
    assert snapshot(path.parent)[path.name] == before
    async with await SqliteSink.open(path, SCHEMA, Access.WRITE) as sink:
        await examine(sink)
        await sink.write(batch(10, 12), 1)
        assert (await held(sink, "blocks")).equals(rows_of("blocks", Span(0, 12)))
        await examine(sink)
    assert old.execute("SELECT send_root FROM blocks_hex WHERE block_number = 11").get is None


async def test_a_file_of_an_older_version_has_no_requests_or_changes(path: Path) -> None:
    async with await SqliteSink.open(path, SCHEMA) as sink:
        await sink.write(batch(0, 9), 1)
    apsw.Connection(str(path)).execute("DROP TABLE _gapless_requests; DROP TABLE _gapless_changes")
    async with await SqliteSink.open(path, SCHEMA, Access.READ) as sink:
        assert await sink.requests(CHAIN_ID) == []
        assert await sink.chains() == [CHAIN_ID]
    async with await SqliteSink.open(path, SCHEMA) as sink:
        await sink.request(CHAIN_ID, HEADERS_OF_TEN)
        assert await sink.requests(CHAIN_ID) == [HEADERS_OF_TEN]
        start = await sink.add_change_reader(CHAIN_ID, "reader")
        await sink.write(batch(10, 12), 1)
        assert len(await sink.changes(CHAIN_ID, start)) == 1


@pytest.mark.parametrize(
    "change", ["RENAME COLUMN hash TO name", "ADD COLUMN of_the_future INTEGER"]
)
async def test_a_table_with_other_columns_is_not_touched(path: Path, change: str) -> None:
    async with await SqliteSink.open(path, SCHEMA) as sink:
        await sink.write(batch(0, 9), 1)
    apsw.Connection(str(path)).execute(f"DROP VIEW blocks_hex; ALTER TABLE blocks {change}")
    with pytest.raises(SinkUnusable, match=r"the columns of `blocks` in .* do not match"):
        await SqliteSink.open(path, SCHEMA)


async def test_concurrent_processes_create_one_sink(tmp_path: Path) -> None:
    for attempt in range(20):  # it depends on chance who switches to a write-ahead log first
        path = tmp_path / f"{attempt}.db"
        sinks = await asyncio.gather(*(SqliteSink.open(path, SCHEMA) for _ in range(8)))
        assert len({sink.id for sink in sinks}) == 1
        for sink in sinks:
            await sink.close()


async def test_a_lasting_lock_is_an_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file, "BUSY_SECONDS", 0.02)
    async with await SqliteSink.open(path, SCHEMA) as sink:
        holder = apsw.Connection(str(path))
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(SinkError, match="has been locked"):
            await sink.write(batch(0, 5), 1)
        holder.execute("ROLLBACK")
        await sink.write(batch(0, 5), 1)


async def test_a_cut_range_counts_the_rows_that_are_stored(path: Path) -> None:
    async with await SqliteSink.open(path, SCHEMA) as sink:
        await sink.write(batch(0, 9), 1)
        apsw.Connection(str(path)).execute("DELETE FROM logs WHERE block_number < 9")
        whole = {it.dataset: it.rows for it in await sink.stored(CHAIN_ID)}
        part = {it.dataset: it.rows for it in await sink.stored(CHAIN_ID, Span(0, 8))}
        assert part["logs"] == 0 < whole["logs"]
