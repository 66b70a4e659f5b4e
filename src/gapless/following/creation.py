"""Creates a follow: meets the chain, opens the sink, and writes the first cursor.

Without a start, a follow continues after what the sink holds; an empty sink is followed from the
head on. Blocks that the sink holds above the final one may have left the chain since, so the first
cursor knows their hashes, and the first look at the head finds out.

Two processes may create the same follow at once, and one of them may already store blocks while the
other still looks at the sink. So creation removes nothing: the first cursor names the blocks that
must go, and the leader has them retracted under a new fence, as after a reorganisation.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count

import msgspec

from gapless.blocks.branch import abandoned
from gapless.blocks.holding import holding
from gapless.blocks.plan import FetchRequest
from gapless.blocks.session import OpenChain, compare, open_chain, sink_at, undated
from gapless.blocks.spec import BlocksSpec
from gapless.config import Config
from gapless.core.errors import Conflict, NotFound, UsageError
from gapless.core.heights import HIGHEST, Heights, Moment, Tag
from gapless.core.ranges import RangeSet, Span
from gapless.core.remedies import RemoveFollow
from gapless.following.spec import FollowSpec, changed, follow_spec, standing, standing_id
from gapless.following.state import FollowState, Retraction
from gapless.following.steps import last_in_whole_cells
from gapless.ledger import Ledger
from gapless.ledger.cursor import Cursor
from gapless.ledger.records import Backfill
from gapless.providers import Absent, Providers
from gapless.runtime.slots import FOREGROUND
from gapless.schema import Table
from gapless.sinks import Sink

_NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")
_UNPLANNED = 0
"""The index of the first chunk. It does not exist yet, so the leader appends it."""


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
    changed: bool  # whether other endpoints are used from now on
    absent: tuple[Absent, ...]  # endpoints that could not be used at first contact


async def create(
    request: FollowRequest, config: Config, ledger_url: str, *, shared: Providers | None = None
) -> Created:
    """Creates a follow; if it exists, only its endpoints can change.

    `shared` are open providers that may serve others too.
    """
    blocks = request.blocks
    async with open_chain(blocks, config, ledger_url, shared=shared) as chain:
        ledger = await chain.ledger.created()
        backfill_id, found = await _unended(ledger, request.name)
        request = await _undated(request, config, chain)
        if found is None:
            target = config.sink(blocks.sink)
            async with sink_at(target, chain.pool.system, create=True) as sink:
                assert sink is not None
                _require_none(await _same_follows(ledger, chain.chain_id, sink.id))
                spec, state = await _first_state(request, chain, sink)
                await ledger.raise_fence(await sink.highest_fence())
                found = await ledger.create(standing(backfill_id, spec, state))
                await _give_way(ledger, found, await _same_follows(ledger, spec.chain_id, sink.id))
        recorded = follow_spec(found)
        _require_same(request, chain.chain_id, recorded)
        spec = _with_endpoints(recorded, blocks)
        if spec != recorded:
            await ledger.change_follow(request.name, partial(changed, spec=spec))
        return Created(spec, found, chain.tip.head, spec != recorded, tuple(chain.absent))


async def _unended(ledger: Ledger, name: str) -> tuple[str, Backfill | None]:
    """The backfill of a follow, if there is one, and the id of it or of a new one."""
    for generation in count(1):
        backfill_id = standing_id(name, generation)
        try:
            found = await ledger.backfill(backfill_id)
        except NotFound:
            return backfill_id, None
        if not (found.state.ended or found.lifecycle.stopping):
            return backfill_id, found
    raise AssertionError("the loop has no end")


def _with_endpoints(spec: FollowSpec, blocks: FetchRequest) -> FollowSpec:
    """The spec with the requested endpoints; their order does not matter."""
    same = {*blocks.endpoints} == {*spec.endpoints}
    endpoints = spec.endpoints if same else blocks.endpoints
    return msgspec.structs.replace(spec, endpoints=endpoints, shared=blocks.queue != FOREGROUND)


def _require_same(request: FollowRequest, chain_id: int, spec: FollowSpec) -> None:
    """Refuses to change of an existing follow what decides about the blocks that it stores."""
    wanted = request.blocks
    same = {
        "network": (wanted.network.name, chain_id) == (spec.network, spec.chain_id),
        "sink": wanted.sink == spec.sink,
        "tables": wanted.datasets == spec.datasets,
        "start": request.start in (None, spec.start),
    }
    if other := [what for what, is_same in same.items() if not is_same]:
        raise Conflict(
            f"`{spec.name}` follows {spec.network} (chain {spec.chain_id}) into `{spec.sink}`:"
            f" {', '.join(spec.datasets)} from block {spec.start:,}; a follow cannot change its"
            f" {' and '.join(other)}",
            remedy=RemoveFollow(spec.name),
        )


async def _same_follows(
    ledger: Ledger, chain_id: int, sink_id: str
) -> list[tuple[Cursor, Backfill]]:
    """The follows of a chain into a sink. Specs are taken as they are: some may be damaged."""
    return [
        (cursor, backfill)
        for cursor, backfill in await ledger.follows()
        if (backfill.spec.get("chain_id"), backfill.spec.get("sink_id")) == (chain_id, sink_id)
    ]


def _require_none(follows: Sequence[tuple[Cursor, Backfill]]) -> None:
    """Refuses a second follow of a chain into a sink: they would write and retract at will."""
    for cursor, backfill in follows:
        spec = backfill.spec
        raise Conflict(
            f"`{cursor.follow}` follows {spec.get('network')} into `{spec.get('sink')}` already",
            remedy=RemoveFollow(cursor.follow),
        )


async def _give_way(
    ledger: Ledger, created: Backfill, follows: Sequence[tuple[Cursor, Backfill]]
) -> None:
    """Cancels a new follow if another process has created one for the same blocks before it.

    Both may have found none before they created theirs. Then both find both, and the later one
    gives way.
    """
    earlier = [
        (cursor, it)
        for cursor, it in follows
        if (it.created_at, it.id) < (created.created_at, created.id)
    ]
    if earlier:
        await ledger.cancel(created.id)
        _require_none(earlier)


async def _undated(request: FollowRequest, config: Config, chain: OpenChain) -> FollowRequest:
    """The request with the height of its first block, if it has a date."""
    if not isinstance(request.start, Moment):
        return request
    dated = replace(request.blocks, heights=Heights(request.start, Tag.FINALIZED))
    start = (await undated(dated, config, chain)).first
    assert isinstance(start, int)
    return replace(request, start=start)


async def _first_state(
    request: FollowRequest, chain: OpenChain, sink: Sink
) -> tuple[FollowSpec, FollowState]:
    start = request.start
    assert not isinstance(start, Moment)
    final = chain.tip.final
    stored = await _stored(sink, chain.chain_id, request.blocks)
    top = stored.spans[-1].last if stored else -1
    if start is None:
        start = chain.tip.head + 1 if not stored else min(top, final) + 1
    span = Span(min(start, final), final)
    last = final if sink.grid is None else last_in_whole_cells(final, sink.grid)
    requested = span if last < start else Span(start, last)
    plain, _, _ = await compare(request.blocks, chain, sink, requested, create=start <= last)
    # Whoever fetched these took them for final; they are requested again when they are.
    await sink.withdraw(chain.chain_id, Span(final + 1, HIGHEST))
    spec = _spec(request, plain, start, sink.grid)
    gone = RangeSet()
    if plain.refetch:  # the chain was reorganised since
        gone = (await abandoned(sink, _anchor(spec), spec.chain_id, span, chain.source)).heights
    done = (await holding(sink, spec, Span(span.first, max(top, final)))).done - gone
    run = next((it for it in done.spans if it.first == span.first and it.last >= final), None)
    known_to = final if run is None else run.last
    # What is stored above that is not linked to a final block.
    wrong = gone | stored & RangeSet.of((known_to + 1, HIGHEST))
    retraction = Retraction(_UNPLANNED, wrong.spans[0].first, top) if wrong else None
    if run is None:
        return spec, FollowState(start=start, next=start, retraction=retraction)
    known = await _hashes(sink, spec, Span(final, run.last))
    return spec, FollowState(
        start=start, next=run.last + 1, base=final, hashes=known, retraction=retraction
    )


def _anchor(spec: BlocksSpec) -> Table:
    return spec.family.tables[0]


async def _stored(sink: Sink, chain_id: int, blocks: FetchRequest) -> RangeSet:
    anchor = blocks.datasets[0]
    records = await sink.records(chain_id, Span(0, HIGHEST))
    return RangeSet(it.span for it in records if it.dataset == anchor)


async def _hashes(sink: Sink, spec: BlocksSpec, span: Span) -> tuple[str, ...]:
    anchor = _anchor(spec)
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
