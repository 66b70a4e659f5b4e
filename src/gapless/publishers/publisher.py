"""The contract of a publisher: a stream that records what was published on it.

A stream can only be appended to. So the other end keeps a record beside it, and changes both in one
step. After every step:

- **once**: the record has a height if and only if its block was published and not retracted since;
- **linked**: of two neighbouring blocks in the record, one is the parent of the other, where both
  hashes are known;
- **newest fence**: nobody but the latest leader has written since it became the leader, and only
  while the record was the one that it had left;
- **whole**: the entries of a block are all there, next to each other, or none is.

The record is the only truth about what was published. Nobody else stores it, so a stream that was
emptied, restored or replaced by an older copy is right about itself, and what it lacks is published
again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from gapless.core.ranges import RangeSet, Span


class Link(NamedTuple):
    """The hash of a block and of its parent."""

    hash: bytes
    parent: bytes


@dataclass(frozen=True)
class OutgoingBlock:
    """A block as it is published: one entry for each transaction with events, then the block's."""

    height: int
    link: Link
    transactions: tuple[bytes, ...]  # JSON
    summary: bytes  # JSON


@dataclass(frozen=True)
class PublishedBlock:
    """A published block that is to be taken back."""

    height: int
    hash: bytes | None  # None: unknown, because it was final


@dataclass(frozen=True)
class Record:
    """What a stream says was published on it."""

    sink: str | None = None  # the sink whose changes `position` counts
    position: int = 0  # the last change that needs no attention any more
    start: int | None = None  # the first height of interest
    heights: RangeSet = RangeSet()  # noqa: RUF009 - immutable
    links: Mapping[int, Link] = field(default_factory=dict)  # of the newest heights

    @property
    def head(self) -> int | None:
        """The highest published block."""
        return self.heights.spans[-1].last if self.heights else None

    @property
    def complete_to(self) -> int | None:
        """The highest block up to which nothing is missing, counted from the start."""
        for span in self.heights.spans:
            if self.start is not None and span.first <= self.start <= span.last:
                return span.last
        return None


@dataclass(frozen=True)
class Leader:
    """Who writes to a stream."""

    owner: str
    fence: int
    seconds: float  # until its lease ends; 0 or less: it has ended


@dataclass(frozen=True)
class StreamState:
    """Everything that is known about a stream."""

    record: Record
    leader: Leader | None  # the present one, or the last
    entries: int
    aside: Mapping[str, str]  # blocks that cannot be published, and why


class Publisher(Protocol):
    """One connection to a stream.

    After any error, close it and open another one: what was known about the stream may be wrong,
    and a step that got no answer may or may not have been taken.
    """

    async def lead(self, seconds: float, *, force: bool = False) -> bool:
        """Become the leader for some seconds, or stay it. False if another one is.

        A new leader draws a fence, which is higher than all before it. `force` takes over from a
        leader whose lease has not ended. Raise `StreamRefused` if this connection was the leader
        and another one has led since, or if the record is not the one that it left.
        """

    async def record(self) -> Record:
        """Read the record, as of one moment."""

    async def begin(self, sink: str, position: int, start: int) -> None:
        """Record whose changes are read, from which position on, and the first height of interest.

        Like all steps below, raise `StreamRefused` and write nothing unless this connection leads.
        """

    async def publish(self, *groups: Sequence[OutgoingBlock], keep_from: int) -> None:
        """Append groups of consecutive blocks, each in a step of its own, one after the other.

        Raise `StreamRefused` at the first group with a block that is published already, or is not
        linked to a neighbour; neither that group nor a later one is written. Hashes are recorded
        from the height `keep_from` on; lower ones are dropped.
        """

    async def retract(self, blocks: Sequence[PublishedBlock], position: int | None) -> None:
        """Append retractions of published blocks, and record the position in the same step.

        Raise `StreamRefused` and write nothing if one is not published, or with another hash.
        """

    async def set_aside(self, letters: Mapping[Span, str]) -> None:
        """Replace the list of blocks that cannot be published, each with the reason."""

    async def trim(self, keep: int) -> int:
        """Delete old entries beyond this number, and return how many were deleted.

        Never delete an entry that a consumer group has not acknowledged. Without any group, delete
        nothing. One call deletes a limited number.
        """

    async def inspect(self) -> StreamState:
        """Read everything that is known about the stream, as of one moment."""

    async def resign(self) -> None:
        """Let another one lead at once, if this connection leads."""

    async def close(self) -> None: ...
