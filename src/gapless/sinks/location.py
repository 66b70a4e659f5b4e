"""Locations of sinks: a path, whose suffix determines the kind, or a URL. Options follow a `?`.

eth.db, eth.sqlite, sqlite:///eth.db?fk=off     a SQLite file
eth.duckdb, duckdb:///eth.duckdb                a DuckDB file
eth/, an existing folder, parquet:eth           a folder of Parquet files
postgresql://user@host/database?schema=eth      a schema of a PostgreSQL database
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qsl

from gapless.core.errors import SinkUnusable
from gapless.core.redaction import redact
from gapless.schema import Schema
from gapless.sinks.sink import Access, Sink
from gapless.system import SYSTEM, System

_SQLITE = (".db", ".sqlite", ".sqlite3")
_POSTGRES = ("postgresql", "postgres")
_HINT = (
    "write `name.db` for a SQLite file, `name.duckdb` for a DuckDB file, `name/` for a folder of"
    " Parquet files, or `postgresql://user@host/database`"
)
_STREAMS = ("redis", "rediss")
_LATER = ("s3",)


async def open_sink(
    target: str, schema: Schema, access: Access = Access.CREATE, *, system: System = SYSTEM
) -> Sink:
    """Open the sink at a path or URL, for the tables of the schema."""
    if target.partition(":")[0] in _POSTGRES:
        from gapless.sinks.postgres import PostgresSink

        return await PostgresSink.open(target, schema, access)
    place, _, query = target.partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    kind, path = _kind(place)
    if kind == "sqlite":
        from gapless.sinks.sqlite import SqliteSink

        foreign_keys = _switch(options, "fk", default=True)
        _refuse_unknown(options, kind)
        return await SqliteSink.open(path, schema, access, foreign_keys=foreign_keys, system=system)
    if kind == "duckdb":
        from gapless.sinks.duckdb import DuckdbSink

        _refuse_unknown(options, kind)
        return await DuckdbSink.open(path, schema, access, system=system)
    from gapless.sinks.parquet import ParquetSink

    _refuse_unknown(options, kind)
    return await ParquetSink.open(path, schema, access, system=system)


def is_shareable(target: str) -> bool:
    """Whether several processes can open the sink at the same time."""
    return kind_of(target)[0] != "duckdb"


def kind_of(target: str) -> tuple[str, Path]:
    """Return the kind of a sink, and its path if it has one."""
    if target.partition(":")[0] in _POSTGRES:
        return "postgresql", Path()
    return _kind(target.partition("?")[0])


def _kind(place: str) -> tuple[str, Path]:
    scheme, separator, rest = place.partition(":")
    if separator and scheme in ("sqlite", "duckdb", "parquet"):
        path = rest.removeprefix("///") if rest.startswith("///") else rest
        if not path or path.startswith("//"):
            raise SinkUnusable(f"`{place}` has no path", hint=f"write `{scheme}:///path`")
        return scheme, Path(path)
    if scheme in _STREAMS:
        raise SinkUnusable(
            f"`{redact(place)}` is a stream, which can only be appended to, and not a sink",
            hint="store blocks in a sink and publish them from there: see `[publish.NAME]`",
        )
    if scheme in _LATER:
        raise SinkUnusable(f"`{redact(place)}` is not supported as a sink yet", hint=_HINT)
    if place.endswith(_SQLITE):
        return "sqlite", Path(place)
    if place.endswith(".duckdb"):
        return "duckdb", Path(place)
    if place.endswith("/") or (place and Path(place).is_dir()):
        return "parquet", Path(place)
    raise SinkUnusable(f"`{redact(place)}` is not a known kind of sink", hint=_HINT)


def _switch(options: dict[str, str], name: str, *, default: bool) -> bool:
    value = options.pop(name, "on" if default else "off")
    if value not in ("on", "off"):
        raise SinkUnusable(f"`{name}={value}` is not valid", hint=f"write `{name}=on` or `off`")
    return value == "on"


def _refuse_unknown(options: Mapping[str, str], kind: str) -> None:
    if options:
        known = "the only option is `fk`" if kind == "sqlite" else "remove it: there are no options"
        raise SinkUnusable(f"a {kind} sink has no option `{next(iter(options))}`", hint=known)
