"""Folding the events of a backfill, to compare the result with its tables.

There are no events for claims, so PENDING, RUNNING and FAILED chunks all count as *open*. Which
chunks exist, how each ended and how often each failed must agree exactly.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field

from gapless.core import backfill
from gapless.core.backfill import Lifecycle
from gapless.core.chunk import Status
from gapless.core.events import (
    BackfillChunkPlanned,
    BackfillCompacted,
    BackfillFolded,
    ChunkEnded,
    ChunkFailed,
    Event,
)


@dataclass
class ChunkFacts:
    """What the events say about a chunk; `ended` is None while it is open."""

    chunk_index: int
    first: int
    last: int
    attempts: int = 0
    lost: int = 0
    ended: Status | None = None

    def __str__(self) -> str:
        return (
            f"{self.chunk_index} [{self.first}, {self.last}] {self.ended or 'open'},"
            f" {self.attempts} attempts, {self.lost} lost"
        )


@dataclass
class Projection:
    """The state of one backfill according to its events."""

    lifecycle: Lifecycle
    chunks: dict[int, ChunkFacts] = field(default_factory=dict)
    strays: list[Event] = field(default_factory=list)
    compacted: BackfillCompacted | None = None
    folded: BackfillFolded | None = None

    def apply(self, event: Event) -> None:
        self.lifecycle = backfill.apply(self.lifecycle, event)
        match event:
            case BackfillChunkPlanned():
                self.chunks[event.chunk_index] = ChunkFacts(
                    event.chunk_index, event.first, event.last
                )
            case ChunkFailed() | ChunkEnded() if event.chunk_index not in self.chunks:
                self.strays.append(event)
            case ChunkFailed():
                chunk = self.chunks[event.chunk_index]
                chunk.attempts, chunk.lost = event.attempts, event.lost
            case ChunkEnded():
                self.chunks[event.chunk_index].ended = event.status
            case BackfillCompacted():
                self.compacted = event
            case BackfillFolded():
                self.folded = event

    def differences(self, lifecycle: Lifecycle, chunks: Iterable[ChunkFacts]) -> list[str]:
        """The differences between the tables and the events."""
        found = []
        if lifecycle != self.lifecycle:
            found.append(f"backfill is {lifecycle}, its events say {self.lifecycle}")
        found += [f"an event refers to a chunk that was never planned: {it}" for it in self.strays]
        if self.compacted is not None:
            if digest(chunks) != self.compacted.digest:
                found.append("chunks differ from the compacted snapshot")
            return found
        rows = {chunk.chunk_index: chunk for chunk in chunks}
        for index in sorted(rows.keys() | self.chunks.keys()):
            row, reported = rows.get(index), self.chunks.get(index)
            if row != reported:
                found.append(f"chunk is {row}, its events say {reported}")
        return found


def digest(chunks: Iterable[ChunkFacts]) -> str:
    """One hash over the facts of all chunks, in the order of their indices."""
    whole = hashlib.sha256()
    for chunk in chunks:
        whole.update(f"{chunk}\n".encode())
    return whole.hexdigest()
