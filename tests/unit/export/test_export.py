"""An export contains all rows of a range in every schema and format, or it fails."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gapless.chains.opening import open_sink
from gapless.core.errors import Incomplete
from gapless.core.ranges import RangeSet, Span
from gapless.export import FORMATS, Export, lacking, layout_sets, range_of, stream
from gapless.export.writers import ParquetWriter
from gapless.schema import Kind
from gapless.schema.layout import Form, Layout
from gapless.sinks import Request, Sink
from tests.conformance.sink.stage import CHAIN_ID, HEAD, HEADERS, batch, rows_of
from tests.evm import EVERY_TABLE

LAYOUTS = {schema: each.tables for schema, each in layout_sets().items()}
WHOLE = Span(5, HEAD)
STORED = {each.name for each in EVERY_TABLE}
EVERY = [
    (schema, table)
    for schema, layouts in LAYOUTS.items()
    for table in sorted(layouts.keys() & STORED)
]


@pytest.fixture(autouse=True)
def _small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "_WINDOW", 7)
    monkeypatch.setattr(stream, "_PIECE", 9)


@pytest.fixture(params=["blocks.db", "blocks/"])
async def sink(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Sink]:
    async with await open_sink(f"{tmp_path}/{request.param}") as opened:
        await opened.write(batch(*WHOLE), 5)
        yield opened


@pytest.fixture
async def fragile(tmp_path: Path) -> AsyncIterator[Sink]:
    async with await open_sink(f"{tmp_path}/fragile.db") as opened:
        await opened.write(batch(*WHOLE), 5)
        yield opened


async def exported(sink: Sink, layout: Layout, format_name: str, span: Span = WHOLE) -> bytes:
    file = io.BytesIO()
    await Export(sink, CHAIN_ID, layout, span).write_to(FORMATS[format_name](layout, file))
    return file.getvalue()


def read(format_name: str, data: bytes) -> list[dict[str, Any]]:
    """Reads a file as its recipient would."""
    if format_name == "csv":
        return [*csv.DictReader(io.StringIO(data.decode(), newline=""))]
    if format_name == "json":
        return [json.loads(line) for line in data.splitlines()]
    rows: list[dict[str, Any]] = pq.read_table(io.BytesIO(data)).to_pylist()
    return rows


def _hex(value: bytes) -> str:
    return f"0x{value.hex()}"


def native(table: str, span: Span) -> list[dict[str, Any]]:
    """The rows of the chain, made readable value by value."""
    readable: dict[Kind, Callable[[Any], Any]] = {
        Kind.U256: lambda it: str(int.from_bytes(it, "big")),
        **dict.fromkeys((Kind.INT, Kind.BOOL, Kind.TEXT, Kind.JSON), lambda it: it),
    }
    columns = next(each for each in EVERY_TABLE if each.name == table).columns
    return [
        {
            it.name: None if row[it.name] is None else readable.get(it.kind, _hex)(row[it.name])
            for it in columns
        }
        for row in rows_of(table, span).to_pylist()
    ]


@pytest.mark.parametrize("table", [each.name for each in EVERY_TABLE])
async def test_native_rows_in_every_format(sink: Sink, table: str) -> None:
    layout, expected = LAYOUTS["native"][table], native(table, WHOLE)
    assert expected
    assert read("parquet", await exported(sink, layout, "parquet")) == expected
    texts = [field.name for field in layout.fields if field.form is Form.JSON]
    parsed = [
        {**row, **{name: json.loads(row[name] or "null") for name in texts}} for row in expected
    ]
    assert read("json", await exported(sink, layout, "json")) == parsed
    plain = [{name: _text(value) for name, value in row.items()} for row in expected]
    assert read("csv", await exported(sink, layout, "csv")) == plain


def _text(value: Any) -> str:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


@pytest.mark.parametrize(("schema", "table"), EVERY)
async def test_formats_agree(fragile: Sink, schema: str, table: str) -> None:
    """What ethereum-etl itself writes is compared with its files elsewhere."""
    layout = LAYOUTS[schema][table]
    files = {name: read(name, await exported(fragile, layout, name)) for name in FORMATS}
    assert files["json"]
    names = [field.name for field in layout.fields]
    for rows in files.values():
        assert [[*row] for row in rows] == [names] * len(files["json"])
    forms = {field.name: field.form for field in layout.fields}
    for row, line, stored in zip(*(files[it] for it in ("json", "csv", "parquet")), strict=True):
        for name in names:
            if forms[name] is Form.DIGITS:
                assert line[name] == (stored[name] or "") == _text(row[name])
            elif forms[name] is Form.JSON:
                assert line[name] == (stored[name] or "")
                assert json.loads(line[name] or "null") == row[name]
            elif forms[name] is Form.TEXTS:
                assert line[name] == ",".join(stored[name])
                assert row[name] == stored[name]
            elif forms[name] is Form.OBJECTS:
                assert json.loads(f"[{line[name]}]") == stored[name] == row[name]
            else:
                assert line[name] == _text(stored[name]) == _text(row[name])


async def test_a_block_hash_is_the_hash_of_the_block(fragile: Sink) -> None:
    hashes = {it["block_number"]: it["hash"] for it in native("blocks", WHOLE)}
    rows = read("json", await exported(fragile, LAYOUTS["ethereum-etl"]["logs"], "json"))
    assert {it["block_hash"] for it in rows} <= set(hashes.values())
    assert all(it["block_hash"] == hashes[it["block_number"]] for it in rows)


async def test_an_empty_file(fragile: Sink) -> None:
    """ethereum-etl writes the column names with the first row; we always write them."""
    empty = next(it for it in range(5, HEAD) if not rows_of("logs", Span(it, it)).num_rows)
    nothing = Span(empty, empty)
    assert await exported(fragile, LAYOUTS["ethereum-etl"]["logs"], "csv", nothing) == b""
    named = await exported(fragile, LAYOUTS["native"]["logs"], "csv", nothing)
    assert named.startswith(b"chain_id,block_number,")
    assert named.count(b"\n") == 1
    assert await exported(fragile, LAYOUTS["native"]["logs"], "json", nothing) == b""
    assert (
        read("parquet", await exported(fragile, LAYOUTS["native"]["logs"], "parquet", nothing))
        == []
    )


class Watched(io.BytesIO):
    """A file that records how much it received at once."""

    def __init__(self) -> None:
        super().__init__()
        self.most = 0

    def write(self, data: Any) -> int:
        self.most = max(self.most, len(data))
        return super().write(data)


async def test_memory_does_not_grow_with_the_range(
    fragile: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No read is longer than a window, and no write is longer than a piece of it."""
    asked: list[int] = []
    real = fragile.read

    async def read_noted(table: Any, chain_id: int, span: Span, columns: Any = None) -> pa.Table:
        asked.append(span.size)
        return await real(table, chain_id, span, columns)

    monkeypatch.setattr(fragile, "read", read_noted)
    layout, file = LAYOUTS["native"]["transactions"], Watched()
    await Export(fragile, CHAIN_ID, layout, WHOLE).write_to(FORMATS["csv"](layout, file))
    assert max(asked) == 7
    longest = max(map(len, file.getvalue().splitlines(keepends=True)))
    assert file.most <= 9 * longest


async def test_row_groups_are_written_when_they_are_large_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gapless.export.writers._GROUP_ROWS", 10)
    layout, file = LAYOUTS["native"]["blocks"], io.BytesIO()
    writer = ParquetWriter(layout, file)
    rows = layout.rows(rows_of("blocks", Span(0, 3)), {})
    for _ in range(7):
        writer.write(rows)
        assert writer._waiting.num_rows < 10
    writer.finish()
    assert pq.ParquetFile(file).metadata.num_row_groups == 3
    assert pq.read_table(file).num_rows == 28


async def test_the_default_range_is_that_of_the_table(sink: Sink) -> None:
    layout = LAYOUTS["native"]["logs"]
    assert await range_of(sink, CHAIN_ID, layout) == WHOLE
    assert await range_of(sink, 99, layout) is None
    await sink.write(batch(0, 4, tables=HEADERS), 6)
    assert await range_of(sink, CHAIN_ID, layout) == WHOLE
    assert await range_of(sink, CHAIN_ID, LAYOUTS["native"]["blocks"]) == (0, HEAD)


async def test_gaps_are_known_before_anything_is_written(sink: Sink) -> None:
    await sink.write(batch(0, 4, tables=HEADERS), 6)
    await sink.retract(CHAIN_ID, Span(10, 12), 7)
    etl, whole = LAYOUTS["ethereum-etl"], Span(0, 20)
    hole = RangeSet.of((10, 12))
    below = RangeSet.of((0, 4))
    assert await lacking(sink, CHAIN_ID, LAYOUTS["native"]["blocks"], whole) == {"blocks": hole}
    assert await lacking(sink, CHAIN_ID, etl["blocks"], whole) == {
        "blocks": hole,
        "withdrawals": below,
    }
    assert await lacking(sink, CHAIN_ID, etl["token_transfers"], whole) == {
        "blocks": hole,
        "logs": below,
    }
    assert await lacking(sink, CHAIN_ID, etl["logs"], Span(13, 20)) == {}


@pytest.fixture
def sql(fragile: Sink, tmp_path: Path) -> Iterator[apsw.Connection]:
    connection = apsw.Connection(f"{tmp_path}/fragile.db")
    yield connection
    connection.close()


@pytest.mark.parametrize(
    ("damage", "table", "complaint"),
    [
        ("DELETE FROM logs WHERE block_number = 25", "token_transfers", "logs of blocks 21-27: "),
        ("DELETE FROM logs WHERE block_number = 25", "logs", "logs of blocks 21-27: "),
        ("DELETE FROM transactions WHERE block_number = 25", "receipts", "transactions of blocks"),
        ("DELETE FROM blocks WHERE block_number = 25", "blocks", "blocks 21-27: 7 are recorded, 6"),
        ("DELETE FROM blocks WHERE block_number = 25", "logs", "blocks 21-27: 7 are recorded, 6"),
    ],
)
async def test_lost_rows_are_detected(
    fragile: Sink, sql: apsw.Connection, damage: str, table: str, complaint: str
) -> None:
    assert rows_of("logs", Span(25, 25)).num_rows
    sql.execute(damage)
    with pytest.raises(Incomplete, match=complaint) as refused:
        await exported(fragile, LAYOUTS["ethereum-etl"][table], "csv")
    assert refused.value.hint


async def test_receipts_must_have_been_fetched(tmp_path: Path) -> None:
    async with await open_sink(f"{tmp_path}/some.db") as sink:
        await sink.write(batch(*WHOLE, tables=("blocks", "transactions")), 5)
        with pytest.raises(Incomplete, match="logs of blocks 5-6 were not fetched"):
            await exported(sink, LAYOUTS["ethereum-etl"]["receipts"], "csv")
        assert await exported(sink, LAYOUTS["ethereum-etl"]["transactions"], "csv")


@pytest.mark.parametrize(("first", "noticed"), [(31, False), (30, True)])
async def test_a_concurrent_change_is_detected(
    fragile: Sink, monkeypatch: pytest.MonkeyPatch, first: int, noticed: bool
) -> None:
    """Otherwise some rows could belong to one branch and some to another."""
    real = fragile.read

    async def overtaken(*asked: Any) -> pa.Table:
        rows = await real(*asked)
        await fragile.write(batch(first, HEAD), 6)
        return rows

    monkeypatch.setattr(fragile, "read", overtaken)
    layout, span = LAYOUTS["native"]["blocks"], Span(5, 30)
    if not noticed:
        assert await exported(fragile, layout, "csv", span)
        return
    with pytest.raises(Incomplete, match="blocks 5-30 changed during the export"):
        await exported(fragile, layout, "csv", span)


@pytest.mark.parametrize("branch", [0, 1])
async def test_records_may_be_folded_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, branch: int
) -> None:
    """New blocks above the range raise its fence; other rows are noticed nevertheless."""
    async with await open_sink(f"{tmp_path}/followed.db") as sink:
        await sink.write(batch(0, 24), 5)
        await sink.write(batch(25, 30), 6)
        real = sink.read

        async def overtaken(*asked: Any) -> pa.Table:
            rows = await real(*asked)
            await sink.write(batch(20 if branch else 31, HEAD, branch=branch), 7)
            await sink.fold(CHAIN_ID, HEAD + 1)
            return rows

        monkeypatch.setattr(sink, "read", overtaken)
        layout, span = LAYOUTS["native"]["blocks"], Span(5, 30)
        if branch:
            with pytest.raises(Incomplete, match="blocks 5-30 changed during the export"):
                await exported(sink, layout, "csv", span)
        else:
            assert await exported(sink, layout, "csv", span)
        assert {it.fence for it in await sink.stored(CHAIN_ID)} == {7}


async def test_the_range_is_also_what_was_asked_for(sink: Sink) -> None:
    """A table that stops early is not exported as if it were whole."""
    layout, asked = LAYOUTS["native"]["logs"], Span(0, HEAD + 10)
    await sink.request(CHAIN_ID, Request(asked, frozenset({"blocks", "logs"})))
    assert await range_of(sink, CHAIN_ID, layout) == asked
    assert await range_of(sink, CHAIN_ID, LAYOUTS["native"]["transactions"]) == WHOLE
    assert await lacking(sink, CHAIN_ID, layout, asked) == {
        "blocks": RangeSet.of((0, 4), (HEAD + 1, HEAD + 10))
    }
