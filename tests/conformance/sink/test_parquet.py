"""Specific to Parquet sinks: files that people list, and a folder that a crash left behind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gapless.chains.evm.tables import LOGS
from gapless.core.errors import Damaged, SinkError, SinkUnusable
from gapless.core.ranges import Span
from gapless.schema.arrow import Tables
from gapless.sinks import Access, Batch
from gapless.sinks.parquet import ParquetSink
from tests.conformance.sink.stage import (
    CHAIN_ID,
    EVERYTHING,
    batch,
    examine,
    listed,
    ranges,
    rows_of,
    snapshot,
    with_column,
)
from tests.evm import SCHEMA


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "blocks"


def names(path: Path, table: str = "blocks") -> list[str]:
    """What a person sees who lists a table's files."""
    return sorted(it.name for it in path.glob(f"*/{table}/*"))


async def test_files_are_named_by_network_table_range_and_fence(path: Path) -> None:
    async with await ParquetSink.open(path, SCHEMA) as sink:
        await sink.write(batch(0, 9), 5)
        await sink.write(batch(4, 6), 7)
        assert names(path, "logs") == ["0-3.5.parquet", "4-6.7.parquet", "7-9.5.parquet"]
        await sink.retract(CHAIN_ID, Span(0, 8), 8)
        assert names(path, "logs") == ["9-9.5.parquet"]
    assert listed(path) == [str(CHAIN_ID), "_gapless"]
    found = pq.read_table(path / str(CHAIN_ID) / "blocks")
    assert found.column("hash").to_pylist() == rows_of("blocks", Span(9, 9))["hash"].to_pylist()


def moved(given: Batch, up: int) -> Batch:
    """The same blocks at other heights."""

    def shift(name: str) -> object:
        rows = given.tables[name]
        heights = [height + up for height in rows["block_number"].to_pylist()]
        at = rows.schema.get_field_index("block_number")
        return rows.set_column(at, rows.schema.field(at), pa.array(heights, pa.uint64()))

    tables = {name: shift(name) for name in given.tables}
    span = Span(given.span.first + up, given.span.last + up)
    return replace(given, span=span, tables=Tables(tables))


async def test_no_file_crosses_its_cell(path: Path) -> None:
    async with await ParquetSink.open(path, SCHEMA) as sink:
        assert (sink.batch_blocks, sink.grid) == (1000, 1000)
        await sink.write(moved(batch(0, 40), 980), 5)
        assert names(path) == ["1000-1020.5.parquet", "980-999.5.parquet"]
        assert await ranges(sink, "logs") == [(980, 1020, 5)]
        stored = await sink.stored(CHAIN_ID)
        assert {it.rows for it in stored if it.dataset == "blocks"} == {41}
        found = await sink.read(LOGS, CHAIN_ID, Span(990, 1010))
        assert found.num_rows == rows_of("logs", Span(10, 30)).num_rows


async def test_files_of_a_known_network_use_its_name(path: Path) -> None:
    given = batch(0, 3)
    tables = {name: with_column(rows, "chain_id", 1) for name, rows in given.tables.items()}
    async with await ParquetSink.open(path, SCHEMA) as sink:
        await sink.write(replace(given, chain_id=1, tables=Tables(tables)), 5)
    assert (path / "ethereum/blocks/0-3.5.parquet").exists()


def restored(path: Path, manifest: bytes) -> None:
    """Replaces the manifest with an older one."""
    (path / "_gapless/manifest.json").write_bytes(manifest)


@pytest.mark.parametrize("access", Access)
async def test_files_that_an_older_manifest_does_not_list_are_kept(
    path: Path, access: Access
) -> None:
    async with await ParquetSink.open(path, SCHEMA) as sink:
        await sink.write(batch(0, 9), 5)
        manifest = (path / "_gapless/manifest.json").read_bytes()
        await sink.write(batch(10, 19), 6)
    restored(path, manifest)
    there = snapshot(path)
    newer = [f"{CHAIN_ID}/{name}/10-19.6.parquet" for name in sorted(EVERYTHING)]
    async with await ParquetSink.open(path, SCHEMA, access) as sink:
        assert await ranges(sink) == [(0, 9, 5)]
        await examine(sink)
        assert await sink.strays() == newer
    if access is Access.READ:
        assert snapshot(path) == there
    assert snapshot(path).keys() == there.keys()
    async with await ParquetSink.open(path, SCHEMA) as sink:  # nor does a later change touch them
        await sink.write(batch(8, 12), 7)
        await sink.retract(CHAIN_ID, Span(0, 3), 8)
        assert await sink.strays() == newer
        await examine(sink)


async def test_a_file_that_was_staged_again_is_read_by_its_latest_name(path: Path) -> None:
    """The same name is written twice, and the writer dies after the second commit."""
    async with await ParquetSink.open(path, SCHEMA) as sink:
        await sink.write(batch(0, 9, tables=["blocks"]), 5)
        file = path / str(CHAIN_ID) / "blocks/0-9.5.parquet"
        before = file.read_bytes()
        await sink.write(batch(0, 9), 5)  # now the number of logs is known
    file.rename(staged(file, 2))
    file.write_bytes(before)
    for access in (Access.READ, Access.WRITE):
        async with await ParquetSink.open(path, SCHEMA, access) as sink:
            await examine(sink)
    assert names(path) == ["0-9.5.parquet"]


def staged(file: Path, generation: int) -> Path:
    return file.with_name(f"{file.name}.{generation}.staged")


async def test_an_interrupted_commit_is_completed(path: Path) -> None:
    """Killed after the commit: the manifest lists files that are not yet in place."""
    async with await ParquetSink.open(path, SCHEMA) as sink:
        await sink.write(batch(0, 9), 5)
        before = (path / str(CHAIN_ID) / "blocks/0-9.5.parquet").read_bytes()
        await sink.write(batch(0, 9), 6)
    for table in ("blocks", "logs"):
        file = path / str(CHAIN_ID) / table / "0-9.6.parquet"
        file.rename(staged(file, 2))
    superseded = path / str(CHAIN_ID) / "blocks/0-9.5.parquet"
    superseded.write_bytes(before)
    there = snapshot(path)
    async with await ParquetSink.open(path, SCHEMA, Access.READ) as sink:
        await examine(sink)
        assert await sink.strays() == [f"{CHAIN_ID}/blocks/0-9.5.parquet"]
    assert snapshot(path) == there
    async with await ParquetSink.open(path, SCHEMA, Access.WRITE) as sink:
        assert names(path) == names(path, "logs") == ["0-9.6.parquet"]
        await examine(sink)


async def test_an_uncommitted_change_is_cleaned_up(path: Path) -> None:
    """Killed before the commit: staged files of a generation that was never written."""
    async with await ParquetSink.open(path, SCHEMA) as sink:
        await sink.write(batch(0, 9), 5)
        file = path / str(CHAIN_ID) / "blocks/0-9.5.parquet"
        for stale in (staged(file, 2), staged(file, 0), file.with_name("10-19.6.parquet.2.staged")):
            stale.write_bytes(b"half a file")
        (file.parent / "notes.txt").write_text("a person's own")
        (path / "_gapless/lock").write_bytes(b"unsettled")
        there = snapshot(path)
        async with await ParquetSink.open(path, SCHEMA, Access.READ) as reader:
            await examine(reader)
        assert snapshot(path) == there
        await examine(sink)  # a writer that is still open cleans up as well
        assert names(path) == ["0-9.5.parquet", "notes.txt"]
        assert (path / "_gapless/lock").read_bytes() == b""


async def test_a_failed_change_leaves_nothing(path: Path) -> None:
    async with await ParquetSink.open(path, SCHEMA) as sink:
        await sink.write(batch(0, 9), 5)
        broken = path / str(CHAIN_ID) / "withdrawals"
        broken.rename(broken.with_name("elsewhere"))
        broken.write_text("no folder")
        with pytest.raises(SinkError, match="failed"):
            await sink.write(batch(10, 12), 5)
        broken.unlink()
        broken.with_name("elsewhere").rename(broken)
        assert names(path) == ["0-9.5.parquet"]
        assert (path / "_gapless/lock").read_bytes() == b""
        await sink.write(batch(10, 12), 5)
        await examine(sink)


async def test_a_folder_with_other_files_is_not_a_sink(path: Path) -> None:
    file = path / "thesis.txt"
    file.parent.mkdir()
    file.write_text("years of work")
    with pytest.raises(SinkUnusable, match="is not empty and not a Gapless sink"):
        await ParquetSink.open(path, SCHEMA)
    assert listed(path) == ["thesis.txt"]


async def test_files_of_an_older_version_may_lack_nullable_columns(path: Path) -> None:
    async with await ParquetSink.open(path, SCHEMA) as sink:
        await sink.write(batch(0, 9), 5)
        file = path / str(CHAIN_ID) / "blocks/0-9.5.parquet"
        rows = pq.read_table(file)
        pq.write_table(rows.drop_columns(["send_root"]), file)
        await examine(sink)
        pq.write_table(rows.drop_columns(["hash"]), file)
        with pytest.raises(Damaged, match="has columns that do not match"):
            await examine(sink)
        pq.write_table(rows.append_column("of_the_future", rows["hash"]), file)
        with pytest.raises(Damaged, match="has columns that do not match"):
            await examine(sink)


async def test_a_damaged_manifest_is_not_used(path: Path) -> None:
    await (await ParquetSink.open(path, SCHEMA)).close()
    (path / "_gapless/manifest.json").write_text('{"id": ')
    with pytest.raises(SinkUnusable, match="is damaged"):
        await ParquetSink.open(path, SCHEMA)
    (path / "_gapless/manifest.json").write_text('{"id": "x", "version": 2}')
    with pytest.raises(SinkUnusable, match="has format 2"):
        await ParquetSink.open(path, SCHEMA)


async def test_a_superseded_file_that_cannot_be_removed_loses_no_row(tmp_path: Path) -> None:
    async with await ParquetSink.open(tmp_path / "sink", SCHEMA) as sink:
        await sink.write(batch(0, 9), 5)
        old = tmp_path / "sink" / str(CHAIN_ID) / "logs" / "0-9.5.parquet"
        old.unlink()
        old.mkdir()
        await sink.write(batch(0, 9), 6)
        assert await sink.read(LOGS, CHAIN_ID, Span(0, 9)) == rows_of("logs", Span(0, 9))
    async with await ParquetSink.open(tmp_path / "sink", SCHEMA) as sink:
        assert [it.fence for it in await sink.stored(CHAIN_ID)] == [6] * 5


async def test_a_job_may_change_the_working_directory(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)
    (path.parent / "elsewhere").mkdir()
    async with await ParquetSink.open(Path(path.name), SCHEMA) as sink:
        monkeypatch.chdir("elsewhere")
        await sink.write(batch(0, 9), 5)
    assert names(path) == ["0-9.5.parquet"]
    assert listed(path.parent / "elsewhere") == []
