"""Incremental writers for the file formats.

CSV and JSON lines are built a column at a time, and Arrow joins the columns into the final text.
Both look like the output of Python's own writers, which ethereum-etl uses: CSV with quotes only
where needed, JSON with a space after `,` and `:`. pyarrow's CSV writer is up to twice as fast
(`python -m bench libraries`), but cannot write this: it quotes every text, or fails at one that
needs quotes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gapless.schema.arrow import one_array
from gapless.schema.layout import Field, Form, Layout
from gapless.schema.values import joined

_GROUP_ROWS = 50_000
_GROUP_BYTES = 64 << 20


class Writer(Protocol):
    """A file that is being written."""

    def write(self, rows: pa.Table) -> None:
        """Add rows of the layout."""

    def finish(self) -> None:
        """Write the remaining rows. Do not close the file."""


class CsvWriter:
    """Lines of comma-separated values; a null is empty."""

    def __init__(self, layout: Layout, file: BinaryIO) -> None:
        self._layout, self._file = layout, file
        self._named = False

    def write(self, rows: pa.Table) -> None:
        if not rows.num_rows:
            return
        self._name()
        values = [_csv(field, one_array(rows[field.name])) for field in self._layout.fields]
        lines = joined(*(it.fill_null("") for it in values), by=",")
        _write_texts(self._file, joined(lines, "\n"))

    def finish(self) -> None:
        if self._layout.names_without_rows:
            self._name()

    def _name(self) -> None:
        if not self._named:
            names = ",".join(field.name for field in self._layout.fields)
            self._file.write(f"{names}\n".encode())
        self._named = True


class JsonWriter:
    """A JSON object on each line."""

    def __init__(self, layout: Layout, file: BinaryIO) -> None:
        self._layout, self._file = layout, file

    def write(self, rows: pa.Table) -> None:
        if not rows.num_rows:
            return
        parts: list[Any] = []
        for at, field in enumerate(self._layout.fields):
            parts.append(f'{", " if at else "{"}"{field.name}": ')
            parts.append(_json(field, one_array(rows[field.name])).fill_null("null"))
        _write_texts(self._file, joined(*parts, "}\n"))

    def finish(self) -> None:
        """Do nothing: every line is already written."""


class ParquetWriter:
    """A Parquet file, with row groups as large as the buffer allows."""

    def __init__(self, layout: Layout, file: BinaryIO) -> None:
        self._writer = pq.ParquetWriter(file, layout.schema, compression="zstd")
        self._waiting = layout.schema.empty_table()

    def write(self, rows: pa.Table) -> None:
        self._waiting = pa.concat_tables([self._waiting, rows])
        if self._waiting.num_rows >= _GROUP_ROWS or self._waiting.nbytes >= _GROUP_BYTES:
            self._group()

    def finish(self) -> None:
        if self._waiting.num_rows:
            self._group()
        self._writer.close()

    def _group(self) -> None:
        self._writer.write_table(self._waiting, row_group_size=self._waiting.num_rows)
        self._waiting = self._waiting.schema.empty_table()


FORMATS: Mapping[str, Callable[[Layout, BinaryIO], Writer]] = {
    "csv": CsvWriter,
    "json": JsonWriter,
    "parquet": ParquetWriter,
}


def _csv(field: Field, values: pa.Array) -> pa.Array:
    if values.null_count == len(values):
        return values.cast(pa.string())
    if field.form is Form.TEXTS:
        return _quoted(pc.binary_join(values, ","))
    if field.form is Form.OBJECTS:
        compact = json.JSONEncoder(separators=(",", ":"))
        return _quoted(_texts(values, lambda each: ",".join(map(compact.encode, each))))
    texts = _digits(field, values)
    return _quoted(texts) if field.form is Form.JSON else texts


def _json(field: Field, values: pa.Array) -> pa.Array:
    if values.null_count == len(values):
        return values.cast(pa.string())
    if field.form is Form.TEXT:
        return joined('"', values, '"')
    if field.form in (Form.TEXTS, Form.OBJECTS):
        return _texts(values, json.dumps)
    return _digits(field, values)


def _digits(field: Field, values: pa.Array) -> pa.Array:
    """Return values whose text is the same in CSV and JSON."""
    return _texts(values, repr) if field.form is Form.FLOAT else values.cast(pa.string())


def _texts(values: pa.Array, text: Callable[[Any], str]) -> pa.Array:
    found = [None if each is None else text(each) for each in values.to_pylist()]
    return pa.array(found, pa.string())


def _quoted(texts: pa.Array) -> pa.Array:
    """Quote the texts that contain a comma, a quote or a line break."""
    quoted = joined('"', pc.replace_substring(texts, '"', '""'), '"')
    return pc.if_else(pc.match_substring_regex(texts, '[,"\r\n]'), quoted, texts)


def _write_texts(file: BinaryIO, texts: pa.Array) -> None:
    """Write all texts, concatenated, directly from their buffer."""
    length = pc.sum(pc.binary_length(texts)).as_py()
    file.write(memoryview(texts.buffers()[2])[:length])
