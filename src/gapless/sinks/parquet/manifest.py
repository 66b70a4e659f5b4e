"""The manifest of a Parquet sink: the files that are part of it, and their records.

It is one JSON file, replaced as a whole, that defines what is stored. Entries are grouped by cell,
a range of heights that no file crosses, so that a write reads few of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from gapless.core.anchors import Anchor
from gapless.core.errors import SinkUnusable
from gapless.core.heights import HIGHEST
from gapless.core.ranges import Span
from gapless.sinks.parquet.file_feed import FileFeed
from gapless.sinks.records import RangeRecords, Retracted
from gapless.sinks.requests import final_height
from gapless.sinks.sink import Request, Stored

VERSION = 1
CELL = 1000


def file_name(dataset: str, span: Span, fence: int) -> str:
    """Return the name of a file, relative to the folder of its chain."""
    return f"{dataset}/{span.first}-{span.last}.{fence}.parquet"


class Entry(Struct, frozen=True):
    """A file and the record of its rows."""

    dataset: str
    first: int
    last: int
    fence: int
    rows: int
    digest: str
    proven: tuple[str, ...]
    unproven: tuple[str, ...]
    parent_hash: str
    last_hash: str

    @property
    def span(self) -> Span:
        return Span(self.first, self.last)

    @property
    def name(self) -> str:
        return file_name(self.dataset, self.span, self.fence)

    @classmethod
    def of(cls, stored: Stored) -> Entry:
        return cls(
            dataset=stored.dataset,
            first=stored.span.first,
            last=stored.span.last,
            fence=stored.fence,
            rows=stored.rows,
            digest=f"{stored.digest:064x}",
            proven=tuple(sorted(stored.proven)),
            unproven=tuple(sorted(stored.unproven)),
            parent_hash=stored.parent_hash.hex(),
            last_hash=stored.last_hash.hex(),
        )

    def stored(self) -> Stored:
        return Stored(
            dataset=self.dataset,
            span=self.span,
            fence=self.fence,
            rows=self.rows,
            digest=int(self.digest, 16),
            proven=frozenset(self.proven),
            unproven=frozenset(self.unproven),
            parent_hash=bytes.fromhex(self.parent_hash),
            last_hash=bytes.fromhex(self.last_hash),
        )


class RequestEntry(Struct, frozen=True):
    """A request that the sink was given."""

    first: int
    last: int
    datasets: tuple[str, ...]
    checks: tuple[str, ...]
    anchors: tuple[tuple[int, str], ...]

    @classmethod
    def of(cls, request: Request) -> RequestEntry:
        return cls(
            *request.span,
            datasets=tuple(sorted(request.datasets)),
            checks=tuple(sorted(request.checks)),
            anchors=tuple((height, hash_.hex()) for height, hash_ in sorted(request.anchors)),
        )

    def request(self) -> Request:
        return Request(
            span=Span(self.first, self.last),
            datasets=frozenset(self.datasets),
            checks=frozenset(self.checks),
            anchors=frozenset(Anchor(height, bytes.fromhex(it)) for height, it in self.anchors),
        )


class ChainFiles(Struct, frozen=True):
    """The entries of one chain. Its folder keeps its name even if the chain is renamed."""

    folder: str
    cells: dict[int, tuple[Entry, ...]] = {}
    retracted: tuple[tuple[int, int, int], ...] = ()  # first, last, fence
    requests: tuple[RequestEntry, ...] = ()
    feed: FileFeed | None = None  # once anyone has read the changes

    def entries(self, span: Span | None = None) -> list[Entry]:
        """Return the files of a range, or all."""
        if span is None:
            return [entry for cell in self.cells.values() for entry in cell]
        return [
            entry
            for cell in self._cells(span)
            for entry in self.cells.get(cell, ())
            if entry.span.overlap(span)
        ]

    @property
    def final(self) -> int:
        """The highest block that is final, as far as the sink knows."""
        return final_height(each.request() for each in self.requests)

    def known(self, span: Span) -> RangeRecords:
        """Return the records that overlap or touch a range."""
        around = Span(max(span.first - 1, 0), min(span.last + 1, HIGHEST))
        return RangeRecords(
            tuple(entry.stored() for entry in self.entries(around)),
            tuple(
                Retracted(Span(first, last), fence)
                for first, last, fence in self.retracted
                if Span(first, last).overlap(around)
            ),
        )

    def replacing(
        self, known: RangeRecords, stored: Iterable[Stored], retracted: Iterable[Retracted]
    ) -> ChainFiles:
        """Return the chain with these records instead of the known ones."""
        cells = dict(self.cells)
        removed = {Entry.of(each).name for each in known.stored}
        for cell in {each.span.first // CELL for each in known.stored}:
            cells[cell] = tuple(it for it in cells[cell] if it.name not in removed)
        for each in stored:
            cell = each.span.first // CELL
            cells[cell] = (*cells.get(cell, ()), Entry.of(each))
        left = [
            it for it in self.retracted if Retracted(Span(*it[:2]), it[2]) not in known.retracted
        ]
        return msgspec.structs.replace(
            self,
            cells={cell: cells[cell] for cell in sorted(cells) if cells[cell]},
            retracted=tuple(sorted([*left, *((*it.span, it.fence) for it in retracted)])),
        )

    def _cells(self, span: Span) -> Iterable[int]:
        wanted = range(span.first // CELL, span.last // CELL + 1)
        return wanted if len(wanted) < len(self.cells) else self.cells


class Manifest(Struct, frozen=True):
    """The contents of a sink."""

    id: str
    version: int = VERSION
    generation: int = 0  # counts the commits
    chains: dict[int, ChainFiles] = {}
    superseded: tuple[str, ...] = ()  # files that the latest commit removes, by relative name

    def names(self) -> set[str]:
        """Return the relative names of all files that are part of the sink."""
        return {
            f"{chain.folder}/{entry.name}"
            for chain in self.chains.values()
            for entry in chain.entries()
        }

    def following(
        self, chain_id: int, chain: ChainFiles, superseded: Iterable[str] = ()
    ) -> Manifest:
        """Return the manifest of the next commit."""
        chains: Mapping[int, ChainFiles] = {**self.chains, chain_id: chain}
        return msgspec.structs.replace(
            self,
            generation=self.generation + 1,
            chains=chains,
            superseded=tuple(sorted(superseded)),
        )


_decoder = msgspec.json.Decoder(Manifest)


def decoded(path: Path, text: bytes) -> Manifest:
    try:
        found = _decoder.decode(text)
    except msgspec.MsgspecError as error:
        raise SinkUnusable(
            f"`{path}` is damaged: {error}",
            hint="restore it from a backup, or fetch into a new folder",
        ) from error
    if found.version != VERSION:
        raise SinkUnusable(
            f"`{path}` has format {found.version}, but this version of Gapless supports format"
            f" {VERSION}",
            hint="upgrade Gapless",
        )
    return found
