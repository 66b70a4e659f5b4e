"""The embedded ledger: one SQLite file, WAL, synchronous FULL, through apsw."""

from gapless.ledger.sqlite.database import SqliteDatabase

__all__ = ["SqliteDatabase"]
