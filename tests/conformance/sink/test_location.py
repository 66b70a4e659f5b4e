"""Where a sink is, as people write it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapless.chains.opening import open_sink
from gapless.core.errors import SinkUnusable
from gapless.sinks import Access
from gapless.sinks.duckdb import DuckdbSink
from gapless.sinks.parquet import ParquetSink
from gapless.sinks.sqlite import SqliteSink
from tests.conformance.sink.stage import listed


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()


@pytest.mark.parametrize(
    ("target", "kind", "place"),
    [
        ("eth.db", SqliteSink, "eth.db"),
        ("deep/er/eth.sqlite", SqliteSink, "deep/er/eth.sqlite"),
        ("sqlite:///odd.name?fk=off", SqliteSink, "odd.name"),
        ("eth.duckdb", DuckdbSink, "eth.duckdb"),
        ("duckdb:///deep/odd.name", DuckdbSink, "deep/odd.name"),
        ("eth/", ParquetSink, "eth/_gapless"),
        ("folder", ParquetSink, "folder/_gapless"),
        ("parquet:odd.name", ParquetSink, "odd.name/_gapless"),
    ],
)
async def test_a_location_has_a_kind(
    tmp_path: Path, target: str, kind: type[object], place: str
) -> None:
    async with await open_sink(target) as sink:
        assert type(sink) is kind
    assert (tmp_path / place).exists()


@pytest.mark.parametrize(
    ("target", "complaint"),
    [
        ("postgresql://me:secret@127.0.0.1:1/db", "cannot reach `postgresql://127.0.0.1:1/…`"),
        ("postgres://me:secret@host:x/db", "the URL `postgres://…/…` cannot be read"),
        ("postgresql://me:secret@host/db?fk=maybe", "`fk=maybe` is not valid"),
        ("postgresql://me:secret@host/db?partition=7", "`partition=7` is not valid"),
        ("postgresql://me:secret@host/db?schema=", "`schema=` is not valid"),
        ("eth.csv", "`eth.csv` is not a known kind of sink"),
        ("", "`` is not a known kind of sink"),
        ("https://host/KEY", "`https://host/…` is not a known kind of sink"),
        ("sqlite://", "`sqlite://` has no path"),
        ("eth.db?fk=maybe", "`fk=maybe` is not valid"),
        ("eth.db?wal=off", "a sqlite sink has no option `wal`"),
        ("eth.duckdb?fk=off", "a duckdb sink has no option `fk`"),
        ("eth/?fk=off", "a parquet sink has no option `fk`"),
    ],
)
async def test_invalid_locations_are_refused(tmp_path: Path, target: str, complaint: str) -> None:
    with pytest.raises(SinkUnusable) as refused:
        await open_sink(target)
    assert str(refused.value).startswith(complaint)
    assert "secret" not in str(refused.value)
    assert refused.value.hint
    assert listed(tmp_path) == ["folder"]


@pytest.mark.parametrize("access", [Access.READ, Access.WRITE])
@pytest.mark.parametrize("target", ["eth.db", "eth.duckdb", "deep/eth.db", "eth/", "folder"])
async def test_a_sink_that_must_exist_is_not_created(
    tmp_path: Path, target: str, access: Access
) -> None:
    with pytest.raises(SinkUnusable, match="there is no sink at"):
        await open_sink(target, access)
    assert listed(tmp_path) == ["folder"]
    assert listed(tmp_path / "folder") == []
