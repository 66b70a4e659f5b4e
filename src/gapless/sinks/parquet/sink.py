"""Parquet files as a sink, for queries with DuckDB, Polars or pyarrow.

A file holds a range of one table within a cell of a thousand blocks, and never changes: writing a
range again creates a new file, and the remaining rows of the old one are copied. The manifest lists
the files that are part of the sink, and replacing it is the commit; see `folder`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Self

import msgspec
import numpy as np
import pyarrow as pa

from gapless.core.errors import Damaged, SinkError, SinkUnusable
from gapless.core.heights import HIGHEST
from gapless.core.ranges import RangeSet, Span
from gapless.schema import Schema, Table
from gapless.schema.arrow import Tables, one_array
from gapless.sinks import records, requests
from gapless.sinks.admission import admit
from gapless.sinks.changes import Change, ChangeReader
from gapless.sinks.parquet.file_feed import FileFeed
from gapless.sinks.parquet.folder import Folder
from gapless.sinks.parquet.folder_change import FolderChange
from gapless.sinks.parquet.manifest import CELL, ChainFiles, Manifest, RequestEntry
from gapless.sinks.parquet.stored import StoredRows
from gapless.sinks.revision import revised
from gapless.sinks.sink import Access, Batch, Damage, Request, Stored
from gapless.sinks.threaded import ThreadedSink
from gapless.system import SYSTEM, System
from gapless.threads import SerialThread


class ParquetSink(ThreadedSink):
    """A sink in a folder. Open it with `open`."""

    batch_blocks: int | None = CELL
    grid: int | None = CELL

    def __init__(
        self, folder: Folder, thread: SerialThread, access: Access, system: System = SYSTEM
    ) -> None:
        super().__init__(folder.manifest().id, thread, folder.path, access)
        self._folder = folder
        self._schema = folder.schema
        self._writer = system.executor(1, "gapless-parquet-files")

    @classmethod
    async def open(
        cls,
        path: Path,
        schema: Schema,
        access: Access = Access.CREATE,
        *,
        system: System = SYSTEM,
    ) -> Self:
        with _translate_errors(path):
            return await cls._opened(
                "parquet",
                lambda it: cls(Folder(path, schema, access, system), it, access, system),
                system,
            )

    def _translate_errors(self) -> AbstractContextManager[None]:
        return _translate_errors(self._path)

    def _write(self, batch: Batch, fence: int) -> None:
        admit(batch, self._schema)
        span, anchor = batch.span, self._schema.anchor_of(batch.tables)
        with self._folder.held() as manifest:
            change = FolderChange(self._folder, manifest, batch.chain_id, self._writer)
            known = change.chain.known(span)
            records.refuse_older(known, span, fence, batch.tables, self._schema)
            stored_rows = StoredRows(self._folder, change.chain)
            records.refuse_broken(
                batch,
                anchor,
                stored_rows.hash_at(anchor, span.first - 1, anchor.links.hash),
                stored_rows.hash_at(anchor, span.last + 1, anchor.links.parent),
            )
            revision = revised(batch, stored_rows.compared(batch, anchor), self._schema)
            with self._folder.change(), change:
                stored = self._surviving(change, known.stored, revision.dropped)
                parts = [
                    (part, self._schema[name], rows)
                    for name in batch.tables
                    for part, rows in _by_cell(batch, anchor, revision.rows(batch, name))
                ]
                for part, table, rows in parts:
                    change.add_file(table, part.span, fence, rows)
                stored += (records.written(*each, fence) for each in parts)
                unchanged = known.hold(batch) and not revision.replaced
                recorded = None if unchanged else revision.change(batch, fence)
                change.commit(known, stored, records.retractions(known, span, None), recorded)

    def _retract(self, chain_id: int, span: Span, fence: int) -> None:
        with self._folder.held() as manifest:
            change = FolderChange(self._folder, manifest, chain_id, self._writer)
            known = change.chain.known(span)
            anchors = known.anchors(self._schema)
            records.refuse_older(known, span, fence, anchors, self._schema)
            dropped = dict.fromkeys(self._schema, RangeSet.of(span))
            with self._folder.change(), change:
                stored = self._surviving(change, known.stored, dropped)
                recorded = self._removal(change.chain, chain_id, span, fence)
                change.commit(known, stored, records.retractions(known, span, fence), recorded)

    def _removal(self, chain: ChainFiles, chain_id: int, span: Span, fence: int) -> Change | None:
        """Return the change that a retraction makes; None if nothing is stored there."""
        known, found = chain.known(span), dict[int, bytes]()
        if chain.feed is None or not known.hold_blocks(span, self._schema):
            return None
        part = Span(max(span.first, chain.final + 1), span.last)
        for anchor in (self._schema[name] for name in known.anchors(self._schema)):
            with suppress(Damaged):
                columns = ("block_number", anchor.links.hash)
                rows = StoredRows(self._folder, chain).rows(anchor, part, columns)
                found |= zip(*(rows[name].to_pylist() for name in columns), strict=True)
        return Change(0, chain_id, span, fence, retracted=True, old=found)

    def _stored(self, chain_id: int, span: Span | None) -> list[Stored]:
        with self._folder.held() as manifest:
            chain = self._folder.chain(manifest, chain_id)
            found = [entry.stored() for entry in chain.entries(span)]
            if span is not None:
                outside = RangeSet.of((0, HIGHEST)) - RangeSet.of(span)
                dropped = dict.fromkeys(self._schema, outside)
                whole, parts = records.surviving(found, dropped)
                stored_rows = StoredRows(self._folder, chain)
                found = [*whole, *(stored_rows.cut(*part)[0] for part in parts)]
            return records.merged(found, self._schema)

    def _records(self, chain_id: int, span: Span) -> list[Stored]:
        with self._folder.held() as manifest:
            found = self._folder.chain(manifest, chain_id).entries(span)
            return records.merged((entry.stored() for entry in found), self._schema)

    def _endorse(
        self,
        chain_id: int,
        seen: Sequence[Stored],
        proven: frozenset[str],
        unproven: frozenset[str],
        fence: int,
    ) -> None:
        span, names = records.hull(seen), {it.dataset for it in seen}
        inside, outside = RangeSet.of(span), RangeSet.of((0, HIGHEST)) - RangeSet.of(span)
        with self._folder.held() as manifest:
            change = FolderChange(self._folder, manifest, chain_id, self._writer)
            known = change.chain.known(span)
            records.refuse_older(known, span, fence, names, self._schema)
            with self._folder.change(), change:
                found = self._surviving(change, known.of(names), dict.fromkeys(names, outside))
                records.refuse_changed(found, seen, self._schema)
                others = self._surviving(change, known.stored, dict.fromkeys(names, inside))
                better = records.endorsed(found, proven, unproven)
                change.commit(known, [*others, *better], [*known.retracted])

    def _fold(self, chain_id: int, below: int, keep: RangeSet, limit: int) -> int:
        """Merges nothing: each record describes a file."""
        return 0

    def _expire(self, chain_id: int, below: int, limit: int) -> int:
        raise SinkUnusable(
            f"`{self._path}` holds Parquet files, which are kept",
            hint="use a SQLite or DuckDB file or a PostgreSQL schema if blocks are to expire",
        )

    def _changes(self, chain_id: int, after: int, limit: int) -> list[Change]:
        with self._folder.held() as manifest:
            return self._feed(manifest, chain_id).after(after, limit)

    def _add_change_reader(self, chain_id: int, name: str) -> int:
        return self._change_feed(chain_id, lambda feed: feed.with_reader(name)).readers[name]

    def _remove_change_reader(self, chain_id: int, name: str) -> None:
        self._change_feed(chain_id, lambda feed: feed.without_reader(name))

    def _change_readers(self, chain_id: int) -> dict[str, ChangeReader]:
        with self._folder.held() as manifest:
            return self._feed(manifest, chain_id).progress

    def _acknowledge_changes(self, chain_id: int, name: str, through: int) -> None:
        self._change_feed(chain_id, lambda feed: feed.acknowledged(name, through))

    def _feed(self, manifest: Manifest, chain_id: int) -> FileFeed:
        return self._folder.chain(manifest, chain_id).feed or FileFeed(chain_id)

    def _change_feed(self, chain_id: int, change: Callable[[FileFeed], FileFeed]) -> FileFeed:
        with self._folder.held() as manifest:
            before = self._feed(manifest, chain_id)
            after = change(before)
            if after != before:
                chain = self._folder.chain(manifest, chain_id)
                changed = msgspec.structs.replace(chain, feed=after)
                with self._folder.change():
                    self._folder.commit(manifest.following(chain_id, changed), ())
            return after

    def _chains(self) -> list[int]:
        with self._folder.held() as manifest:
            chains = manifest.chains.items()
            return sorted(chain_id for chain_id, it in chains if it.cells or it.requests)

    def _request(self, chain_id: int, wanted: Request) -> None:
        requests.admit(wanted, self._schema)
        self._change_requests(chain_id, lambda before: requests.merged([*before, wanted]))

    def _requests(self, chain_id: int) -> list[Request]:
        with self._folder.held() as manifest:
            return [each.request() for each in self._folder.chain(manifest, chain_id).requests]

    def _withdraw(self, chain_id: int, span: Span) -> None:
        self._change_requests(chain_id, lambda before: requests.without(before, span))

    def _change_requests(
        self, chain_id: int, change: Callable[[list[Request]], list[Request]]
    ) -> None:
        with self._folder.held() as manifest:
            chain = self._folder.chain(manifest, chain_id)
            after = tuple(map(RequestEntry.of, change([each.request() for each in chain.requests])))
            if after != chain.requests:
                changed = msgspec.structs.replace(chain, requests=after)
                with self._folder.change():
                    self._folder.commit(manifest.following(chain_id, changed), ())

    def _highest_fence(self) -> int:
        with self._folder.held() as manifest:
            chains = manifest.chains.values()
            fences = [entry.fence for chain in chains for entry in chain.entries()]
            return max([0, *fences, *(fence for chain in chains for *_, fence in chain.retracted)])

    def _surviving(
        self, change: FolderChange, stored: Iterable[Stored], dropped: records.Dropped
    ) -> list[Stored]:
        """Return the records without the dropped ranges; copy the rows that remain of a file."""
        whole, parts = records.surviving(stored, dropped)
        stored_rows = StoredRows(self._folder, change.chain)
        for part in parts:
            record, rows = stored_rows.cut(*part)
            change.add_file(self._schema[record.dataset], record.span, record.fence, rows)
            whole.append(record)
        return whole

    def _read(
        self, table: Table, chain_id: int, span: Span, columns: Collection[str] | None = None
    ) -> pa.Table:
        with self._folder.held() as manifest:
            stored_rows = StoredRows(self._folder, self._folder.chain(manifest, chain_id))
            return stored_rows.rows(table, span, columns)

    def _counts(self, table: Table, chain_id: int, span: Span) -> pa.Table:
        rows = self._read(table, chain_id, span, ["block_number"])
        heights, counts = np.unique(one_array(rows["block_number"]), return_counts=True)
        return pa.table({"block_number": heights, "rows": counts.astype(np.uint64)})

    def _damage(self, chain_id: int, span: Span | None) -> list[Damage]:
        with self._folder.held() as manifest:
            return StoredRows(self._folder, self._folder.chain(manifest, chain_id)).damage(span)

    def _strays(self) -> list[str]:
        with self._folder.held():
            return self._folder.strays()

    def _finish(self) -> None:
        """Do nothing: files need no preparation for queries."""

    def _close(self) -> None:
        self._writer.shutdown()
        self._folder.close()


def _by_cell(batch: Batch, anchor: Table, rows: pa.Table) -> Iterator[tuple[Batch, pa.Table]]:
    """Split the batch and the rows of a table at the cell boundaries."""
    heights = one_array(rows["block_number"]).to_numpy()
    blocks = batch.tables[anchor.name]
    first = batch.span.first
    while first <= batch.span.last:
        last = min(first // CELL * CELL + CELL - 1, batch.span.last)
        start, end = np.searchsorted(heights, [first, last + 1]).tolist()
        span = Span(first, last)
        part = replace(
            batch,
            span=span,
            tables=Tables({anchor.name: blocks.slice(first - batch.span.first, span.size)}),
        )
        yield part, rows.slice(start, end - start)
        first = last + 1


@contextmanager
def _translate_errors(path: Path) -> Iterator[None]:
    """Raise errors from files and Arrow as `SinkError`."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise SinkError(
            f"`{path}` failed: {error}", hint="check the disk and the folder"
        ) from error
