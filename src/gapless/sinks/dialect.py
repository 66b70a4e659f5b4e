"""How the SQL of SQLite and PostgreSQL differs, for tables that are described once.

A number of 256 bits is `wide`. As in the tables of blocks, SQLite stores it as 32 bytes, so that
bytes compare as numbers do, next to a rounded column to calculate with; PostgreSQL stores it as
`numeric`. A sum is `signed` and has any size: in SQLite it is decimal digits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from decimal import Decimal
from typing import Any, ClassVar

from gapless.schema import F64

_WIDTH = 32


class SqlDialect(ABC):
    """Types, expressions and values of a database."""

    number: ClassVar[str]
    """The type of a signed 64-bit number."""
    data: ClassVar[str]
    boolean: ClassVar[str]
    signed: ClassVar[str]
    """The type of a signed number of any size."""
    create_view: ClassVar[str]
    table_options: ClassVar[str]
    """What ends `CREATE TABLE`."""

    @abstractmethod
    def wide_columns(self, name: str) -> dict[str, str]:
        """Return the columns of a 256-bit number, with their types."""

    @abstractmethod
    def to_wide(self, value: int) -> tuple[object, ...]:
        """Return the values of `wide_columns`."""

    @abstractmethod
    def from_wide(self, stored: Any) -> int:
        """Return the number whose first column is given."""

    @abstractmethod
    def to_signed(self, value: int) -> object: ...

    @abstractmethod
    def from_signed(self, stored: Any) -> int: ...

    @abstractmethod
    def unindexed(self, column: str) -> str:
        """Return a column that a better index than its own is known for.

        SQLite chooses indexes without statistics, and has to be told. PostgreSQL is not restricted.
        """

    @abstractmethod
    def hex(self, expression: str) -> str:
        """Return bytes as hex, for people; null for null and for no bytes."""

    @abstractmethod
    def time(self, expression: str) -> str:
        """Return seconds since 1970 as a time."""

    @abstractmethod
    def readable_wide(self, expression: str) -> str:
        """Return a 256-bit number as exactly as people can read it."""

    @abstractmethod
    def in_units(self, rounded: str, decimals: str) -> str:
        """Return an amount of the smallest units in units of the token."""


class SqliteDialect(SqlDialect):
    number = "INTEGER"
    data = "BLOB"
    boolean = "INTEGER"
    signed = "TEXT"
    create_view = "CREATE VIEW IF NOT EXISTS"
    table_options = " STRICT, WITHOUT ROWID"

    def wide_columns(self, name: str) -> dict[str, str]:
        return {name: "BLOB", name + F64: "REAL"}

    def to_wide(self, value: int) -> tuple[object, ...]:
        return value.to_bytes(_WIDTH, "big"), float(value)

    def from_wide(self, stored: Any) -> int:
        return int.from_bytes(stored, "big")

    def to_signed(self, value: int) -> object:
        return str(value)

    def from_signed(self, stored: Any) -> int:
        return int(stored)

    def unindexed(self, column: str) -> str:
        return f"+{column}"

    def hex(self, expression: str) -> str:
        return f"'0x' || nullif(lower(hex({expression})), '')"

    def time(self, expression: str) -> str:
        return f"datetime({expression}, 'unixepoch')"

    def readable_wide(self, expression: str) -> str:
        return f"'0x' || coalesce(nullif(ltrim(lower(hex({expression})), '0'), ''), '0')"

    def in_units(self, rounded: str, decimals: str) -> str:
        return f"CAST({rounded} AS REAL) / CAST('1e' || {decimals} AS REAL)"


class PostgresDialect(SqlDialect):
    number = "bigint"
    data = "bytea"
    boolean = "boolean"
    signed = "numeric"
    create_view = "CREATE OR REPLACE VIEW"
    table_options = ""

    def wide_columns(self, name: str) -> dict[str, str]:
        return {name: "numeric(78,0)"}

    def to_wide(self, value: int) -> tuple[object, ...]:
        return (Decimal(value),)

    def from_wide(self, stored: Any) -> int:
        return int(stored)

    def to_signed(self, value: int) -> object:
        return Decimal(value)

    def from_signed(self, stored: Any) -> int:
        return int(stored)

    def unindexed(self, column: str) -> str:
        return column

    def hex(self, expression: str) -> str:
        return f"'0x' || nullif(encode({expression}, 'hex'), '')"

    def time(self, expression: str) -> str:
        return f"to_timestamp({expression}) AT TIME ZONE 'UTC'"

    def readable_wide(self, expression: str) -> str:
        return expression

    def in_units(self, rounded: str, decimals: str) -> str:
        return f"{rounded} / power(10::numeric, {decimals})"


SQLITE = SqliteDialect()
POSTGRES = PostgresDialect()
