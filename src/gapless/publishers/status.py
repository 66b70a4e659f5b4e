"""How a publisher stands, and publishing again what consumers have lost."""

from __future__ import annotations

from dataclasses import dataclass

from gapless.core.errors import GaplessError, Incomplete
from gapless.core.heights import HIGHEST
from gapless.core.ranges import RangeSet, Span
from gapless.publishers.publication import Publication
from gapless.publishers.publisher import PublishedBlock, StreamState
from gapless.sinks import Access
from gapless.system import SYSTEM, System

_AT_ONCE = 500
_LEASE = 30.0  # seconds


@dataclass(frozen=True)
class PublicationStatus:
    """What a stream and its sink say about a publisher."""

    publication: Publication
    state: StreamState | None  # None: it cannot be read
    missing: RangeSet = RangeSet()  # noqa: RUF009 - immutable; stored but not published
    unread: int = 0  # changes that the sink keeps for it
    trouble: str | None = None

    @property
    def phase(self) -> str:
        if self.state is None:
            return "unreachable"
        if self.state.leader is None or self.state.leader.seconds <= 0:
            return "stopped"
        return "publishing" if self.missing else "live"


async def publication_status(wanted: Publication) -> PublicationStatus:
    """Look at both ends of a publisher, and change nothing."""
    try:
        async with wanted.connected("observer") as stream:
            state = await stream.inspect()
        async with wanted.opened_sink(Access.READ) as blocks:
            held = await blocks.held(Span(0, HIGHEST))
            readers = await blocks.sink.change_readers(blocks.chain_id)
    except GaplessError as error:
        return PublicationStatus(wanted, None, trouble=str(error))
    start = wanted.start if state.record.start is None else state.record.start
    missing = (held - state.record.heights) & RangeSet.of((start or 0, HIGHEST))
    reader = readers.get(wanted.reader)
    return PublicationStatus(wanted, state, missing, 0 if reader is None else reader.unread)


async def replay(wanted: Publication, span: Span, system: System = SYSTEM) -> int:
    """Retract published blocks, so that they are published again; return how many.

    It takes over from the leader, which notices that at its next step, reads the record again, and
    publishes what is missing. Raise `Incomplete` and change nothing if the sink lacks a block.
    """
    async with wanted.opened_sink(Access.READ) as blocks:
        if lacking := RangeSet.of(span) - await blocks.held(span):
            raise Incomplete(
                f"`{wanted.sink}` does not have the rows of {len(lacking):,} of these blocks",
                hint=f"choose blocks that it has; it lacks {lacking.spans[0]}",
            )
    async with wanted.connected(f"replay:{system.token(3)}") as stream:
        await stream.lead(_LEASE, force=True)
        try:
            heights = [*((await stream.record()).heights & RangeSet.of(span))][::-1]
            for at in range(0, len(heights), _AT_ONCE):
                gone = [PublishedBlock(height, None) for height in heights[at : at + _AT_ONCE]]
                await stream.retract(gone, None)
            return len(heights)
        finally:
            await stream.resign()


async def unregister(wanted: Publication) -> None:
    """Let the sink record no more changes for a publisher; the stream stays as it is."""
    async with wanted.opened_sink() as blocks:
        await blocks.sink.remove_change_reader(blocks.chain_id, wanted.reader)
