"""The SQLite library that ledgers and sinks use, through apsw."""

from __future__ import annotations

import apsw

SAFE = (3, 51, 3)
UPGRADE = "install apsw 3.51.3 or newer"


def unsafe_version() -> str | None:
    """The version of the library if it can corrupt a WAL that several processes use, else None."""
    version = apsw.sqlite_lib_version()
    return version if tuple(map(int, version.split("."))) < SAFE else None


def use_write_ahead_log(connection: apsw.Connection) -> None:
    """Switch to a write-ahead log, and wait for processes that use the file in the other mode.

    SQLite does not wait for their locks itself, because two processes that switch at the same time
    could wait for each other. It does wait when a transaction begins.
    """
    while True:
        try:
            connection.pragma("journal_mode", "WAL")
            return
        except apsw.BusyError:
            connection.execute("BEGIN IMMEDIATE; ROLLBACK")
