"""Creates a follow: meets the chain, opens the sink, and writes the first cursor.

Without a start, a follow continues after what the sink holds; an empty sink is followed from the
head on. Blocks that the sink holds above the final one may have left the chain since, so the first
cursor knows their hashes, and the first look at the head finds out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import msgspec

from gapless.blocks.plan import FetchRequest
from gapless.blocks.session import OpenChain, compare, open_chain, sink_at, undated
from gapless.blocks.spec import BlocksSpec
from gapless.config import Config
from gapless.core.errors import UsageError
from gapless.core.heights import HIGHEST, Heights, Moment, Tag
from gapless.core.ranges import RangeSet, Span
from gapless.following.spec import FollowSpec, standing
from gapless.following.state import FollowState
from gapless.ledger.records import Backfill
from gapless.providers import Absent, Providers
from gapless.runtime.slots import FOREGROUND
from gapless.sinks import Sink

_NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")


@dataclass(frozen=True)
class FollowRequest:
    """What a person asks for: blocks of a network, from a height or a date on."""

    name: str
    blocks: FetchRequest  # its heights are not used
    start: int | Moment | None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise UsageError(
                f"`{self.name}` cannot be the name of a follow",
                hint="use up to 40 letters, digits, `_` and `-`",
            )


@dataclass(frozen=True)
class Created:
    """A follow in the ledger, new or not, and what was found on the way."""

    spec: FollowSpec
    backfill: Backfill
    head: int
    absent: tuple[Absent, ...]  # endpoints that could not be used at first contact


async def create(
    request: FollowRequest, config: Config, ledger_url: str, *, shared: Providers | None = None
) -> Created:
    """Creates a follow; if it exists, nothing changes.

    `shared` are open providers that may serve others too.
    """
    blocks = request.blocks
    async with open_chain(blocks, config, ledger_url, shared=shared) as chain:
        start = request.start
        if isinstance(start, Moment):
            dated = replace(blocks, heights=Heights(start, Tag.FINALIZED))
            start = (await undated(dated, config, chain)).first
            assert isinstance(start, int)
        async with sink_at(config.sink(blocks.sink), chain.pool.system, create=True) as sink:
            assert sink is not None
            spec, state = await _first_state(request, chain, sink, start)
            ledger = await chain.ledger.created()
            await ledger.raise_fence(await sink.highest_fence())
            found = await ledger.create(standing(spec, state))
        spec = msgspec.convert(found.spec, FollowSpec)
        return Created(spec, found, chain.tip.head, tuple(chain.absent))


async def _first_state(
    request: FollowRequest, chain: OpenChain, sink: Sink, start: int | None
) -> tuple[FollowSpec, FollowState]:
    final = chain.tip.final
    stored = await _stored(sink, chain.chain_id, request.blocks)
    top = stored.spans[-1].last if stored else None
    if start is None:
        start = chain.tip.head + 1 if top is None else min(top, final) + 1
    span = Span(min(start, final), final)
    plain, _, _ = await compare(request.blocks, chain, sink, span, create=start <= final)
    spec = _spec(request, plain, start, sink.grid)
    run = stored.spans[-1] if stored and final in stored else None
    if run is None:  # what is stored above the final block is not linked to it
        for each in (stored & RangeSet.of((final + 1, HIGHEST))).spans:
            await sink.retract(chain.chain_id, each, await sink.highest_fence())
        return spec, FollowState(start=start, next=start)
    known = await _hashes(sink, spec, Span(final, run.last))
    state = FollowState(start=start, next=run.last + 1, base=final, hashes=known)
    return spec, state


async def _stored(sink: Sink, chain_id: int, blocks: FetchRequest) -> RangeSet:
    anchor = blocks.datasets[0]
    records = await sink.records(chain_id, Span(0, HIGHEST))
    return RangeSet(it.span for it in records if it.dataset == anchor)


async def _hashes(sink: Sink, spec: BlocksSpec, span: Span) -> tuple[str, ...]:
    anchor = spec.family.tables[0]
    rows = await sink.read(anchor, spec.chain_id, span, ["block_number", anchor.links.hash])
    return tuple(each.hex() for each in rows[anchor.links.hash].to_pylist())


def _spec(request: FollowRequest, plain: BlocksSpec, start: int, grid: int | None) -> FollowSpec:
    fields = {name: getattr(plain, name) for name in BlocksSpec.__struct_fields__}
    return FollowSpec(
        **fields | {"refetch": False},
        name=request.name,
        start=start,
        chunk_size=request.blocks.numbers.chunk_size,
        grid=grid,
        shared=request.blocks.queue != FOREGROUND,
    )
