"""Specific to DuckDB sinks: one writing process, readers, and an optional library."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

from gapless.chains.evm.tables import BLOCKS
from gapless.chains.opening import open_sink
from gapless.core.errors import SinkUnusable
from gapless.core.ranges import Span
from gapless.schema import Schema, Table
from gapless.sinks import Access
from gapless.sinks.duckdb import DuckdbSink
from tests.conformance.sink.stage import (
    CHAIN_ID,
    HEADERS_OF_TEN,
    batch,
    examine,
    held,
    listed,
    ranges,
    rows_of,
    snapshot,
)
from tests.conformance.sink.writer import writer
from tests.evm import EVERY_TABLE, SCHEMA


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "blocks.duckdb"


def asked(path: Path, *statements: str) -> list[Any]:
    """What others see who open the file."""
    with duckdb.connect(str(path)) as connection:
        return [connection.execute(each).fetchall() for each in statements][-1]


async def test_people_can_read_it(path: Path) -> None:
    async with await DuckdbSink.open(path, SCHEMA) as sink:
        await sink.write(batch(0, 5), 1)
    query = (
        "SELECT hash, strftime(block_time, '%Y-%m-%d %H') FROM blocks_hex WHERE block_number = 5"
    )
    hash_ = "0x" + rows_of("blocks", Span(5, 5))["hash"][0].as_py().hex()
    assert asked(path, query) == [(hash_, "2023-11-14 22")]
    for each in EVERY_TABLE:
        names = asked(path, f"DESCRIBE {each.name}_hex")
        assert {it[0] for it in names} == {*(it.name for it in each), "block_time"}
        asked(path, f"SELECT * FROM {each.name}_hex")


async def test_everything_is_in_the_file_when_it_is_finished(path: Path) -> None:
    async with await DuckdbSink.open(path, SCHEMA) as sink:
        await sink.write(batch(0, 5), 1)
        assert listed(path.parent) == ["blocks.duckdb", "blocks.duckdb.wal"]
        await sink.finish()
        assert listed(path.parent) == ["blocks.duckdb"]
        await sink.finish()
        await sink.write(batch(6, 9), 1)
        await examine(sink)


async def test_only_one_process_writes(path: Path) -> None:
    with writer(str(path), 1) as other:
        assert other.said() == "open"
        for access in Access:
            with pytest.raises(SinkUnusable, match="is open in another process") as refused:
                await open_sink(str(path), access)
            assert "one process" in str(refused.value.hint)
    async with await open_sink(str(path), Access.READ) as sink:
        await examine(sink)


async def test_several_processes_read(path: Path) -> None:
    async with await DuckdbSink.open(path, SCHEMA) as sink:
        await sink.write(batch(0, 5), 1)
    async with await DuckdbSink.open(path, SCHEMA, Access.READ) as sink:
        look = (
            f"import duckdb; duckdb.connect({str(path)!r}, read_only=True).sql('FROM logs').show()"
        )
        other = await asyncio.create_subprocess_exec(
            sys.executable, "-c", look, stdout=asyncio.subprocess.DEVNULL
        )
        assert await other.wait() == 0
        await examine(sink)


async def test_writers_in_one_process_take_turns(path: Path) -> None:
    """Without a key, DuckDB itself would let two of them insert the same rows."""
    sinks = await asyncio.gather(*(DuckdbSink.open(path, SCHEMA) for _ in range(3)))
    assert len({sink.id for sink in sinks}) == 1
    for fence in (1, 2):
        await asyncio.gather(*(sink.write(batch(0, 9), fence) for sink in sinks))
    for sink in sinks:
        assert await ranges(sink) == [(0, 9, 2)]
        await examine(sink)
        await sink.close()


async def test_without_the_library_the_error_says_how_to_get_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(SinkUnusable, match="needs DuckDB, which is not installed") as refused:
        await open_sink(str(path))
    assert refused.value.hint == 'pip install "gapless[duckdb]"'
    assert listed(path.parent) == []


async def test_a_file_of_another_program_is_refused(path: Path) -> None:
    asked(path, "CREATE TABLE blocks (height INTEGER)")
    with pytest.raises(SinkUnusable, match="has a table `blocks` that Gapless did not create"):
        await open_sink(str(path))
    with pytest.raises(SinkUnusable, match="is not a Gapless sink"):
        await open_sink(str(path), Access.READ)
    Path.write_bytes(path, b"not a database, but long enough to look at" * 50)
    with pytest.raises(SinkUnusable, match="is not a valid DuckDB database file"):
        await open_sink(str(path))


async def test_it_may_share_the_file_with_other_tables(path: Path) -> None:
    asked(path, "CREATE TABLE mine (height INTEGER)")
    async with await DuckdbSink.open(path, SCHEMA) as sink:
        await sink.write(batch(0, 5), 1)
        await examine(sink)


async def test_a_recreated_file_is_a_new_sink(path: Path) -> None:
    async with await DuckdbSink.open(path, SCHEMA) as sink:
        before = sink.id
    Path.unlink(path)
    async with await DuckdbSink.open(path, SCHEMA) as sink:
        assert sink.id != before


async def test_a_newer_format_is_not_touched(path: Path) -> None:
    await (await DuckdbSink.open(path, SCHEMA)).close()
    asked(path, "UPDATE _gapless_sink SET version = 2")
    with pytest.raises(
        SinkUnusable, match="has format 2, but this version of Gapless supports format 1"
    ):
        await DuckdbSink.open(path, SCHEMA)


async def test_a_table_of_an_older_version_gets_the_new_columns(path: Path) -> None:
    async with await DuckdbSink.open(path, SCHEMA) as sink:
        await sink.write(batch(0, 9), 1)
    for table, column in (("blocks", "send_root"), ("transactions", "source_hash")):
        asked(path, f"DROP VIEW {table}_hex", f"ALTER TABLE {table} DROP COLUMN {column}")
    before = snapshot(path.parent)[path.name]
    async with await DuckdbSink.open(path, SCHEMA, Access.READ) as sink:
        await examine(sink)
        assert (await held(sink, "blocks")).equals(rows_of("blocks", Span(0, 9)))
    assert snapshot(path.parent)[path.name] == before
    async with await DuckdbSink.open(path, SCHEMA) as sink:
        await sink.write(batch(10, 12), 1)
        assert (await held(sink, "blocks")).equals(rows_of("blocks", Span(0, 12)))
        await examine(sink)
    assert asked(path, "SELECT send_root FROM blocks_hex WHERE block_number = 11") == [(None,)]


async def test_a_file_of_an_older_version_has_no_requests_or_changes(path: Path) -> None:
    async with await DuckdbSink.open(path, SCHEMA) as sink:
        await sink.write(batch(0, 9), 1)
    asked(path, "DROP TABLE _gapless_requests", "DROP TABLE _gapless_changes")
    async with await DuckdbSink.open(path, SCHEMA, Access.READ) as sink:
        assert await sink.requests(CHAIN_ID) == []
        assert await sink.chains() == [CHAIN_ID]
    async with await DuckdbSink.open(path, SCHEMA) as sink:
        await sink.request(CHAIN_ID, HEADERS_OF_TEN)
        assert await sink.requests(CHAIN_ID) == [HEADERS_OF_TEN]
        start = await sink.add_change_reader(CHAIN_ID, "reader")
        await sink.write(batch(10, 12), 1)
        assert len(await sink.changes(CHAIN_ID, start)) == 1


@pytest.mark.parametrize(
    "change", ["RENAME COLUMN hash TO name", "ADD COLUMN of_the_future INTEGER"]
)
async def test_a_table_with_other_columns_is_not_touched(path: Path, change: str) -> None:
    await (await DuckdbSink.open(path, SCHEMA)).close()
    asked(path, "DROP VIEW blocks_hex", f"ALTER TABLE blocks {change}")
    for access in Access:
        with pytest.raises(SinkUnusable, match=r"the columns of `blocks` in .* do not match"):
            await DuckdbSink.open(path, SCHEMA, access)


async def test_a_reader_accepts_a_file_older_than_a_chain_family(path: Path) -> None:
    async with await DuckdbSink.open(path, SCHEMA) as sink:
        await sink.write(batch(0, 9), 1)
    newer = Table("newer_blocks", "Of another family.", BLOCKS.key, BLOCKS.columns[:3])
    schema = Schema([EVERY_TABLE, [newer]])
    async with await DuckdbSink.open(path, schema, Access.READ) as sink:
        assert (await sink.read(newer, CHAIN_ID, Span(0, 9))).num_rows == 0
        assert (await sink.counts(newer, CHAIN_ID, Span(0, 9))).num_rows == 0
    async with await DuckdbSink.open(path, schema) as sink:
        await sink.retract(CHAIN_ID, Span(0, 9), 2)
        assert await sink.stored(CHAIN_ID) == []
