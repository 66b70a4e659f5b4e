"""Opening a sink to read it changes nothing, and needs no permission to change anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapless.chains.evm.tables import BLOCKS
from gapless.chains.opening import open_sink
from gapless.core.errors import SinkError, SinkUnusable
from gapless.core.ranges import Span
from gapless.sinks import Access, Sink
from gapless.sinks.sqlite import SqliteSink
from tests.conformance.sink.conftest import KINDS
from tests.conformance.sink.stage import (
    CHAIN_ID,
    HEADERS_OF_TEN,
    batch,
    examine,
    ranges,
    read_only,
    rows_of,
    snapshot,
)
from tests.conformance.sink.writer import writer
from tests.evm import SCHEMA


async def filled(target: str) -> None:
    async with await open_sink(target) as sink:
        await sink.write(batch(0, 19), 5)
        await sink.retract(CHAIN_ID, Span(15, 17), 6)
        await sink.request(CHAIN_ID, HEADERS_OF_TEN)


async def read_all(sink: Sink) -> None:
    await examine(sink)
    assert await sink.requests(CHAIN_ID) == [HEADERS_OF_TEN]
    assert await sink.chains() == [CHAIN_ID]
    assert await sink.highest_fence() == 6
    assert await sink.records(CHAIN_ID, Span(3, 4))
    assert await sink.stored(CHAIN_ID, Span(3, 4))
    assert await sink.strays() == []


async def test_a_reader_may_not_write(target: str) -> None:
    await filled(target)
    async with await open_sink(target, Access.READ) as sink:
        before = await sink.stored(CHAIN_ID)
        for refused in (
            sink.write(batch(20, 22), 7),
            sink.retract(CHAIN_ID, Span(0, 9), 7),
            sink.endorse(CHAIN_ID, before, frozenset({"hash"}), frozenset(), 7),
            sink.fold(CHAIN_ID, 20),
            sink.request(CHAIN_ID, HEADERS_OF_TEN),
            sink.withdraw(CHAIN_ID, Span(0, 9)),
            sink.finish(),
        ):
            with pytest.raises(SinkUnusable, match="is open for reading only") as error:
                await refused
            assert error.value.hint
        await read_all(sink)
        assert await sink.stored(CHAIN_ID) == before


async def test_an_existing_sink_can_be_opened_for_writing(target: str) -> None:
    await filled(target)
    async with await open_sink(target, Access.WRITE) as sink:
        await read_all(sink)
        await sink.write(batch(15, 22), 7)
        await sink.finish()
        await examine(sink)


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a sink that is a file or a folder may be created."""
    (tmp_path / "home").mkdir()
    return f"{tmp_path}/home/{KINDS[request.param]}"


async def test_a_reader_changes_no_file(place: str) -> None:
    await filled(place)
    home = Path(place).parent
    before = snapshot(home)
    async with await open_sink(place, Access.READ) as sink:
        await read_all(sink)
    assert snapshot(home) == before


async def test_a_read_only_file_system_is_enough(place: str) -> None:
    await filled(place)
    with read_only(Path(place).parent):
        async with (
            await open_sink(place, Access.READ) as one,
            await open_sink(place, Access.READ) as two,
        ):
            await read_all(one)
            await read_all(two)
        with pytest.raises(SinkError) as refused:
            await open_sink(place, Access.WRITE)
        assert refused.value.hint


async def test_a_read_only_sqlite_file_gets_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "home/blocks.db"
    await filled(str(path))
    with read_only(path.parent), pytest.raises(SinkUnusable, match="cannot be written") as refused:
        await open_sink(str(path), Access.CREATE)
    assert refused.value.hint == "check that its folder can be written to"


async def test_a_read_only_copy_of_a_crashed_sink_can_be_read(tmp_path: Path) -> None:
    """Killed during changes, then read where nothing can be cleaned up."""
    target = f"{tmp_path}/home/blocks/"
    for death in range(4):
        with writer(target, 40 + death) as killed:
            killed.said()
            killed.said()
            killed.die(within=0.004 * death)
        with read_only(tmp_path / "home"):
            async with await open_sink(target, Access.READ) as sink:
                await examine(sink)


async def test_a_folder_without_a_lock_can_be_read(tmp_path: Path) -> None:
    target = f"{tmp_path}/blocks/"
    await filled(target)
    (tmp_path / "blocks/_gapless/lock").unlink()
    before = snapshot(tmp_path)
    async with await open_sink(target, Access.READ) as sink:
        await read_all(sink)
    assert snapshot(tmp_path) == before


async def test_changes_that_sqlite_cannot_read_are_not_ignored(tmp_path: Path) -> None:
    """A WAL without its index, on a read-only disk: the file alone is outdated."""
    path = tmp_path / "home/blocks.db"
    async with await SqliteSink.open(path, SCHEMA) as sink:
        await sink.write(batch(0, 9), 5)
        log = path.with_name("blocks.db-wal").read_bytes()
    path.with_name("blocks.db-wal").write_bytes(log)
    with read_only(path.parent):
        with pytest.raises(SinkUnusable, match=r"left changes in `blocks\.db-wal`") as refused:
            await open_sink(str(path), Access.READ)
        assert "copy both files" in str(refused.value.hint)
    path.with_name("blocks.db-wal").write_bytes(b"")
    with read_only(path.parent):
        async with await open_sink(str(path), Access.READ) as sink:
            await examine(sink)


async def test_a_reader_leaves_the_log_of_a_crashed_writer_as_it_is(tmp_path: Path) -> None:
    path, copy = tmp_path / "blocks.db", tmp_path / "crashed.db"
    async with await SqliteSink.open(path, SCHEMA) as sink:
        await sink.write(batch(0, 9), 5)
        for suffix in ("", "-wal"):
            content = path.with_name(f"{path.name}{suffix}").read_bytes()
            copy.with_name(f"{copy.name}{suffix}").write_bytes(content)
    log = copy.with_name("crashed.db-wal")
    before = copy.read_bytes(), log.read_bytes()
    async with await open_sink(str(copy), Access.READ) as sink:
        assert await ranges(sink) == [(0, 9, 5)]
        await examine(sink)
    assert (copy.read_bytes(), log.read_bytes()) == before


async def test_a_reader_of_sqlite_sees_what_a_writer_commits(tmp_path: Path) -> None:
    path = tmp_path / "with space & percent%41.db"
    async with await SqliteSink.open(path, SCHEMA) as sink:
        await sink.write(batch(0, 4), 5)
        await sink.request(CHAIN_ID, HEADERS_OF_TEN)
    async with await open_sink(str(path), Access.READ) as reader:
        assert await reader.requests(CHAIN_ID) == [HEADERS_OF_TEN]
        async with await SqliteSink.open(path, SCHEMA) as sink:
            await sink.write(batch(5, 9), 5)
            await examine(reader)
            assert {it.span for it in await reader.stored(CHAIN_ID)} == {(0, 9)}
        async with await SqliteSink.open(path, SCHEMA) as sink:  # the previous one has cleaned up
            read = await reader.read(BLOCKS, CHAIN_ID, Span(0, 9))
            assert read.equals(rows_of("blocks", Span(0, 9)))


async def test_a_reader_of_sqlite_notices_a_writer_that_came_and_went(tmp_path: Path) -> None:
    path = tmp_path / "blocks.db"
    async with await SqliteSink.open(path, SCHEMA) as sink:
        await sink.write(batch(0, 4), 5)
    async with await SqliteSink.open(path, SCHEMA, Access.READ) as reader:
        assert await ranges(reader) == [(0, 4, 5)]
        async with await SqliteSink.open(path, SCHEMA) as sink:
            await sink.write(batch(5, 9), 5)
        assert await ranges(reader) == [(0, 9, 5)]
        await examine(reader)
        path.rename(path.with_name("elsewhere.db"))
    async with await SqliteSink.open(path, SCHEMA) as sink:
        await sink.write(batch(0, 4), 5)
    async with await SqliteSink.open(path, SCHEMA, Access.READ) as reader:
        path.with_name("elsewhere.db").rename(path)
        with pytest.raises(SinkUnusable, match="was replaced by another sink"):
            await reader.stored(CHAIN_ID)
