"""One change of a Parquet sink: the files that it brings, and the manifest that it ends with."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from gapless.schema import table
from gapless.sinks import records
from gapless.sinks.parquet.files import write_file
from gapless.sinks.parquet.folder import Folder
from gapless.sinks.parquet.manifest import Chain, Entry, Manifest
from gapless.sinks.sink import Stored


@dataclass
class Change:
    """Files that the next commit of a chain brings."""

    folder: Folder
    manifest: Manifest
    chain_id: int
    names: list[str] = field(default_factory=list)

    @property
    def chain(self) -> Chain:
        return self.manifest.chain(self.chain_id)

    def add(self, record: Stored, rows: pa.Table) -> Stored:
        """Stages the file of a record."""
        name = f"{self.chain.folder}/{Entry.of(record).name}"
        self.names.append(name)
        generation = self.manifest.generation + 1
        write_file(self.folder.staged(name, generation), table(record.dataset), rows)
        return record

    def commit(
        self,
        known: records.Known,
        stored: list[Stored],
        retracted: list[records.Retracted],
    ) -> None:
        """Puts these records, whose files are there or staged, in the place of the known ones."""
        chain = self.chain.replacing(known, stored, retracted)
        left = {Entry.of(each).name for each in stored}
        gone = {Entry.of(each).name for each in known.stored} - left
        manifest = self.manifest.following(self.chain_id, chain)
        self.folder.commit(manifest, self.names, [f"{chain.folder}/{name}" for name in gone])
