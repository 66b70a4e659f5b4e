"""A stream in memory with the rules of the contract, for thousands of cheap runs.

It is no substitute for Redis: the same tests, and the same seeds, run on both and must agree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace

from gapless.core.errors import StreamRefused
from gapless.core.ranges import RangeSet, Span
from gapless.publishers.publisher import Leader, OutgoingBlock, PublishedBlock, Record, StreamState
from tests.conformance.publisher.consumer import Seen


@dataclass
class ModelServer:
    """What a server of streams keeps: it survives its connections."""

    clock: Callable[[], float]
    entries: list[Seen] = field(default_factory=list)
    record: Record = field(default_factory=Record)
    owner: str | None = None
    fence: int = 0
    revision: int = 0
    until: float = 0.0
    letters: dict[Span, str] = field(default_factory=dict)

    def flush(self) -> None:
        self.__init__(self.clock)  # type: ignore[misc]

    def copy(self) -> ModelServer:
        return deepcopy(self)

    def restore(self, older: ModelServer) -> None:
        """What a promoted replica does that had not received everything."""
        self.__dict__.update(older.copy().__dict__)

    def connect(self, owner: str) -> ModelPublisher:
        return ModelPublisher(self, owner)


class ModelPublisher:
    """One connection to a stream in memory."""

    def __init__(self, server: ModelServer, owner: str) -> None:
        self._server, self._owner = server, owner
        self._fence, self._revision = 0, 0
        self._lease = 0.0

    async def lead(self, seconds: float, *, force: bool = False) -> bool:
        server = self._server
        self._lease = seconds
        if self._fence:
            self._require_lead()
        elif (
            server.owner not in (None, self._owner) and server.until > server.clock() and not force
        ):
            return False
        else:
            server.fence += 1
            server.revision += 1
            server.owner, self._fence = self._owner, server.fence
            self._revision = server.revision
        self._renew()
        return True

    async def record(self) -> Record:
        return self._server.record

    async def inspect(self) -> StreamState:
        server, leader = self._server, None
        if server.owner is not None:
            leader = Leader(server.owner, server.fence, server.until - server.clock())
        letters = {str(span): why for span, why in server.letters.items()}
        return StreamState(server.record, leader, len(server.entries), letters)

    async def begin(self, sink: str, position: int, start: int) -> None:
        self._require_lead()
        server = self._server
        server.record = replace(server.record, sink=sink, position=position, start=start)
        self._settle()

    async def publish(self, *groups: Sequence[OutgoingBlock], keep_from: int) -> None:
        for blocks in groups:
            self._publish(blocks, keep_from)

    def _publish(self, blocks: Sequence[OutgoingBlock], keep_from: int) -> None:
        self._require_lead()
        server, record = self._server, self._server.record
        span = Span(blocks[0].height, blocks[-1].height)
        if record.heights.overlaps(span):
            raise StreamRefused("published already")
        links = {**record.links, **{each.height: each.link for each in blocks}}
        for height in range(span.first, span.last + 2):
            below, own = links.get(height - 1), links.get(height)
            if below is not None and own is not None and own.parent != below.hash:
                raise StreamRefused("not linked")
        for block in blocks:
            facts = block.height, block.link.hash
            for each in block.transactions:
                server.entries.append(Seen("transaction", *facts, each))
            server.entries.append(Seen("block", *facts, block.summary))
        kept = {height: link for height, link in links.items() if height >= keep_from}
        heights = record.heights | RangeSet.of(span)
        server.record = replace(record, heights=heights, links=kept)
        self._settle()

    async def retract(self, blocks: Sequence[PublishedBlock], position: int | None) -> None:
        self._require_lead()
        server, record = self._server, self._server.record
        for each in blocks:
            known = record.links.get(each.height)
            if each.height not in record.heights:
                raise StreamRefused("not published")
            if known is not None and each.hash not in (None, known.hash):
                raise StreamRefused("another hash")
        for each in blocks:
            known = record.links.get(each.height)
            hash_ = known.hash if each.hash is None and known is not None else each.hash
            server.entries.append(Seen("retract", each.height, hash_ or b"", b"{}"))
        gone = {each.height for each in blocks}
        server.record = replace(
            record,
            heights=record.heights - RangeSet.from_members(gone),
            links={height: link for height, link in record.links.items() if height not in gone},
            position=record.position if position is None else position,
        )
        self._settle()

    async def set_aside(self, letters: Mapping[Span, str]) -> None:
        self._require_lead()
        self._server.letters = {**letters}

    async def trim(self, keep: int) -> int:
        return 0

    async def resign(self) -> None:
        if (self._server.owner, self._server.fence) == (self._owner, self._fence):
            self._server.until = 0.0

    async def close(self) -> None: ...

    def _renew(self) -> None:
        self._server.until = self._server.clock() + self._lease

    def _settle(self) -> None:
        self._server.revision += 1
        self._revision += 1
        self._renew()

    def _require_lead(self) -> None:
        server = self._server
        if (server.owner, server.fence) != (self._owner, self._fence):
            raise StreamRefused("another one leads")
        if server.revision != self._revision:
            raise StreamRefused("an older copy")
