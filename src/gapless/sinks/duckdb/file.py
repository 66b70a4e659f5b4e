"""Open the file of a DuckDB sink, check its format and create its tables.

DuckDB lets either one process write to a file or several processes read it. Readers therefore open
the file read-only, so that several can use it at once. Within one process, any number of sinks may
use the file: they share DuckDB's memory and take turns to write.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gapless.core.errors import SinkError, SinkUnusable
from gapless.schema import Column, Schema, Table
from gapless.schema.duckdb import add_column, create_table, create_view
from gapless.sinks import feed, requests
from gapless.sinks.sink import Access
from gapless.sinks.write_turns import turn_to_write
from gapless.system import System

if TYPE_CHECKING:
    import duckdb

VERSION = 1
_CREATE = """
CREATE TABLE _gapless_sink (
  id VARCHAR NOT NULL,      -- of this file: a file that is deleted and created again gets a new one
  version BIGINT NOT NULL
);
CREATE TABLE _gapless_ranges (
  chain_id UBIGINT NOT NULL,
  dataset VARCHAR NOT NULL,
  first UBIGINT NOT NULL,
  last UBIGINT NOT NULL,
  fence UBIGINT NOT NULL,
  kind VARCHAR NOT NULL,    -- 'written', 'expired' or 'retracted'
  rows UBIGINT NOT NULL,
  digest BLOB NOT NULL,
  proven VARCHAR NOT NULL,  -- names of checks, separated by spaces
  unproven VARCHAR NOT NULL,
  parent_hash BLOB NOT NULL,
  last_hash BLOB NOT NULL
);
"""
_CREATE_OWN = (
    requests.create(requests.TABLE, "UBIGINT"),
    *feed.create(feed.PLACES, "UBIGINT", keyed=False),
)
_OWN_TABLES = {requests.TABLE, *feed.TABLES}
_COLUMNS = "SELECT table_name, column_name FROM duckdb_columns() WHERE schema_name = 'main'"
# Otherwise DuckDB may download an extension to read a file of another format.
_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}


def connect(
    path: Path, schema: Schema, access: Access, system: System
) -> duckdb.DuckDBPyConnection:
    """Open the sink in a file. Create it if `access` allows that."""
    if access is not Access.CREATE and not path.is_file():
        raise SinkUnusable(f"there is no sink at `{path}`", hint="check the path")
    connection = _connected(path, access)
    try:
        with translate_errors(path):
            _find_or_create(connection, path, schema, access, system)
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
        except duckdb.ConnectionException:  # this process has the file open for writing
            return duckdb.connect(str(path), config=_CONFIG)
    except (duckdb.Error, OSError) as error:
        if "set lock on file" in str(error):
            raise SinkUnusable(
                f"`{path}` is open in another process",
                hint="wait for it, or end it: only one process can write to a DuckDB file",
            ) from error
        raise SinkUnusable(
            f"cannot open `{path}`: {_reason(error)}", hint="name another file, or check the path"
        ) from error


def identity(connection: duckdb.DuckDBPyConnection) -> str:
    return str(_one(connection, "SELECT id FROM _gapless_sink"))


@contextmanager
def transaction(connection: duckdb.DuckDBPyConnection, path: Path) -> Iterator[None]:
    """Run an exclusive, atomic transaction: what it reads is still true when it commits."""
    with turn_to_write(path), snapshot(connection):
        yield


@contextmanager
def snapshot(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Run an atomic transaction that reads a consistent snapshot of the file."""
    import duckdb

    connection.begin()
    try:
        yield
        connection.commit()
    except BaseException:
        with suppress(
            duckdb.Error
        ):  # a failed commit, for example on a full disk, has already ended it
            connection.rollback()
        raise


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Raise DuckDB's errors as `SinkError`."""
    import duckdb
    import pyarrow as pa

    try:
        yield
    except (duckdb.Error, pa.ArrowException) as error:
        if "corrupt" in str(error).lower():
            raise SinkError(
                f"`{path}` is damaged: {_reason(error)}",
                hint="restore it from a backup, or fetch into a new file",
            ) from error
        raise SinkError(
            f"`{path}` failed: {_reason(error)}", hint="check the disk and the file"
        ) from error


def _find_or_create(
    connection: duckdb.DuckDBPyConnection,
    path: Path,
    schema: Schema,
    access: Access,
    system: System,
) -> None:
    existing = columns(connection)
    if "_gapless_sink" not in existing:
        if access is not Access.CREATE:
            raise SinkUnusable(f"`{path}` is not a Gapless sink", hint="check the path")
        with transaction(connection, path):
            _create_schema(connection, path, schema, system)
            _create_own_tables(connection)
        return
    version = _one(connection, "SELECT version FROM _gapless_sink")
    if version != VERSION:
        raise SinkUnusable(
            f"`{path}` has format {version}, but this version of Gapless supports format {VERSION}",
            hint="upgrade Gapless",
        )
    if access.writes and not existing.keys() >= _OWN_TABLES:
        with transaction(connection, path):
            _create_own_tables(connection)
    for table in schema.tables:
        if table.name not in existing:  # its chain family is newer than the file
            if access.writes:
                with transaction(connection, path):
                    _create_table(connection, table)
            continue
        missing = _missing_columns(path, table, existing[table.name])
        if missing and access.writes:
            with transaction(connection, path):
                _extend(connection, table, missing)


def _create_schema(
    connection: duckdb.DuckDBPyConnection, path: Path, schema: Schema, system: System
) -> None:
    """Create the sink in a file, unless this process just did.

    Refuse a file where other programs have tables with the same names.
    """
    existing = columns(connection)
    if "_gapless_sink" in existing:
        return
    if taken := sorted(existing.keys() & schema.keys()):
        raise SinkUnusable(
            f"`{path}` has a table `{taken[0]}` that Gapless did not create", hint="name a new file"
        )
    connection.execute(_CREATE)
    connection.execute("INSERT INTO _gapless_sink VALUES (?, ?)", [system.uuid(), VERSION])
    for table in schema.tables:
        _create_table(connection, table)


def _create_own_tables(connection: duckdb.DuckDBPyConnection) -> None:
    """Create the tables that sinks of older versions lack."""
    for statement in _CREATE_OWN:
        connection.execute(statement)


def _create_table(connection: duckdb.DuckDBPyConnection, table: Table) -> None:
    connection.execute(create_table(table))
    connection.execute(create_view(table))


def _missing_columns(path: Path, table: Table, existing: set[str]) -> list[Column]:
    """Return the columns that a later version added. They are nullable: digests stay valid."""
    missing = [column for column in table if column.name not in existing]
    if existing - {column.name for column in table} or not all(it.nullable for it in missing):
        raise SinkUnusable(
            f"the columns of `{table.name}` in `{path}` do not match this version of Gapless",
            hint="use the version of Gapless that wrote it, or fetch into a new file",
        )
    return missing


def _extend(connection: duckdb.DuckDBPyConnection, table: Table, missing: Iterable[Column]) -> None:
    for column in missing:
        connection.execute(add_column(table, column))
    connection.execute(create_view(table))


def columns(connection: duckdb.DuckDBPyConnection) -> Mapping[str, set[str]]:
    """Return the columns of each existing table."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for table, column in connection.execute(_COLUMNS).fetchall():
        found[table].add(column)
    return found


def _one(connection: duckdb.DuckDBPyConnection, query: str) -> object:
    ((found,),) = connection.execute(
        query
    ).fetchall()  # DuckDB requires that results are read to the end
    value: object = found
    return value


def _reason(error: Exception) -> str:
    return str(error).splitlines()[0]
