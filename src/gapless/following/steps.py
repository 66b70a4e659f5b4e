"""What to do about a sighting. Pure: nothing is asked, and nothing is written.

New blocks above the final one are planned one by one, each with the hash that it must have. What is
final, and was missed or asked for, is planned as history. When the chain has changed, the stored
branch is retracted first; nothing is planned until that is done, and then the new branch is simply
the next blocks.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from gapless.core.ranges import Span
from gapless.following.sighting import Behind, Forked, Grown, Sighting, Unrelated
from gapless.following.state import FollowState, Retraction


@dataclass(frozen=True)
class Pinned:
    """A new block, and the hash that it must have."""

    height: int
    hash: bytes


@dataclass(frozen=True)
class Step:
    """The state after a step, and what is written together with it."""

    state: FollowState
    blocks: tuple[Pinned, ...] = ()
    history: Span | None = None  # final blocks that are to be fetched
    retract: Span | None = None  # blocks that are no longer on the chain


def last_in_whole_cells(final: int, grid: int) -> int:
    """Return the last block of the highest cell that is final as a whole, or -1."""
    return (final + 1) // grid * grid - 1


def whole_cells(state: FollowState, final: int, grid: int) -> Step:
    """Plan what has become final, in whole cells of a sink that stores nothing smaller."""
    last = last_in_whole_cells(final, grid)
    if last < state.next:
        return Step(state)
    after = msgspec.structs.replace(state, next=last + 1, final=max(state.final, final))
    return Step(after, history=Span(state.next, last))


def doubtful(state: FollowState, seen: Sighting, depth: int) -> int | None:
    """A block that other endpoints must have too, before so deep a change is acted on."""
    match seen:
        case Unrelated(height=height):
            return height
        case Forked(fork=fork) if state.last - fork > depth:
            return fork + 1
        case _:
            return None


def step(state: FollowState, seen: Sighting, *, depth: int, next_chunk: int) -> Step:
    """Decide what to do; `depth` is the deepest reorganisation that is followed."""
    if state.alarm is not None or state.retraction is not None:
        return Step(state)
    match seen:
        case Grown():
            return _grow(state, seen)
        case Forked(fork=fork) if state.last - fork > depth:
            changed = f"the {state.last - fork} blocks above {fork:,} changed"
            return _stop(state, f"{changed}, which is more than the limit of {depth}")
        case Forked(fork=fork) if state.last >= state.start:
            span = Span(max(fork + 1, state.start), state.last)
            retraction = Retraction(next_chunk, *span)
            return Step(state.cut(fork, retraction), retract=span)
        case Forked(fork=fork):  # nothing is stored yet
            return Step(state.cut(fork, None))
        case Unrelated(height=height):
            return _stop(state, f"block {height:,} changed, although it was final")
        case Behind(tip=tip):
            final = min(tip.final, state.last)
            return Step(state.extended((), final) if state.hashes else state)


def retracted(state: FollowState) -> FollowState:
    """The state once the branch is removed."""
    return msgspec.structs.replace(state, retraction=None)


def _grow(state: FollowState, seen: Grown) -> Step:
    final = seen.tip.final
    new = [each for each in seen.headers if each.height >= state.next]
    first = max(state.next, state.start)
    blocks = tuple(
        Pinned(each.height, each.hash) for each in new if each.height >= max(first, final + 1)
    )
    history = Span(first, final) if first <= final else None
    base = seen.headers[0].height
    if state.hashes and base == state.next:
        after = state.extended((each.hash for each in new), final)
    else:
        after = state.restarted(base, (each.hash for each in seen.headers), final)
    return Step(after, blocks, history)


def _stop(state: FollowState, why: str) -> Step:
    alarm = f"{why}: nothing was deleted, and nothing is stored until a person decides"
    return Step(msgspec.structs.replace(state, alarm=alarm))
