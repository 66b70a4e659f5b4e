"""The file of a DuckDB sink: opened, recognised, and given its tables.

DuckDB lets one process write to a file, or several read it. So whoever only looks opens it to read,
and several can look at once. Within one process any number of sinks may use the file: they share
what DuckDB has in memory, and take turns at changes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from gapless.core.errors import SinkError, SinkUnusable
from gapless.schema import Column, Schema, Table
from gapless.schema.duckdb import add_column, create_table, create_view
from gapless.sinks import requests
from gapless.sinks.sink import Access
from gapless.system import System

if TYPE_CHECKING:
    import duckdb

VERSION = 1
_CREATE = """
CREATE TABLE _gapless_sink (
  id VARCHAR NOT NULL,      -- of this very file: a deleted one that is made anew has another
  version BIGINT NOT NULL
);
CREATE TABLE _gapless_ranges (
  chain_id UBIGINT NOT NULL,
  dataset VARCHAR NOT NULL,
  first UBIGINT NOT NULL,
  last UBIGINT NOT NULL,
  fence UBIGINT NOT NULL,
  kind VARCHAR NOT NULL,    -- 'written' or 'retracted'
  rows UBIGINT NOT NULL,
  digest BLOB NOT NULL,
  proven VARCHAR NOT NULL,  -- names of checks, with spaces between them
  unproven VARCHAR NOT NULL,
  parent_hash BLOB NOT NULL,
  last_hash BLOB NOT NULL
);
"""
_CREATE_REQUESTS = requests.create(requests.TABLE, "UBIGINT")
_COLUMNS = "SELECT table_name, column_name FROM duckdb_columns() WHERE schema_name = 'main'"
# It would ask the internet for an extension that reads a file of another kind.
_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}
_turns: defaultdict[Path, Lock] = defaultdict(Lock)
"""Of the files that are open: DuckDB would let two inserts of one range pass."""


def connect(
    path: Path, schema: Schema, access: Access, system: System
) -> duckdb.DuckDBPyConnection:
    """Opens the sink in a file, a new one if it may."""
    if access is not Access.CREATE and not path.is_file():
        raise SinkUnusable(f"there is no sink at `{path}`", hint="check the path")
    connection = _connected(path, access)
    try:
        with in_our_words(path):
            _recognise(connection, path, schema, access, system)
    except BaseException:
        connection.close()
        raise
    return connection


def _connected(path: Path, access: Access) -> duckdb.DuckDBPyConnection:
    try:
        import duckdb
    except ImportError:
        raise SinkUnusable(
            f"`{path}` needs DuckDB, which is not installed", hint='pip install "gapless[duckdb]"'
        ) from None
    try:
        if access is Access.CREATE:
            path.parent.mkdir(parents=True, exist_ok=True)
        try:
            return duckdb.connect(str(path), read_only=not access.writes, config=_CONFIG)
        except duckdb.ConnectionException:  # this process has it open to write
            return duckdb.connect(str(path), config=_CONFIG)
    except (duckdb.Error, OSError) as error:
        if "set lock on file" in str(error):
            raise SinkUnusable(
                f"`{path}` is open in another process",
                hint="DuckDB lets one process write to a file: wait for the other, or end it",
            ) from error
        raise SinkUnusable(
            f"cannot open `{path}`: {_said(error)}", hint="name another file, or check the path"
        ) from error


def identity(connection: duckdb.DuckDBPyConnection) -> str:
    return str(_one(connection, "SELECT id FROM _gapless_sink"))


@contextmanager
def transaction(connection: duckdb.DuckDBPyConnection, path: Path) -> Iterator[None]:
    """All or nothing, and alone; what was read still holds when it commits."""
    with _turns[path.resolve()], snapshot(connection):
        yield


@contextmanager
def snapshot(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """All or nothing, of one state of the file."""
    import duckdb

    connection.begin()
    try:
        yield
        connection.commit()
    except BaseException:
        with suppress(duckdb.Error):  # a commit that fails, as on a full disk, has ended it
            connection.rollback()
        raise


@contextmanager
def in_our_words(path: Path) -> Iterator[None]:
    """What DuckDB complains of, as the error of a sink."""
    import duckdb
    import pyarrow as pa

    try:
        yield
    except (duckdb.Error, pa.ArrowException) as error:
        if "corrupt" in str(error).lower():
            raise SinkError(
                f"`{path}` is damaged: {_said(error)}",
                hint="restore it from a backup, or fetch into a new file",
            ) from error
        raise SinkError(
            f"`{path}` failed: {_said(error)}", hint="check the disk and the file"
        ) from error


def _recognise(
    connection: duckdb.DuckDBPyConnection,
    path: Path,
    schema: Schema,
    access: Access,
    system: System,
) -> None:
    there = columns(connection)
    if "_gapless_sink" not in there:
        if access is not Access.CREATE:
            raise SinkUnusable(f"`{path}` is not a Gapless sink", hint="check the path")
        with transaction(connection, path):
            _create_schema(connection, path, schema, system)
            connection.execute(_CREATE_REQUESTS)
        return
    version = _one(connection, "SELECT version FROM _gapless_sink")
    if version != VERSION:
        raise SinkUnusable(
            f"`{path}` has format {version}, this Gapless knows {VERSION}", hint="upgrade Gapless"
        )
    if access.writes and requests.TABLE not in there:
        with transaction(connection, path):
            connection.execute(_CREATE_REQUESTS)
    for table in schema.tables:
        if table.name not in there:  # of a chain family that is newer than the file
            if access.writes:
                with transaction(connection, path):
                    _create_table(connection, table)
            continue
        lacking = _lacking(path, table, there[table.name])
        if lacking and access.writes:
            with transaction(connection, path):
                _extend(connection, table, lacking)


def _create_schema(
    connection: duckdb.DuckDBPyConnection, path: Path, schema: Schema, system: System
) -> None:
    """Makes a sink of a file, unless this process just did or the file is somebody else's."""
    there = columns(connection)
    if "_gapless_sink" in there:
        return
    if taken := sorted(there.keys() & schema.keys()):
        raise SinkUnusable(
            f"`{path}` has a table `{taken[0]}` that is not of Gapless", hint="name a new file"
        )
    connection.execute(_CREATE)
    connection.execute("INSERT INTO _gapless_sink VALUES (?, ?)", [system.uuid(), VERSION])
    for table in schema.tables:
        _create_table(connection, table)


def _create_table(connection: duckdb.DuckDBPyConnection, table: Table) -> None:
    connection.execute(create_table(table))
    connection.execute(create_view(table))


def _lacking(path: Path, table: Table, there: set[str]) -> list[Column]:
    """The columns that a later version has added. They are nullable, so digests still hold."""
    lacking = [column for column in table if column.name not in there]
    if there - {column.name for column in table} or not all(it.nullable for it in lacking):
        raise SinkUnusable(
            f"`{path}` has other columns in `{table.name}` than this Gapless",
            hint="use the Gapless that wrote it, or fetch into a new file",
        )
    return lacking


def _extend(connection: duckdb.DuckDBPyConnection, table: Table, lacking: Iterable[Column]) -> None:
    for column in lacking:
        connection.execute(add_column(table, column))
    connection.execute(create_view(table))


def columns(connection: duckdb.DuckDBPyConnection) -> Mapping[str, set[str]]:
    """The columns of each table that is there."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for table, column in connection.execute(_COLUMNS).fetchall():
        found[table].add(column)
    return found


def _one(connection: duckdb.DuckDBPyConnection, query: str) -> object:
    ((found,),) = connection.execute(query).fetchall()  # DuckDB wants a result fetched to its end
    value: object = found
    return value


def _said(error: Exception) -> str:
    return str(error).splitlines()[0]
