"""The rows in the files of a Parquet sink, read through the manifest.

If a file is damaged, the manifest still provides the hashes at both ends of its range.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pyarrow as pa

from gapless.core.errors import Damaged
from gapless.core.ranges import Span
from gapless.core.remedies import RepairBlocks
from gapless.schema import Table
from gapless.schema.arrow import arrow_schema
from gapless.schema.digest import digest
from gapless.sinks.parquet.files import DamagedFile, flaw, read_file
from gapless.sinks.parquet.folder import Folder
from gapless.sinks.parquet.manifest import ChainFiles, Entry
from gapless.sinks.revision import compared_columns
from gapless.sinks.sink import Batch, Damage, Stored


class StoredRows:
    """The rows of a chain. Valid while the folder is held."""

    def __init__(self, folder: Folder, chain: ChainFiles) -> None:
        self._folder = folder
        self._schema = folder.schema
        self._chain = chain

    def rows(self, table: Table, span: Span, columns: Collection[str] | None = None) -> pa.Table:
        """Return the rows of a span in order. Raise `Damaged` if a file cannot be read."""
        pieces = [self._read(each, table, span, columns) for each in self._files(table, span)]
        return _joined(table, pieces, columns)

    def compared(self, batch: Batch, anchor: Table) -> pa.Table:
        """Return the columns of stored blocks that a batch is compared with.

        A damaged file does not matter if the batch replaces its whole range. If the last block of
        the file equals that of the batch, all its blocks do, because each contains its parent's
        hash; otherwise all are assumed to differ.
        """
        pieces, columns = [], compared_columns(anchor)
        for entry in self._files(anchor, batch.span):
            try:
                pieces.append(self._read(entry, anchor, batch.span, columns))
            except Damaged:
                if not _within(entry.span, batch.span):
                    raise
                pieces.append(_presumed(entry, batch, anchor))
        return _joined(anchor, pieces, columns)

    def hash_at(self, anchor: Table, height: int, column: str) -> bytes | None:
        """Return a hash of the block at a height, from the manifest if possible."""
        for entry in self._files(anchor, Span(height, height)):
            if column == anchor.links.hash and height == entry.last:
                return bytes.fromhex(entry.last_hash)
            if column == anchor.links.parent and height == entry.first:
                return bytes.fromhex(entry.parent_hash)
        found = self.rows(anchor, Span(height, height), [column])
        return found[column][0].as_py() if found.num_rows else None

    def cut(self, record: Stored, span: Span) -> tuple[Stored, pa.Table]:
        """Return the record of a part of a file, computed from its rows, and those rows."""
        table = self._schema[record.dataset]
        links, rows = table.anchor.links, self.rows(table, span)
        part = replace(
            record,
            span=span,
            rows=rows.num_rows,
            digest=digest(table, rows),
            parent_hash=self.hash_at(table.anchor, span.first, links.parent) or b"",
            last_hash=self.hash_at(table.anchor, span.last, links.hash) or b"",
        )
        return part, rows

    def damage(self, span: Span | None) -> list[Damage]:
        """Return the files that do not match the manifest, judging by their footers."""
        found, order = [], self._schema.order
        entries = self._chain.entries(span)
        for entry in sorted(entries, key=lambda it: (order(it.dataset), it.span)):
            name = f"{self._chain.folder}/{entry.name}"
            if problem := flaw(self._folder.file(name), self._schema[entry.dataset], entry.rows):
                found.append(Damage(entry.dataset, entry.span, f"`{name}` {problem}"))
        return found

    def _files(self, table: Table, span: Span) -> list[Entry]:
        found = [entry for entry in self._chain.entries(span) if entry.dataset == table.name]
        return sorted(found, key=lambda it: it.first)

    def _read(
        self, entry: Entry, table: Table, span: Span, columns: Collection[str] | None
    ) -> pa.Table:
        path = self._folder.file(f"{self._chain.folder}/{entry.name}")
        try:
            return read_file(path, table, span, columns)
        except DamagedFile as error:
            raise Damaged(
                f"`{path}` {error}",
                dataset=entry.dataset,
                span=entry.span,
                remedy=RepairBlocks(),
            ) from error


def _presumed(entry: Entry, batch: Batch, anchor: Table) -> pa.Table:
    """Return the blocks of a damaged file, as far as its record determines them."""
    _, hash_, *counts = compared_columns(anchor)
    blocks = batch.tables[anchor.name].slice(entry.first - batch.span.first, entry.span.size)
    if blocks[hash_][-1].as_py() != bytes.fromhex(entry.last_hash):
        width = len(bytes.fromhex(entry.last_hash))
        hashes = pa.array([bytes(width)] * entry.span.size, pa.binary(width))
        blocks = blocks.set_column(blocks.schema.get_field_index(hash_), hash_, hashes)
    for name in counts:
        unknown = pa.nulls(entry.span.size, pa.uint64())
        blocks = blocks.set_column(blocks.schema.get_field_index(name), name, unknown)
    schema = _schema(anchor, compared_columns(anchor))
    return blocks.select(schema.names).cast(schema)


def _joined(table: Table, pieces: list[pa.Table], columns: Collection[str] | None) -> pa.Table:
    empty = _schema(table, columns).empty_table()
    return pa.concat_tables([empty, *pieces]).combine_chunks()


def _schema(table: Table, columns: Collection[str] | None) -> pa.Schema:
    names = [it.name for it in table if columns is None or it.name in columns]
    return pa.schema([arrow_schema(table).field(name) for name in names])


def _within(inner: Span, outer: Span) -> bool:
    return outer.first <= inner.first and inner.last <= outer.last
