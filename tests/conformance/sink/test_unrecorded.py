"""Rows without a record: another program wrote them, or their records were lost."""

from __future__ import annotations

from pathlib import Path

import apsw
import asyncpg
import duckdb
import pytest

from gapless.chains.opening import open_sink
from gapless.core.ranges import Span
from tests.conformance.sink.stage import CHAIN_ID, EVERYTHING, batch, examine, held, rows_of

FORGET = "DELETE FROM _gapless_ranges"


async def forget(target: str) -> None:
    """Deletes all records of a sink; its rows stay."""
    if target.startswith("postgresql"):
        url, _, schema = target.partition("?schema=")
        connection = await asyncpg.connect(url, server_settings={"search_path": schema})
        await connection.execute(FORGET)
        await connection.close()
    elif target.endswith(".duckdb"):
        with duckdb.connect(target) as file:
            file.execute(FORGET)
    else:
        apsw.Connection(target).execute(FORGET)


@pytest.mark.parametrize("names", [EVERYTHING, ("blocks", "transactions")])
async def test_a_retraction_removes_unrecorded_rows(target: str, names: tuple[str, ...]) -> None:
    if target.endswith("/"):
        pytest.skip("a folder does not read files that its manifest does not list")
    async with await open_sink(target) as sink:
        await sink.write(batch(0, 19, tables=names), 5)
    await forget(target)
    async with await open_sink(target) as sink:
        assert await sink.stored(CHAIN_ID) == []
        await sink.retract(CHAIN_ID, Span(0, 9), 6)
        for name in names:
            assert (await held(sink, name, Span(0, 9))).num_rows == 0
            assert (await held(sink, name, Span(10, 19))).num_rows > 0
        await sink.write(batch(0, 9), 6)
        await sink.retract(CHAIN_ID, Span(10, 2_000_000), 6)
        await sink.write(batch(10, 25), 6)
        await examine(sink)
        for name in EVERYTHING:
            assert (await held(sink, name)).equals(rows_of(name, Span(0, 25)))


async def test_files_that_no_manifest_lists_do_not_interfere(tmp_path: Path) -> None:
    target = f"{tmp_path}/blocks/"
    async with await open_sink(target) as sink:
        empty = (tmp_path / "blocks/_gapless/manifest.json").read_bytes()
        await sink.write(batch(0, 19), 5)
    (tmp_path / "blocks/_gapless/manifest.json").write_bytes(empty)
    async with await open_sink(target) as sink:
        assert (await held(sink, "logs")).num_rows == 0
        await sink.retract(CHAIN_ID, Span(0, 9), 6)
        await sink.write(batch(0, 19), 6)
        await examine(sink)
        assert await sink.strays() == [
            f"{CHAIN_ID}/{name}/0-19.5.parquet" for name in sorted(EVERYTHING)
        ]
