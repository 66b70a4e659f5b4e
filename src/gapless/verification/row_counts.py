"""Compares the row counts of a table's records with the stored rows.

This matters for blocks without a count: without receipts, their number of logs is unknown.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from gapless.core.ranges import Span
from gapless.sinks import Stored
from gapless.verification.report import Finding
from gapless.verification.windows import numbers


class RowCounts:
    """The rows seen so far for each record of a table; records ascend, and so do windows."""

    def __init__(self, records: Sequence[Stored]) -> None:
        self._records = records
        self._lasts = [record.span.last for record in records]
        self._seen = [0] * len(records)

    def add(self, window: Span, counts: pa.Table) -> None:
        heights = numbers(counts["block_number"])
        rows = np.concatenate([[0], np.cumsum(numbers(counts["rows"]))])
        for at in range(bisect_left(self._lasts, window.first), len(self._records)):
            part = self._records[at].span.overlap(window)
            if part is None:
                break
            start, end = np.searchsorted(heights, [part.first, part.last + 1])
            self._seen[at] += int(rows[end] - rows[start])

    def findings(self, whole: Span) -> Iterator[Finding]:
        """Yields records within a range whose number of rows differs from what was written."""
        for record, seen in zip(self._records, self._seen, strict=True):
            if record.span.overlap(whole) == record.span and seen != record.rows:
                words = f"{record.rows:,} rows were written, {seen:,} are there"
                yield Finding("rows", record.dataset, record.span, words)
