"""The file of a SQLite sink: opened, recognised, and given its tables.

A file is ours if it has `_gapless_sink`, where its id is. A ledger is refused, even though it is
SQLite too, and so is a file where somebody else has a table of the same name as ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import apsw

from gapless.core.errors import SinkError, SinkUnusable
from gapless.schema import TABLES, Table
from gapless.schema.sqlite import add_column, create_view, drop_view
from gapless.sinks import requests
from gapless.sinks.sqlite import ranges

BUSY_MS = 60_000
VERSION = 1
_SAFE_SQLITE = (3, 51, 3)  # older ones can corrupt a WAL that several processes use
_CREATE = """
CREATE TABLE _gapless_sink (
  id TEXT NOT NULL,       -- of this very file: a deleted one that is made anew has another
  version INTEGER NOT NULL
) STRICT
"""
_CREATE_REQUESTS = f"{requests.create(requests.TABLE, 'INTEGER')} STRICT"
_LEDGER = {"backfills", "chunks"}


def connect(path: Path, *, create: bool, foreign_keys: bool) -> apsw.Connection:
    """Opens the sink in a file; an empty file becomes one, if it may."""
    if tuple(map(int, apsw.sqlite_lib_version().split("."))) < _SAFE_SQLITE:
        raise SinkUnusable(
            f"SQLite {apsw.sqlite_lib_version()} can corrupt a file that processes share",
            hint="install apsw 3.51.3 or newer",
        )
    if not create and not path.is_file():
        raise SinkUnusable(f"there is no sink at `{path}`", hint="check the path")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = apsw.Connection(str(path))
    except (apsw.Error, OSError) as error:
        raise SinkUnusable(f"cannot open `{path}`: {error}", hint="check the path") from error
    try:
        connection.set_busy_timeout(BUSY_MS)
        # A name in quotes is a column or an error, never a text.
        connection.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)
        connection.config(apsw.SQLITE_DBCONFIG_DQS_DDL, 0)
        _recognise(connection, path, create)
        connection.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA foreign_keys = {'ON' if foreign_keys else 'OFF'}")
    except apsw.Error as error:
        connection.close()
        raise SinkUnusable(
            f"`{path}` cannot be used as a sink: {error}", hint="name a new file"
        ) from error
    except BaseException:
        connection.close()
        raise
    return connection


def identity(connection: apsw.Connection) -> str:
    return str(connection.execute("SELECT id FROM _gapless_sink").get)


def names(connection: apsw.Connection) -> set[str]:
    """The tables of the file."""
    found = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
    return {name for (name,) in found}


@contextmanager
def transaction(connection: apsw.Connection, begin: str = "BEGIN IMMEDIATE") -> Iterator[None]:
    """All or nothing; what was read still holds when it commits."""
    connection.execute(begin)
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def in_our_words(path: Path) -> Iterator[None]:
    """What SQLite complains of, as the error of a sink."""
    try:
        yield
    except apsw.BusyError as error:
        raise SinkError(
            f"`{path}` has been locked for {BUSY_MS // 1000} s",
            hint="another process holds a transaction open on it",
        ) from error
    except apsw.ConstraintError as error:
        raise SinkUnusable(
            f"`{path}` refuses the rows: {error}",
            hint="fetch the tables that these refer to as well, or start a file with `?fk=off`",
        ) from error
    except apsw.Error as error:
        raise SinkError(f"`{path}` failed: {error}", hint="check the disk and the file") from error


def _recognise(connection: apsw.Connection, path: Path, create: bool) -> None:
    if "_gapless_sink" not in names(connection):
        if not create:
            raise SinkUnusable(f"`{path}` is no sink of Gapless", hint="check the path")
        with transaction(connection):
            _found(connection, path)
    version = connection.execute("SELECT version FROM _gapless_sink").get
    if version != VERSION:
        raise SinkUnusable(
            f"`{path}` has format {version}, this Gapless knows {VERSION}", hint="upgrade Gapless"
        )
    if create and requests.TABLE not in names(connection):
        with transaction(connection):
            connection.execute(_CREATE_REQUESTS)
    for table in TABLES:
        if table.name in names(connection) and _columns(connection, table) != _wanted(table):
            with transaction(connection):
                _extend(connection, path, table)


def _extend(connection: apsw.Connection, path: Path, table: Table) -> None:
    """Adds columns to a table of an older version. They are nullable, so digests still hold."""
    there = _columns(connection, table)
    lacking = [column for column in table if column.name not in there]
    if there - _wanted(table) or not all(column.nullable for column in lacking):
        raise SinkUnusable(
            f"`{path}` has other columns in `{table.name}` than this Gapless",
            hint="use the Gapless that wrote it, or fetch into a new file",
        )
    for column in lacking:
        connection.execute(add_column(table, column))
    connection.execute(drop_view(table))
    connection.execute(create_view(table))


def _columns(connection: apsw.Connection, table: Table) -> set[str]:
    found = connection.execute("SELECT name FROM pragma_table_info(?)", (table.name,))
    return {name for (name,) in found}


def _wanted(table: Table) -> set[str]:
    return {column.name for column in table}


def _found(connection: apsw.Connection, path: Path) -> None:
    """Makes a sink of a file, unless another process just did or the file is somebody else's."""
    there = names(connection)
    if "_gapless_sink" in there:
        return
    if there >= _LEDGER:
        raise SinkUnusable(
            f"`{path}` is a ledger: records need a file of their own", hint="name a new file"
        )
    if taken := sorted(there & {table.name for table in TABLES}):
        raise SinkUnusable(
            f"`{path}` has a table `{taken[0]}` that is not of Gapless", hint="name a new file"
        )
    connection.execute(_CREATE)
    connection.execute(ranges.CREATE)
    connection.execute("INSERT INTO _gapless_sink VALUES (?, ?)", (str(uuid4()), VERSION))
