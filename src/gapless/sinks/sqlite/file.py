"""Open the file of a SQLite sink, check its format and create its tables.

A file is a sink if it has the table `_gapless_sink`, which stores its id. A ledger is refused,
although it is SQLite too, and so is a file with tables of the same names that Gapless did not
create.

A reader changes neither tables nor settings. While no process writes, it opens the file as
immutable. Otherwise it needs the writer's log next to the file, and an index of that log, which
SQLite may have to create.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

import apsw

from gapless import sqlite
from gapless.core.errors import SinkError, SinkUnusable
from gapless.schema import Column, Schema, Table
from gapless.schema.sqlite import add_column, create_view, drop_view
from gapless.sinks.sink import Access
from gapless.sinks.sqlite import ranges
from gapless.system import System
from gapless.threads import SerialThread

BUSY_SECONDS = 60
VERSION = 1
_CREATE = """
CREATE TABLE _gapless_sink (
  id TEXT NOT NULL,       -- of this file: a file that is deleted and created again gets a new one
  version INTEGER NOT NULL
) STRICT
"""
_LEDGER = {"backfills", "chunks"}
_RESTORE = "restore it from a backup, or fetch into a new file"


def connect(
    path: Path,
    schema: Schema,
    access: Access,
    thread: SerialThread,
    system: System,
    *,
    foreign_keys: bool = True,
    immutable: bool = False,
) -> apsw.Connection:
    """Open the sink in a file. Create it if `access` allows that.

    A reader may open the file as `immutable` while its `idle_state` does not change.
    """
    if (version := sqlite.unsafe_version()) is not None:
        raise SinkUnusable(
            f"SQLite {version} can corrupt a file that several processes use", hint=sqlite.UPGRADE
        )
    if access is not Access.CREATE and not path.is_file():
        raise SinkUnusable(f"there is no sink at `{path}`", hint="check the path")
    try:
        if access is Access.READ:
            connection = _read_only(path, thread, immutable=immutable)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            connection = apsw.Connection(str(path))
    except apsw.CorruptError as error:
        raise SinkUnusable(f"`{path}` is damaged: {error}", hint=_RESTORE) from error
    except (apsw.Error, OSError) as error:
        raise SinkUnusable(f"cannot open `{path}`: {error}", hint="check the path") from error
    try:
        thread.wait_for_locks(connection, BUSY_SECONDS)
        # A name in double quotes is a column or an error, never a string.
        connection.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)
        connection.config(apsw.SQLITE_DBCONFIG_DQS_DDL, 0)
        # Plans do not depend on bound values. Otherwise the statements that look for records are
        # compiled again at each run, which takes ten times as long as the run.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        _find_or_create(connection, path, schema, access, system)
        if access.writes:
            sqlite.use_write_ahead_log(connection)
            connection.pragma("synchronous", "FULL")
            connection.pragma("foreign_keys", foreign_keys)
    except (apsw.CantOpenError, apsw.ReadOnlyError) as error:  # or the log next to it
        connection.close()
        raise SinkUnusable(
            f"`{path}` cannot be written to: {error}",
            hint="check that its folder can be written to",
        ) from error
    except apsw.Error as error:
        connection.close()
        raise SinkUnusable(
            f"`{path}` cannot be used as a sink: {error}", hint="name a new file"
        ) from error
    except BaseException:
        connection.close()
        raise
    return connection


def idle_state(path: Path) -> tuple[int, ...] | None:
    """Return the identity of a file without writers; None if it may have one or is missing."""
    with suppress(FileNotFoundError):
        found = path.stat()
        if not any(map(_size, (_beside(path, "-wal"), _beside(path, "-journal")))):
            return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
    return None


def _read_only(path: Path, thread: SerialThread, *, immutable: bool) -> apsw.Connection:
    """Open a read-only connection. An immutable file needs no log next to it."""
    place = f"file:{quote(str(path.absolute()))}?{'immutable=1' if immutable else 'mode=ro'}"
    connection = apsw.Connection(place, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    thread.wait_for_locks(connection, BUSY_SECONDS)
    try:
        names(connection)  # SQLite opens the file only now
    except apsw.Error as error:
        connection.close()
        if immutable or not isinstance(error, apsw.CantOpenError):
            raise
        raise SinkUnusable(
            f"`{path}` cannot be read: a writer left changes in `{_beside(path, '-wal').name}`,"
            " and the folder is read-only",
            hint="copy both files to a folder that you can write to",
        ) from error
    return connection


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(f"{path.name}{suffix}")


def _size(path: Path) -> int:
    with suppress(FileNotFoundError):
        return path.stat().st_size
    return 0


def identity(connection: apsw.Connection) -> str:
    return str(connection.execute("SELECT id FROM _gapless_sink").get)


def names(connection: apsw.Connection) -> set[str]:
    """Return the tables of the file."""
    found = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
    return {name for (name,) in found}


@contextmanager
def transaction(connection: apsw.Connection, begin: str = "BEGIN IMMEDIATE") -> Iterator[None]:
    """Run an atomic transaction: what it reads is still true when it commits."""
    connection.execute(begin)
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Raise SQLite's errors as `SinkError` or `SinkUnusable`."""
    try:
        yield
    except apsw.BusyError as error:
        raise SinkError(
            f"`{path}` has been locked for {BUSY_SECONDS} s",
            hint="wait for the process that has a transaction open on it, or end it",
        ) from error
    except apsw.ConstraintError as error:
        raise SinkUnusable(
            f"`{path}` rejects the rows: {error}",
            hint="also fetch the tables that these rows refer to, or use a new file with `?fk=off`",
        ) from error
    except (apsw.CorruptError, apsw.NotADBError) as error:
        raise SinkError(f"`{path}` is damaged: {error}", hint=_RESTORE) from error
    except apsw.Error as error:
        raise SinkError(f"`{path}` failed: {error}", hint="check the disk and the file") from error


def _find_or_create(
    connection: apsw.Connection, path: Path, schema: Schema, access: Access, system: System
) -> None:
    existing = names(connection)
    if "_gapless_sink" not in existing:
        if access is not Access.CREATE:
            raise SinkUnusable(f"`{path}` is not a Gapless sink", hint="check the path")
        if not existing:  # so it is nobody else's, and with the log its first commit is cheaper
            sqlite.use_write_ahead_log(connection)
        with transaction(connection):
            _create_schema(connection, path, schema, system)
    version = connection.execute("SELECT version FROM _gapless_sink").get
    if version != VERSION:
        raise SinkUnusable(
            f"`{path}` has format {version}, but this version of Gapless supports format {VERSION}",
            hint="upgrade Gapless",
        )
    if access.writes and not names(connection) >= ranges.OWN_TABLES:
        with transaction(connection):
            for statement in ranges.CREATE_OWN:
                connection.execute(statement)
    for table in schema.tables:
        if missing_columns(connection, path, table) and access.writes:
            with transaction(connection):
                _extend(connection, path, table)


def missing_columns(connection: apsw.Connection, path: Path, table: Table) -> list[Column]:
    """Return the columns that a later version added. They are nullable: digests stay valid.

    Return nothing for a table that does not exist; raise for one with different columns.
    """
    existing = columns(connection, table)
    missing = [column for column in table if column.name not in existing] if existing else []
    if existing - {column.name for column in table} or not all(it.nullable for it in missing):
        raise SinkUnusable(
            f"the columns of `{table.name}` in `{path}` do not match this version of Gapless",
            hint="use the version of Gapless that wrote it, or fetch into a new file",
        )
    return missing


def columns(connection: apsw.Connection, table: Table) -> set[str]:
    """Return the columns of a table; none if it does not exist."""
    found = connection.execute("SELECT name FROM pragma_table_info(?)", (table.name,))
    return {name for (name,) in found}


def _extend(connection: apsw.Connection, path: Path, table: Table) -> None:
    for column in missing_columns(connection, path, table):
        connection.execute(add_column(table, column))
    connection.execute(drop_view(table))
    connection.execute(create_view(table))


def _create_schema(connection: apsw.Connection, path: Path, schema: Schema, system: System) -> None:
    """Create the sink in a file, unless another process just did.

    Refuse a ledger, and a file where other programs have tables with the same names.
    """
    existing = names(connection)
    if "_gapless_sink" in existing:
        return
    if existing >= _LEDGER:
        raise SinkUnusable(
            f"`{path}` is a ledger; rows need a separate file", hint="name a new file"
        )
    if taken := sorted(existing & schema.keys()):
        raise SinkUnusable(
            f"`{path}` has a table `{taken[0]}` that Gapless did not create", hint="name a new file"
        )
    for statement in (_CREATE, ranges.CREATE, *ranges.CREATE_OWN):
        connection.execute(statement)
    connection.execute("INSERT INTO _gapless_sink VALUES (?, ?)", (system.uuid(), VERSION))
