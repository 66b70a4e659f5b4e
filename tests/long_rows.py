"""Rows that do not fit into one batch, without gigabytes of them."""

from __future__ import annotations

import pyarrow as pa


class TooLong:
    """Rows whose columns are too long for one array, as Arrow's offsets limit it."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows
        self.num_rows = rows.num_rows

    def __getitem__(self, name: str) -> pa.ChunkedArray:
        return self._rows[name]

    def select(self, names: list[str]) -> TooLong:
        return TooLong(self._rows.select(names))

    def combine_chunks(self) -> TooLong:
        return self

    def to_batches(self) -> list[pa.RecordBatch]:
        batches: list[pa.RecordBatch] = self._rows.to_batches()
        return batches
