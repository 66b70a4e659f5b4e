"""Compare the row counts in a table's records with the stored rows.

This matters for blocks that do not declare a count: without receipts, a block's number of logs is
unknown.
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
    """Counts the rows seen so far for each record of a table; records and windows ascend."""

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
        """Yield a finding for each record in a range whose row count differs from the stored rows.

        Records that extend beyond the range are skipped.
        """
        for record, seen in zip(self._records, self._seen, strict=True):
            if record.span.overlap(whole) == record.span and seen != record.rows:
                message = f"{record.rows:,} rows were written, but {seen:,} are stored"
                yield Finding("rows", record.dataset, record.span, message)
