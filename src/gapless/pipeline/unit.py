"""What the pipeline's stages pass on: consecutive blocks, decoded and checked.

The unit of work is a list of blocks, not a single one, because passing single blocks between tasks
costs more than decoding them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from gapless.core.errors import BrokenSeam
from gapless.core.proof import LINK, Proof
from gapless.core.ranges import Span
from gapless.schema import compute as pc
from gapless.schema.arrow import Tables
from gapless.sinks import Batch

_LINKED = frozenset({LINK})


@dataclass(frozen=True)
class Unit:
    """Consecutive blocks with their rows, and what was proven about each on its own."""

    span: Span
    tables: Tables
    hashes: Sequence[bytes]
    parents: Sequence[bytes]
    proof: Proof
    has_all_keys: bool = False  # whether every key of the answers was read
    sampled: int | None = None  # the last height whose answer was read in full
    endpoints: frozenset[str] = frozenset()  # that answered

    @cached_property
    def size(self) -> int:
        """Bytes of memory that its rows use."""
        return sum(table.get_total_buffer_size() for table in self.tables.values())


def check_units(units: Sequence[Unit], before: bytes | None) -> bytes | None:
    """Check that each block's parent is the block before it; return the last hash."""
    for unit in units:
        if before is not None and unit.parents[0] != before:
            raise _broken(unit.span.first - 1)
        if unit.parents[1:] != unit.hashes[:-1]:
            pairs = zip(unit.parents[1:], unit.hashes, strict=False)
            at = next(at for at, (parent, hash_) in enumerate(pairs) if parent != hash_)
            raise _broken(unit.span.first + at)
        before = unit.hashes[-1]
    return before


def _broken(height: int) -> BrokenSeam:
    return BrokenSeam(f"block {height + 1} is not a child of block {height}", height=height)


def batch_of(units: Sequence[Unit], chain_id: int, *, linked: bool) -> Batch:
    """Combine consecutive units into one batch."""
    proof = units[0].proof
    for unit in units[1:]:
        proof &= unit.proof
    names = units[0].tables
    return Batch(
        chain_id,
        Span(units[0].span.first, units[-1].span.last),
        Tables({name: pa.concat_tables([unit.tables[name] for unit in units]) for name in names}),
        proof.proven | _LINKED if linked else proof.proven,
        proof.unproven,
    )


def cut(batch: Batch, span: Span) -> Batch:
    """Return the part of a batch within a span."""
    tables = {}
    for name, table in batch.tables.items():
        height = table["block_number"]
        inside = pc.and_(
            pc.greater_equal(height, pa.scalar(span.first, pa.uint64())),
            pc.less_equal(height, pa.scalar(span.last, pa.uint64())),
        )
        tables[name] = table.filter(inside)
    return Batch(batch.chain_id, span, Tables(tables), batch.proven, batch.unproven)
