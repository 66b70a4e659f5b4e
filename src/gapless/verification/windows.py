"""Compare consecutive blocks with each other and with their rows in other tables. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gapless.core.ranges import RangeSet, Span
from gapless.schema import Table
from gapless.schema.arrow import one_array
from gapless.verification.report import Finding

Numbers = NDArray[np.int64]


def columns(anchor: Table) -> tuple[str, ...]:
    """Return the columns of blocks to read: links and row counts."""
    return ("block_number", *anchor.links, *anchor.counts.values())


@dataclass(frozen=True)
class Last:
    """The last block of the previous window, to which the next block must link."""

    height: int
    hash: bytes


def blocks_findings(
    anchor: Table, rows: pa.Table, covered: RangeSet, before: Last | None
) -> Iterator[Finding]:
    """Yield findings for blocks that are lost, duplicate, unrecorded or not linked."""
    heights = numbers(rows["block_number"])
    present = runs(heights)
    for span in (covered - present).spans:
        yield Finding("lost", anchor.name, span, "recorded as stored, but missing")
    for span in (present - covered).spans:
        yield Finding("stray", anchor.name, span, "present, but not recorded as stored")
    if not len(heights):
        return
    for height in heights[1:][heights[1:] == heights[:-1]].tolist():
        yield Finding("duplicate", anchor.name, Span(height, height), "stored more than once")
    hashes, parents = (_hashes(rows[name]) for name in anchor.links)
    linked = (parents[1:] == hashes[:-1]).all(axis=1)
    for height in heights[1:][(heights[1:] == heights[:-1] + 1) & ~linked].tolist():
        yield _unlinked(anchor, height)
    first = int(heights[0])
    if before is not None and before.height + 1 == first and before.hash != parents[0].tobytes():
        yield _unlinked(anchor, first)


def last_block(anchor: Table, rows: pa.Table) -> Last | None:
    if not rows.num_rows:
        return None
    return Last(rows["block_number"][-1].as_py(), rows[anchor.links.hash][-1].as_py())


def count_findings(
    anchor: Table, dataset: str, blocks: pa.Table, counts: pa.Table, covered: RangeSet
) -> Iterator[Finding]:
    """Yield findings for blocks with a wrong number of rows, and for rows without a record."""
    for span in (runs(numbers(counts["block_number"])) - covered).spans:
        yield Finding("stray", dataset, span, "present, but not recorded as stored")
    declared = one_array(blocks[anchor.counts[dataset]])
    heights = numbers(blocks["block_number"])
    known = declared.is_valid().to_numpy(zero_copy_only=False)
    expected = numbers(declared.fill_null(0))
    actual = _placed(heights, counts)
    for at in np.flatnonzero(known & (expected != actual)).tolist():
        height = int(heights[at])
        if height in covered:
            message = f"the block declares {expected[at]:,}, but {actual[at]:,} are stored"
            yield Finding("count", dataset, Span(height, height), message)


def halves(window: Span) -> tuple[Span, Span]:
    middle = (window.first + window.last) // 2
    return Span(window.first, middle), Span(middle + 1, window.last)


def runs(heights: Numbers) -> RangeSet:
    """Return the ranges that some heights form; they may be in any order."""
    if not len(heights):
        return RangeSet()
    heights = np.unique(heights)
    breaks = np.flatnonzero(np.diff(heights) > 1)
    firsts = heights[np.concatenate([[0], breaks + 1])].tolist()
    lasts = heights[np.concatenate([breaks, [-1]])].tolist()
    return RangeSet(zip(firsts, lasts, strict=True))


def numbers(column: pa.ChunkedArray | pa.Array) -> Numbers:
    array = one_array(column) if isinstance(column, pa.ChunkedArray) else column
    found: Numbers = array.to_numpy().astype(np.int64)
    return found


def _placed(heights: Numbers, counts: pa.Table) -> Numbers:
    """Return the count of each height; 0 where there is none."""
    known, rows = numbers(counts["block_number"]), numbers(counts["rows"])
    if not len(known):
        return np.zeros(len(heights), np.int64)
    at = np.minimum(np.searchsorted(known, heights), len(known) - 1)
    return np.where(known[at] == heights, rows[at], 0)


def _hashes(column: pa.ChunkedArray) -> NDArray[np.uint8]:
    array = one_array(column)
    width = array.type.byte_width
    data = np.frombuffer(array.buffers()[1], np.uint8, len(array) * width, array.offset * width)
    return data.reshape(-1, width)


def _unlinked(anchor: Table, height: int) -> Finding:
    message = "does not link to the stored block before it"
    return Finding("link", anchor.name, Span(height, height), message)
