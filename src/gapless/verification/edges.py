"""Checks the hashes at the ends of records, and their row counts.

A write next to a stored range is compared with these hashes, so they must be right.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from gapless.core.ranges import RangeSet
from gapless.schema import Table
from gapless.schema.arrow import one_array
from gapless.sinks import Stored
from gapless.verification.report import Finding
from gapless.verification.windows import numbers


def record_findings(
    anchor: Table, records: Sequence[Stored], covered: Mapping[str, RangeSet]
) -> Iterator[Finding]:
    """Yields records that contradict themselves, whatever rows are stored."""
    for it in records:
        if it.dataset == anchor.name and it.rows != it.span.size:
            words = f"{it.rows:,} rows are recorded for {it.span.size:,} blocks"
            yield Finding("rows", it.dataset, it.span, words)
    for dataset, heights in covered.items():
        for span in (heights - covered[anchor.name]).spans:
            yield Finding("lost", dataset, span, "recorded as stored, but its blocks are not")


class Edges:
    """The first and the last hash of each record."""

    def __init__(self, anchor: Table, records: Sequence[Stored]) -> None:
        self._links = anchor.links
        self._firsts: dict[int, list[Stored]] = defaultdict(list)
        self._lasts: dict[int, list[Stored]] = defaultdict(list)
        for each in records:
            self._firsts[each.span.first].append(each)
            self._lasts[each.span.last].append(each)

    def findings(self, blocks: pa.Table) -> Iterator[Finding]:
        """Yields records whose hashes differ from those of the blocks at their ends."""
        places = {height: at for at, height in enumerate(numbers(blocks["block_number"]).tolist())}
        hashes, parents = (one_array(blocks[name]) for name in self._links)
        wrong = [
            it
            for height in self._firsts.keys() & places.keys()
            for it in self._firsts[height]
            if it.parent_hash != parents[places[height]].as_py()
        ]
        wrong += [
            it
            for height in self._lasts.keys() & places.keys()
            for it in self._lasts[height]
            if it.last_hash != hashes[places[height]].as_py()
        ]
        for it in wrong:
            words = "its record names another block at its beginning or end"
            yield Finding("record", it.dataset, it.span, words)
