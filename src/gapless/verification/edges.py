"""Check the hashes and row counts in records.

A write next to a stored range is compared with the hashes at the ends of its record, so they must
be right.
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
    """Yield a finding for each record that contradicts itself or the records of blocks."""
    for it in records:
        if it.dataset == anchor.name and it.rows != it.span.size:
            message = f"{it.rows:,} rows are recorded for {it.span.size:,} blocks"
            yield Finding("rows", it.dataset, it.span, message)
    for dataset, heights in covered.items():
        for span in (heights - covered[anchor.name]).spans:
            yield Finding("lost", dataset, span, "recorded as stored, but its blocks are not")


class Edges:
    """The recorded hashes at both ends of each record."""

    def __init__(self, anchor: Table, records: Sequence[Stored]) -> None:
        self._links = anchor.links
        self._firsts: dict[int, list[Stored]] = defaultdict(list)
        self._lasts: dict[int, list[Stored]] = defaultdict(list)
        for each in records:
            self._firsts[each.span.first].append(each)
            self._lasts[each.span.last].append(each)

    def findings(self, blocks: pa.Table) -> Iterator[Finding]:
        """Yield a finding for each record whose hashes differ from the blocks at its ends."""
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
            message = "the first or last hash of its record differs from that of the stored block"
            yield Finding("record", it.dataset, it.span, message)
