"""What one endpoint says about the head of the chain, compared with what a follow knows.

A lower head alone is no reorganisation: the endpoint may lag, or restart. Only a different hash at
a known height is one. Answers that contradict each other, because the chain changed between two
questions or a cache repeats an old head, mean nothing: the next sighting asks again.

A block counts as final only if the endpoint that calls it final has the known hash there. A change
of final blocks is told from one that the endpoint does not call final itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from gapless.chains.family import BlockHeader
from gapless.core.errors import TransientError
from gapless.following.state import FollowState

_MOST_AT_ONCE = 256  # headers to ask for in one go
_TIMES = 3  # to ask for a header that is null


@dataclass(frozen=True)
class ChainHead:
    """The head that an endpoint reports, and the highest block that is final."""

    head: BlockHeader
    final: int  # not above the head
    final_hash: bytes | None = None  # None: the final block is counted down from the head


class Headers(Protocol):
    """The headers of one chain, all from one endpoint."""

    async def tip(self) -> ChainHead:
        """Return the current head and final block."""

    async def headers(self, heights: Sequence[int]) -> Mapping[int, BlockHeader]:
        """Return the headers at these heights, without those that the endpoint lacks."""


@dataclass(frozen=True)
class Behind:
    """Nothing new: the endpoint's head is known, or not reached yet."""

    tip: ChainHead


@dataclass(frozen=True)
class Grown:
    """New blocks: the headers after the last known block, or from a final one, up to the head."""

    tip: ChainHead
    headers: tuple[BlockHeader, ...]  # linked; the first one follows a known block, or is final


@dataclass(frozen=True)
class Forked:
    """Known blocks above the fork are not on the endpoint's chain."""

    tip: ChainHead
    fork: int  # the highest block that is the same
    instead: bytes | None  # the hash of the block after it, if there is one


@dataclass(frozen=True)
class Unrelated:
    """A final block differs, and so does what the endpoint calls final."""

    tip: ChainHead
    height: int  # the final block that differs


Sighting = Behind | Grown | Forked | Unrelated
Suspicion = tuple[int, bytes | None] | None


def suspicion(seen: Sighting) -> Suspicion:
    """The highest block that is still the same and the one after it, if the chain has changed."""
    match seen:
        case Forked(fork=fork, instead=instead):
            return fork, instead
        case Unrelated(height=height):
            return height - 1, None
        case _:
            return None


async def look(state: FollowState, chain: Headers) -> Sighting:
    """Compare an endpoint's chain with the known one; raise a `TransientError` to ask later."""
    tip = await chain.tip()
    if not state.hashes:
        return await _first(state, chain, tip)
    if _calls_another_final(state, tip):
        return await _forked(state, chain, tip, tip.final)
    common = min(tip.head.height, state.last)
    if common < state.base:
        return Behind(tip)
    same = await _hash_at(chain, tip, common)
    if same is None:
        raise TransientError(f"block {common:,} is null, although the head is above it")
    if same != state.hash(common):
        return await _forked(state, chain, tip, common)
    if tip.head.height <= state.last:
        return Behind(tip)
    return await _grown(state, chain, tip)


async def _first(state: FollowState, chain: Headers, tip: ChainHead) -> Sighting:
    """The first sighting of a follow: headers from the final block on, wherever it starts."""
    if tip.head.height < state.last:
        return Behind(tip)
    return Grown(tip, await _from_final(chain, tip))


async def _grown(state: FollowState, chain: Headers, tip: ChainHead) -> Grown:
    if tip.final > state.last:
        return Grown(tip, await _from_final(chain, tip))
    found = await _linked(chain, state.next, tip.head)  # most often the head alone
    if found[0].parent_hash != state.hash(state.last):
        raise TransientError(f"block {state.last:,} has changed between two questions")
    return Grown(tip, found)


async def _forked(state: FollowState, chain: Headers, tip: ChainHead, common: int) -> Sighting:
    """Find the fork, from the top down, with more questions at once the deeper it is."""
    high, step = common - 1, 4
    while high >= state.base:
        low = max(state.base, high - step + 1)
        found = await chain.headers(range(low, high + 2))
        differing = found.get(high + 1)
        if differing is not None and differing.hash == state.hash(high + 1):
            raise TransientError(f"block {high + 1:,} has changed between two questions")
        for height in range(high, low - 1, -1):
            theirs = found.get(height)
            if theirs is None:
                raise TransientError(f"block {height:,} is null, although the head is above it")
            if theirs.hash == state.hash(height):
                after = found.get(height + 1)
                return Forked(tip, height, after.hash if after else None)
        high, step = low - 1, min(2 * step, _MOST_AT_ONCE)
    if tip.final < state.base or _calls_known_final(state, tip):
        raise TransientError(
            f"block {state.base:,} was final, and is another one here, but not a final one"
        )
    return Unrelated(tip, state.base)


def _calls_known_final(state: FollowState, tip: ChainHead) -> bool:
    return tip.final_hash is not None and tip.final_hash == state.hash(tip.final)


def _calls_another_final(state: FollowState, tip: ChainHead) -> bool:
    """Whether the final block of the endpoint is at a known height, with another hash."""
    return None not in (known := (tip.final_hash, state.hash(tip.final))) and known[0] != known[1]


async def _hash_at(chain: Headers, tip: ChainHead, height: int) -> bytes | None:
    if height == tip.head.height:
        return tip.head.hash
    if height == tip.head.height - 1:
        return tip.head.parent_hash
    found = (await chain.headers([height])).get(height)
    return found.hash if found else None


async def _from_final(chain: Headers, tip: ChainHead) -> tuple[BlockHeader, ...]:
    found = await _linked(chain, max(0, tip.final), tip.head)
    if tip.final_hash not in (None, found[0].hash):
        raise TransientError("the endpoint's head and its final block are on different branches")
    return found


async def _linked(chain: Headers, first: int, head: BlockHeader) -> tuple[BlockHeader, ...]:
    """The headers from a height up to the head, each linked to the one before."""
    found = {head.height: head}
    for low in range(first, head.height, _MOST_AT_ONCE):
        heights = range(low, min(low + _MOST_AT_ONCE, head.height))
        found |= await _insist(chain, heights)
    line = [found[height] for height in range(first, head.height + 1) if height in found]
    if len(line) < head.height - first + 1:
        raise TransientError("the endpoint lacks blocks below its own head")
    for before, after in pairwise(line):
        if after.parent_hash != before.hash:
            raise TransientError(f"block {after.height:,} does not follow from the one before")
    return tuple(line)


async def _insist(chain: Headers, heights: Sequence[int]) -> dict[int, BlockHeader]:
    """The headers at these heights; asks again for a few that are null, as some nodes answer."""
    found = dict(await chain.headers(heights))
    for _ in range(_TIMES - 1):
        missing = [height for height in heights if height not in found]
        if not missing or not found:
            break
        found |= await chain.headers(missing)
    return found
