"""The columns of exported files, and where their values come from. Pure.

Values are Arrow arrays. The form of a column says how a format writes them:

    INTEGER   a number below 2^64
    DIGITS    a number of any size, by its decimal digits
    FLOAT     a double
    FLAG      true or false
    TEXT      plain characters, which need no escape anywhere: hex, or digits
    JSON      the text of a JSON value
    TEXTS     a list of texts
    OBJECTS   a list of objects with numbers and texts
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

import pyarrow as pa

from gapless.schema import Column, Kind, Table
from gapless.schema.arrow import one_array
from gapless.schema.values import decimal_texts, hex_texts

Window = Mapping[str, pa.Table]
"""The stored rows of some blocks, by table."""


class Form(Enum):
    INTEGER = auto()
    DIGITS = auto()
    FLOAT = auto()
    FLAG = auto()
    TEXT = auto()
    JSON = auto()
    TEXTS = auto()
    OBJECTS = auto()


@dataclass(frozen=True)
class Field:
    """A column of a file, filled from rows and from related rows of other tables."""

    name: str
    form: Form
    type: pa.DataType
    needs: tuple[str, ...]  # columns of the rows
    values: Callable[[pa.Table, Window], pa.Array]


@dataclass(frozen=True)
class Layout:
    """The columns of a file, and the stored columns that fill them."""

    table: Table  # whose rows are exported
    fields: tuple[Field, ...]
    beside: Mapping[str, tuple[str, ...]]  # columns of other tables that are read
    made_of: tuple[str, ...] = ()  # columns that `made` needs
    made: Callable[[pa.Table], pa.Table] = lambda rows: rows  # transforms the stored rows
    needs_count_of: str | None = None  # a table whose row count every block must have
    names_without_rows: bool = True  # whether a CSV without rows has a header

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns of the table that are read."""
        wanted = {*self.made_of, *(name for field in self.fields for name in field.needs)}
        return tuple(column.name for column in self.table if column.name in wanted)

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(field.name, field.type) for field in self.fields])

    def rows(self, stored: pa.Table, window: Window) -> pa.Table:
        """Returns the rows of the file for some stored rows of a window."""
        made = self.made(stored)
        return pa.table([field.values(made, window) for field in self.fields], self.schema)


@dataclass(frozen=True)
class LayoutSet:
    """The layouts of one schema of files, by table."""

    tables: Mapping[str, Layout]
    version: str | None = None  # the release of the tool whose columns they copy
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    """For tables that it lacks, a hint where to find the same data."""

    def __or__(self, other: LayoutSet) -> LayoutSet:
        return LayoutSet(
            {**self.tables, **other.tables},
            other.version or self.version,
            {**self.elsewhere, **other.elsewhere},
        )


_TYPES = {
    Form.INTEGER: pa.uint64(),
    Form.DIGITS: pa.string(),
    Form.FLAG: pa.bool_(),
    Form.TEXT: pa.string(),
    Form.JSON: pa.string(),
}
_FORMS = {Kind.INT: Form.INTEGER, Kind.BOOL: Form.FLAG, Kind.JSON: Form.JSON}


def plain(column: Column, *, name: str | None = None, wide: Form) -> Field:
    """Returns a column as it is stored; `wide` is the form of a 256-bit number."""
    form = wide if column.kind is Kind.U256 else _FORMS.get(column.kind, Form.TEXT)

    def values(rows: pa.Table, _: Window) -> pa.Array:
        array = one_array(rows[column.name])
        if column.kind is Kind.U256:
            return decimal_texts(array)
        return hex_texts(array) if form is Form.TEXT and not column.kind.is_text else array

    return Field(name or column.name, form, _TYPES[form], (column.name,), values)


def native_fields(columns: Iterable[Column]) -> tuple[Field, ...]:
    """Returns columns under their own names: bytes as hex, 256-bit numbers as decimal digits.

    The digits are text in every format, because most readers round JSON numbers of that size.
    """
    return tuple(plain(column, wide=Form.TEXT) for column in columns)
