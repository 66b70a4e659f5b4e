"""A damaged file is named, does not affect the rest, and can be replaced."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gapless.chains.evm.tables import BLOCKS, LOGS
from gapless.chains.opening import open_sink
from gapless.core.errors import BrokenSeam, Damaged, SinkError
from gapless.core.ranges import Span
from gapless.sinks import Access, Damage, Sink
from gapless.sinks.parquet import ParquetSink
from tests.conformance.sink.stage import (
    CHAIN_ID,
    EVERYTHING,
    HEADERS,
    batch,
    examine,
    held,
    ranges,
    rows_of,
    snapshot,
)
from tests.evm import EVERY_TABLE, SCHEMA


async def test_an_intact_sink_reports_no_damage(sink: Sink) -> None:
    await sink.write(batch(0, 9), 5)
    await sink.retract(CHAIN_ID, Span(3, 4), 6)
    assert await sink.damage(CHAIN_ID) == []
    assert await sink.damage(CHAIN_ID, Span(2, 99)) == []
    assert await sink.damage(5) == []


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "blocks"


def file_of(path: Path, table: str, name: str) -> Path:
    return path / str(CHAIN_ID) / table / name


def remove(file: Path) -> None:
    file.unlink()


def cut(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def empty(file: Path) -> None:
    os.truncate(file, 0)


def rename_a_column(file: Path) -> None:
    rows = pq.read_table(file)
    pq.write_table(rows.rename_columns(["name", *rows.column_names[1:]]), file)


def retype_a_column(file: Path) -> None:
    rows = pq.read_table(file)
    at = rows.schema.get_field_index("block_number")
    pq.write_table(rows.set_column(at, "block_number", rows["block_number"].cast(pa.int64())), file)


def scramble(file: Path) -> None:
    """Leaves the footer intact: only reading the pages shows the damage."""
    content = bytearray(file.read_bytes())
    content[4 : len(content) // 3] = os.urandom(len(content) // 3 - 4)
    file.write_bytes(content)


def drop_a_row(file: Path) -> None:
    rows = pq.read_table(file)
    pq.write_table(rows.slice(1), file)


Harm = Callable[[Path], None]
SEEN = [remove, cut, empty, rename_a_column, retype_a_column]


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (remove, "is missing"),
        (cut, "cannot be read"),
        (empty, "cannot be read"),
        (rename_a_column, "has columns that do not match"),
        (retype_a_column, "has columns that do not match"),
        (drop_a_row, "rows instead of"),
    ],
)
async def test_damage_is_found_without_reading_everything(
    path: Path, harm: Harm, words: str
) -> None:
    async with await ParquetSink.open(path, SCHEMA) as sink:
        await sink.write(batch(0, 9), 5)
        await sink.write(batch(10, 19), 6)
    harm(file_of(path, "transactions", "10-19.6.parquet"))
    before = snapshot(path)
    async with await ParquetSink.open(path, SCHEMA, Access.READ) as sink:
        (found,) = await sink.damage(CHAIN_ID)
        assert isinstance(found, Damage)
        assert (found.dataset, found.span) == ("transactions", Span(10, 19))
        assert f"`{CHAIN_ID}/transactions/10-19.6.parquet`" in found.message
        assert words in found.message
        assert await sink.damage(CHAIN_ID, Span(0, 9)) == []
        assert await sink.damage(CHAIN_ID, Span(19, 25)) == [found]
    assert snapshot(path) == before


@pytest.mark.parametrize("harm", [*SEEN, scramble])
async def test_reading_damaged_rows_says_where_they_are(path: Path, harm: Harm) -> None:
    async with await ParquetSink.open(path, SCHEMA) as sink:
        await sink.write(batch(0, 9), 5)
        await sink.write(batch(10, 19), 6)
        harm(file_of(path, "logs", "10-19.6.parquet"))
        for attempt in (
            sink.read(LOGS, CHAIN_ID, Span(0, 30)),
            sink.counts(LOGS, CHAIN_ID, Span(15, 15)),
            sink.stored(CHAIN_ID, Span(12, 30)),
        ):
            with pytest.raises(Damaged, match=r"10-19\.6\.parquet") as refused:
                await attempt
            assert (refused.value.dataset, refused.value.span) == ("logs", Span(10, 19))
            assert refused.value.hint
        assert (await held(sink, "blocks")).equals(rows_of("blocks", Span(0, 19)))
        assert (await held(sink, "logs", Span(0, 9))).equals(rows_of("logs", Span(0, 9)))
        assert await ranges(sink, "logs") == [(0, 9, 5), (10, 19, 6)]
        assert [it.span for it in await sink.records(CHAIN_ID, Span(12, 13))] == [(10, 19)] * 5
        await sink.stored(CHAIN_ID, Span(10, 30))  # nothing is cut


@pytest.mark.parametrize("harm", SEEN)
@pytest.mark.parametrize("table", EVERYTHING)
async def test_a_damaged_range_can_be_retracted_and_fetched_again(
    path: Path, table: str, harm: Harm
) -> None:
    async with await ParquetSink.open(path, SCHEMA) as sink:
        for first in (0, 10, 20):
            await sink.write(batch(first, first + 9), 5)
        harm(file_of(path, table, "10-19.5.parquet"))
        await sink.retract(CHAIN_ID, Span(10, 19), 6)
        assert await sink.damage(CHAIN_ID) == []
        await examine(sink)
        await sink.write(batch(10, 19), 6)
        await examine(sink)
        assert (await held(sink, table)).equals(rows_of(table, Span(0, 29)))


@pytest.mark.parametrize("harm", SEEN)
@pytest.mark.parametrize("table", EVERYTHING)
async def test_writing_a_damaged_range_replaces_it(path: Path, table: str, harm: Harm) -> None:
    async with await ParquetSink.open(path, SCHEMA) as sink:
        await sink.write(batch(0, 9), 5)
        await sink.write(batch(12, 16), 5)
        harm(file_of(path, table, "12-16.5.parquet"))
        await sink.write(batch(10, 19), 6)
        assert await sink.damage(CHAIN_ID) == []
        await examine(sink)
        assert (await held(sink, table)).equals(rows_of(table, Span(0, 19)))


@pytest.mark.parametrize("table", EVERYTHING)
async def test_writing_next_to_damage_needs_only_the_records(path: Path, table: str) -> None:
    async with await ParquetSink.open(path, SCHEMA) as sink:
        await sink.write(batch(20, 24), 5)
        remove(file_of(path, table, "20-24.5.parquet"))
        await sink.write(batch(15, 19), 5)
        await sink.write(batch(25, 29), 5)
        with pytest.raises(BrokenSeam):
            await sink.write(batch(25, 29, branch=1), 6)
        assert await sink.damage(CHAIN_ID, Span(0, 19)) == []
        assert len(await sink.damage(CHAIN_ID)) == 1


@pytest.mark.parametrize("branch", [0, 1])
async def test_headers_that_replace_damaged_ones_keep_the_rows_that_belong_to_them(
    path: Path, branch: int
) -> None:
    """The record's last hash shows whether they are the same blocks, even if none can be read."""
    async with await ParquetSink.open(path, SCHEMA) as sink:
        await sink.write(batch(20, 29), 5)
        remove(file_of(path, "blocks", "20-29.5.parquet"))
        await sink.write(batch(20, 29, branch=branch, tables=HEADERS), 6)
        assert await ranges(sink, "logs") == ([] if branch else [(20, 29, 5)])
        assert (await held(sink, "blocks")).num_rows == 10
        await examine(sink)


async def test_a_part_of_a_damaged_file_cannot_be_replaced(path: Path) -> None:
    async with await ParquetSink.open(path, SCHEMA) as sink:
        await sink.write(batch(0, 9), 5)
        before = await sink.stored(CHAIN_ID)
        remove(file_of(path, "logs", "0-9.5.parquet"))
        for attempt in (sink.write(batch(5, 12), 6), sink.retract(CHAIN_ID, Span(5, 12), 6)):
            with pytest.raises(Damaged) as refused:
                await attempt
            assert refused.value.span == Span(0, 9)
        assert await sink.stored(CHAIN_ID) == before
        assert await sink.strays() == []


async def test_a_folder_without_read_permission_is_not_called_damaged(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with await ParquetSink.open(path, SCHEMA) as sink:
        await sink.write(batch(0, 9), 5)

        def refuse(*_: object) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(pq, "ParquetFile", refuse)
        for attempt in (sink.read(BLOCKS, CHAIN_ID, Span(0, 9)), sink.damage(CHAIN_ID)):
            with pytest.raises(SinkError, match="Permission denied") as refused:
                await attempt
            assert not isinstance(refused.value, Damaged)


@pytest.mark.parametrize("name", ["blocks.db", "blocks.duckdb"])
async def test_a_damaged_database_says_what_to_do(tmp_path: Path, name: str) -> None:
    target = tmp_path / name
    async with await open_sink(str(target)) as sink:
        await sink.write(batch(0, 40), 5)
        await sink.finish()
    _scramble_database(target)
    with pytest.raises(SinkError, match="is damaged") as refused:
        async with await open_sink(str(target), Access.READ) as sink:
            await asyncio.gather(*(sink.read(it, CHAIN_ID, Span(0, 40)) for it in EVERY_TABLE))
    assert "restore" in str(refused.value.hint)


def _scramble_database(path: Path) -> None:
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size // 3)
        file.write(os.urandom(size // 3))
