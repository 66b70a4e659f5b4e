"""The SQLite library that ledgers and sinks use, through apsw."""

from __future__ import annotations

import apsw

SAFE = (3, 51, 3)
UPGRADE = "install apsw 3.51.3 or newer"


def unsafe_version() -> str | None:
    """The version of the library if it can corrupt a WAL that several processes use, else None."""
    version = apsw.sqlite_lib_version()
    return version if tuple(map(int, version.split("."))) < SAFE else None
