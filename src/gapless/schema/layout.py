"""What a column of an exported file is, and from where its values come. Pure.

Values are Arrow arrays, and the form of a column says what a format makes of them:

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
"""What is stored of some blocks, by table."""


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
    """A column of a file, filled from rows, and from what stands beside them in other tables."""

    name: str
    form: Form
    type: pa.DataType
    needs: tuple[str, ...]  # columns of the rows
    values: Callable[[pa.Table, Window], pa.Array]


@dataclass(frozen=True)
class Layout:
    """The columns of a file, and what of a sink it takes to fill them."""

    table: Table  # whose rows are exported
    fields: tuple[Field, ...]
    beside: Mapping[str, tuple[str, ...]]  # columns of other tables that are looked at
    made_of: tuple[str, ...] = ()  # what `made` needs
    made: Callable[[pa.Table], pa.Table] = lambda rows: rows  # what becomes of the stored rows
    needs_count_of: str | None = None  # a table whose rows must have been counted by every block
    names_without_rows: bool = True  # whether a CSV of nothing has a line of names

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns of the table that are read."""
        wanted = {*self.made_of, *(name for field in self.fields for name in field.needs)}
        return tuple(column.name for column in self.table if column.name in wanted)

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(field.name, field.type) for field in self.fields])

    def rows(self, stored: pa.Table, window: Window) -> pa.Table:
        """The rows of the file that some stored rows of a window become."""
        made = self.made(stored)
        return pa.table([field.values(made, window) for field in self.fields], self.schema)


@dataclass(frozen=True)
class LayoutSet:
    """The layouts of one schema of files, by table."""

    tables: Mapping[str, Layout]
    version: str | None = None  # the release of the tool whose columns they copy
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    """By table that it does not have, where the same is to be found."""

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
    """A column as it is stored; `wide` is the form of a 256-bit number."""
    form = wide if column.kind is Kind.U256 else _FORMS.get(column.kind, Form.TEXT)

    def values(rows: pa.Table, _: Window) -> pa.Array:
        array = one_array(rows[column.name])
        if column.kind is Kind.U256:
            return decimal_texts(array)
        return hex_texts(array) if form is Form.TEXT else array

    return Field(name or column.name, form, _TYPES[form], (column.name,), values)


def native_fields(columns: Iterable[Column]) -> tuple[Field, ...]:
    """Columns under their own names: bytes as hex, 256-bit numbers by all their digits.

    The digits are text in every format: a JSON number of that size is rounded by most that read it.
    """
    return tuple(plain(column, wide=Form.TEXT) for column in columns)
