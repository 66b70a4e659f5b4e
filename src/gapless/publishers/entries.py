"""What is published of a block: the events of each transaction, then the block itself.

Which tables these are follows from how a family describes them: the anchor has a row for each
block; the rows of an *event table* belong to a transaction, which belongs to a block. A transaction
without events has no entry. A block always has one, so a consumer knows that an empty block is
complete. Rows that belong to the block itself, such as withdrawals, are only counted. Derived
tables are left out, because what they say is in the events.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapless.core.ranges import Span
from gapless.publishers.publisher import Link, OutgoingBlock
from gapless.schema import Table
from gapless.schema.arrow import one_array
from gapless.schema.json_text import json_members
from gapless.schema.layout import Field, native_fields

HEIGHT, TIME = "block_number", "block_timestamp"
_Places = npt.NDArray[np.uint64]
_Edges = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class EntryTables:
    """The tables of a family whose rows are published."""

    anchor: Table
    transactions: Table | None  # None: its transactions have no events
    events: tuple[Table, ...]
    counts: tuple[str, ...]  # columns of the anchor that count rows of other tables

    @classmethod
    def of(cls, tables: Sequence[Table]) -> EntryTables:
        """Find them in the tables of a family."""
        events = tuple(it for it in tables if len(it.parents) > 1 and not it.derived_from)
        derived = {it.name for it in tables if it.derived_from}
        counts = tuple(it for name, it in tables[0].counts.items() if name not in derived)
        return cls(tables[0], events[0].parents[0] if events else None, events, counts)

    @property
    def all(self) -> tuple[Table, ...]:
        middle = () if self.transactions is None else (self.transactions,)
        return (self.anchor, *middle, *self.events)

    def columns(self, table: Table) -> tuple[str, ...]:
        """The columns that are read."""
        found = {name for field in self._fields(table) for name in field.needs}
        keys = {*table.key, self.anchor.links.hash} if table is self.anchor else {*table.key}
        return tuple(column.name for column in table if column.name in found | keys)

    def outgoing(self, rows: Mapping[str, pa.Table], span: Span) -> list[OutgoingBlock]:
        """Make the entries of consecutive blocks from all of their rows."""
        blocks = rows[self.anchor.name]
        hashes, parents = (blocks[name].to_pylist() for name in self.anchor.links)
        summaries = json_members(blocks, self._fields(self.anchor)).to_pylist()
        entries = self._transactions(rows, span)
        made = []
        for at, height in enumerate(range(span.first, span.last + 1)):
            own = tuple(entries.get(height, ()))
            summary = f'{{{summaries[at]},"entries":{len(own)}}}'.encode()
            made.append(OutgoingBlock(height, Link(hashes[at], parents[at]), own, summary))
        return made

    def _transactions(self, rows: Mapping[str, pa.Table], span: Span) -> dict[int, list[bytes]]:
        """The entries of transactions, by height."""
        if self.transactions is None:
            return {}
        table, key = rows[self.transactions.name], self.transactions.key
        places = _places(table, key, span)
        edges = [_edges(_places(rows[it.name], key, span), places) for it in self.events]
        busy = np.flatnonzero(sum(last - first for first, last in edges))
        members = [json_members(table.take(busy), self._fields(self.transactions)).to_pylist()]
        for event, (first, last) in zip(self.events, edges, strict=True):
            texts = json_members(rows[event.name], self._fields(event)).to_pylist()
            bounds = zip(first[busy].tolist(), last[busy].tolist(), strict=True)
            members.append([f'"{event.name}":[{_objects(texts[a:b])}]' for a, b in bounds])
        heights = one_array(table[HEIGHT]).to_numpy()[busy].tolist()
        found: dict[int, list[bytes]] = {}
        for height, *parts in zip(heights, *members, strict=True):
            found.setdefault(height, []).append(f"{{{','.join(parts)}}}".encode())
        return found

    def _fields(self, table: Table) -> tuple[Field, ...]:
        if table is self.anchor:
            shown = ("chain_id", TIME, table.links.parent, *self.counts)
            return native_fields(it for it in table.columns if it.name in shown)
        above = set[str]()
        if self.transactions is not None and table is not self.transactions:
            above = {*self.transactions.key, TIME}  # they are the transaction's
        return native_fields(it for it in table.columns if it.name not in above)


def _places(rows: pa.Table, key: Sequence[str], span: Span) -> _Places:
    """The transaction that each row belongs to, as one number that ascends with the key."""
    _, height, index = (one_array(rows[name]).to_numpy() for name in key)
    return (height - np.uint64(span.first)) * np.uint64(1 << 40) + index  # type: ignore[no-any-return]


def _edges(events: _Places, transactions: _Places) -> tuple[_Edges, _Edges]:
    """Where the events of each transaction begin and end."""
    first, last = (np.searchsorted(events, transactions, side) for side in ("left", "right"))
    return first, last


def _objects(members: Sequence[str]) -> str:
    return ",".join(f"{{{each}}}" for each in members)


def sizes(blocks: Sequence[OutgoingBlock]) -> Iterator[int]:
    """The bytes of each block."""
    for block in blocks:
        yield len(block.summary) + sum(map(len, block.transactions))
