"""One change of a Parquet sink: the files that it adds, and the manifest that commits it."""

from __future__ import annotations

from concurrent.futures import Executor, Future, wait
from dataclasses import dataclass, field
from typing import Self

import msgspec
import pyarrow as pa

from gapless.core.ranges import Span
from gapless.schema import Table
from gapless.sinks import records
from gapless.sinks.changes import Change
from gapless.sinks.parquet.files import write_file
from gapless.sinks.parquet.folder import Folder
from gapless.sinks.parquet.manifest import ChainFiles, Entry, Manifest, file_name
from gapless.sinks.sink import Stored


@dataclass
class FolderChange:
    """The files that the next commit of a chain adds.

    They are written on a separate thread: encoding and compressing release Python's global lock, so
    the digests of the same rows are computed in the meantime. All writes have finished when the
    `with` block ends.
    """

    folder: Folder
    manifest: Manifest
    chain_id: int
    writer: Executor
    _names: list[str] = field(default_factory=list)
    _writing: list[Future[None]] = field(default_factory=list)

    @property
    def chain(self) -> ChainFiles:
        return self.folder.chain(self.manifest, self.chain_id)

    def add_file(self, table: Table, span: Span, fence: int, rows: pa.Table) -> None:
        """Stage a file with these rows."""
        name = f"{self.chain.folder}/{file_name(table.name, span, fence)}"
        self._names.append(name)
        path = self.folder.stage(name, self.manifest.generation + 1)
        self._writing.append(self.writer.submit(write_file, path, table, rows))

    def commit(
        self,
        known: records.RangeRecords,
        stored: list[Stored],
        retracted: list[records.Retracted],
        recorded: Change | None = None,
    ) -> None:
        """Replace the known records with these, whose files are stored or staged.

        `recorded` is what readers of changes learn of it.
        """
        for each in self._writing:
            each.result()
        chain = self.chain.replacing(known, stored, retracted)
        if recorded is not None and chain.feed is not None:
            changed = chain.feed.with_change(recorded.above(chain.final))
            chain = msgspec.structs.replace(chain, feed=changed)
        remaining = {Entry.of(each).name for each in stored}
        removed = {Entry.of(each).name for each in known.stored} - remaining
        superseded = [f"{chain.folder}/{name}" for name in removed]
        manifest = self.manifest.following(self.chain_id, chain, superseded)
        self.folder.commit(manifest, self._names)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        wait(self._writing)
