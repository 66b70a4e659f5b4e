"""The changes of a chain, in the manifest of a Parquet sink, which commits them with the files.

A commit has the whole folder to itself, so the order of the commits is that of the manifests.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
from msgspec import Struct

from gapless.core.errors import SinkUnusable
from gapless.sinks.changes import Change, ChangeReader, from_row, refuse_lost, to_row


class FileFeed(Struct, frozen=True):
    """The changes that some reader has not acknowledged, and the readers."""

    chain_id: int
    latest: int = 0
    readers: dict[str, int] = {}
    rows: tuple[tuple[Any, ...], ...] = ()

    @property
    def progress(self) -> dict[str, ChangeReader]:
        """How far each reader is; see `Sink.change_readers`."""
        readers = sorted(self.readers.items())
        return {name: ChangeReader(at, self.latest - at) for name, at in readers}

    def after(self, position: int, limit: int) -> list[Change]:
        """Return the changes after a position; see `Sink.changes`."""
        changes = [from_row(row) for row in self.rows]
        found = [it for it in changes if it.position > position][:limit]
        refuse_lost(found, position, self.latest)
        return found

    def with_change(self, change: Change) -> FileFeed:
        """Return the feed with one more change, if anyone reads it."""
        if not self.readers:
            return self
        row = to_row(replace(change, position=self.latest + 1))
        return msgspec.structs.replace(self, latest=self.latest + 1, rows=(*self.rows, row))

    def with_reader(self, name: str) -> FileFeed:
        """Return the feed with a reader; see `Sink.add_change_reader`."""
        if name in self.readers:
            return self
        # Without readers nothing was recorded: no earlier position is the latest one.
        latest = self.latest if self.readers else self.latest + 1
        return msgspec.structs.replace(self, latest=latest, readers={**self.readers, name: latest})

    def without_reader(self, name: str) -> FileFeed:
        """Return the feed without a reader."""
        left = {each: position for each, position in self.readers.items() if each != name}
        return self._with_readers(left)

    def acknowledged(self, name: str, through: int) -> FileFeed:
        """Return the feed after a reader has read it up to a position."""
        if name not in self.readers:
            raise SinkUnusable(
                f"`{name}` is not registered as a reader of changes of chain {self.chain_id}",
                hint="register it, then compare what it has published with the rows",
            )
        if through > self.latest:
            raise ValueError(f"no change has position {through}: the latest one is {self.latest}")
        position = max(through, self.readers[name])
        return self._with_readers({**self.readers, name: position})

    def _with_readers(self, readers: dict[str, int]) -> FileFeed:
        needed = min(readers.values(), default=self.latest)
        rows = tuple(row for row in self.rows if from_row(row).position > needed)
        return msgspec.structs.replace(self, readers=readers, rows=rows)
