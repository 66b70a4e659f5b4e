"""A follow plans every block of the chain once, whatever the chain does above finality."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless.chains.family import BlockHeader
from gapless.core.errors import TransientError
from gapless.following.sighting import (
    Behind,
    ChainHead,
    Forked,
    Grown,
    Sighting,
    Suspicion,
    Unrelated,
    look,
    suspicion,
)
from gapless.following.state import FollowState, Retraction
from gapless.following.steps import doubtful, retracted, step

DEPTH, FINAL = 8, 8


@dataclass
class Chain:
    """A chain whose last blocks can be replaced, and an endpoint that may lag behind it."""

    blocks: list[BlockHeader] = field(default_factory=list)
    final: int = 0
    lag: int = 0
    lacks: frozenset[int] = frozenset()
    null_once: set[int] = field(default_factory=set)
    cached: BlockHeader | None = None  # a head that it repeats; its other answers are current
    by_depth: bool = False  # it does not report which block is final
    asked: list[int] = field(default_factory=list)  # heights whose headers were asked for

    def grow(self, count: int, salt: str = "") -> None:
        for height in range(len(self.blocks), len(self.blocks) + count):
            parent = self.blocks[-1].hash if self.blocks else bytes(32)
            text = f"{height} {salt} ".encode() + parent
            self.blocks.append(BlockHeader(height, hashlib.sha256(text).digest(), parent))
        self.final = max(self.final, len(self.blocks) - 1 - FINAL)

    def reorganise(self, depth: int, grown: int, salt: str) -> None:
        kept = max(self.final + 1, len(self.blocks) - depth)
        del self.blocks[kept:]
        self.grow(grown, salt)

    @property
    def shown(self) -> list[BlockHeader]:
        return self.blocks[: max(1, len(self.blocks) - self.lag)]

    async def tip(self) -> ChainHead:
        head = self.cached or self.shown[-1]
        if self.by_depth:
            return ChainHead(head, head.height - FINAL)
        final = self.blocks[min(self.final, self.shown[-1].height)]
        return ChainHead(max(head, final, key=lambda it: it.height), final.height, final.hash)

    def cache(self) -> None:
        """Let it repeat its present head from now on."""
        self.cached = self.shown[-1]

    async def headers(self, heights: Sequence[int]) -> Mapping[int, BlockHeader]:
        shown = self.shown
        self.asked += heights
        return {at: shown[at] for at in heights if at < len(shown) and at not in self.lacks}


def chain_of(blocks: int) -> Chain:
    chain = Chain()
    chain.grow(blocks)
    return chain


def beginning(start: int) -> FollowState:
    return FollowState(start=start, next=start)


@dataclass
class Follow:
    """A follow whose plans are carried out at once."""

    chain: Chain
    state: FollowState
    stored: dict[int, bytes] = field(default_factory=dict)
    planned: list[int] = field(default_factory=list)
    suspected: Suspicion = None

    async def turn(self) -> Sighting:
        seen = await look(self.state, self.chain)
        before, self.suspected = self.suspected, suspicion(seen)
        if self.suspected not in (None, before):
            return seen
        made = step(self.state, seen, depth=DEPTH, next_chunk=0)
        self.state = made.state
        if made.retract is not None:
            for height in range(made.retract.first, made.retract.last + 1):
                self.stored.pop(height, None)
            self.state = retracted(self.state)
        for block in made.blocks:
            self.stored[block.height] = block.hash
            self.planned.append(block.height)
        if made.history is not None:
            for height in range(made.history.first, made.history.last + 1):
                self.stored[height] = self.chain.blocks[height].hash
                self.planned.append(height)
        return seen


async def test_the_first_turn_plans_history_and_the_blocks_above_it() -> None:
    chain = chain_of(30)
    seen = await look(beginning(5), chain)
    made = step(beginning(5), seen, depth=DEPTH, next_chunk=0)
    assert made.history == (5, 21)
    assert [each.height for each in made.blocks] == [*range(22, 30)]
    assert made.state.next == 30
    assert made.state.known() == range(21, 30)


async def test_a_follow_from_the_head_waits_for_the_next_block() -> None:
    chain = chain_of(30)
    follow = Follow(chain, beginning(30))
    await follow.turn()
    assert follow.planned == []
    chain.grow(2)
    await follow.turn()
    assert follow.planned == [30, 31]


async def test_a_new_block_needs_no_question_besides_the_one_about_the_head() -> None:
    chain = chain_of(30)
    follow = Follow(chain, beginning(30))
    await follow.turn()
    chain.asked.clear()
    chain.grow(1)
    await follow.turn()
    assert follow.planned == [30]
    assert chain.asked == []


async def test_after_a_long_time_down_the_newest_blocks_are_planned_at_once() -> None:
    chain = chain_of(30)
    follow = Follow(chain, beginning(30))
    await follow.turn()
    chain.grow(500)
    seen = await follow.turn()
    assert isinstance(seen, Grown)
    assert sorted(follow.planned) == [*range(30, 530)]
    assert follow.state.base == 521


async def test_a_lower_head_on_the_same_chain_is_no_reorganisation() -> None:
    chain = chain_of(30)
    follow = Follow(chain, beginning(0))
    await follow.turn()
    chain.lag = 3
    assert isinstance(await follow.turn(), Behind)
    assert len(follow.stored) == 30


async def test_a_shorter_branch_is_a_reorganisation() -> None:
    chain = chain_of(30)
    follow = Follow(chain, beginning(0))
    await follow.turn()
    chain.reorganise(5, 2, "other")
    assert isinstance(await follow.turn(), Forked)
    await follow.turn()
    assert max(follow.stored) == 24
    await follow.turn()
    assert follow.stored == {each.height: each.hash for each in chain.blocks}


async def test_one_sighting_of_another_branch_changes_nothing() -> None:
    chain = chain_of(30)
    follow = Follow(chain, beginning(0))
    await follow.turn()
    stored, blocks = dict(follow.stored), list(chain.blocks)
    chain.reorganise(3, 4, "other")
    await follow.turn()
    chain.blocks = blocks
    await follow.turn()
    assert follow.stored == stored
    assert follow.state.next == 30


async def test_a_change_below_the_limit_stops_the_follow_and_deletes_nothing() -> None:
    chain = chain_of(30)
    follow = Follow(chain, beginning(0))
    await follow.turn()
    stored = dict(follow.stored)
    chain.final = 0
    del chain.blocks[10:]
    chain.grow(30, "other")
    seen = [(type(await follow.turn()), bool(follow.state.alarm)) for _ in range(2)]
    assert seen == [(Unrelated, False), (Unrelated, True)]  # one sighting is not enough
    chain.grow(5)
    await follow.turn()
    assert follow.stored == stored


async def test_an_old_head_beside_a_newer_final_block_is_a_reorganisation_and_no_alarm() -> None:
    """The old head is of a branch that is gone, and below the height that is final by now."""
    chain = chain_of(30)
    follow = Follow(chain, beginning(0))
    await follow.turn()
    chain.cache()
    chain.reorganise(6, 12, "other")
    assert chain.final > 24
    assert [type(await follow.turn()) for _ in range(2)] == [Forked, Forked]
    with pytest.raises(TransientError):  # its head does not follow from the other blocks
        await follow.turn()
    chain.cached = None
    await follow.turn()
    assert follow.state.alarm is None
    assert follow.stored == {each.height: each.hash for each in chain.blocks}


async def test_a_final_block_above_what_is_known_is_simply_the_next_head() -> None:
    chain = chain_of(30)
    follow = Follow(chain, beginning(0))
    await follow.turn()
    chain.cache()
    chain.grow(20)
    await follow.turn()
    assert follow.state.last == chain.final == 41
    assert sorted(follow.stored) == [*range(42)]


async def test_a_head_and_a_final_block_on_two_branches_mean_nothing() -> None:
    chain = chain_of(30)
    head = chain.blocks[-1]
    chain.reorganise(6, 12, "other")
    tip = ChainHead(head, 25, chain.blocks[25].hash)

    async def contradict() -> ChainHead:
        return tip

    chain.tip = contradict  # type: ignore[method-assign]
    with pytest.raises(TransientError):
        await look(beginning(0), chain)


async def test_an_answer_from_another_branch_than_the_others_means_nothing() -> None:
    chain = chain_of(30)
    follow = Follow(chain, beginning(0))
    await follow.turn()
    blocks = list(chain.blocks)
    chain.reorganise(3, 3, "other")
    chain.cache()
    chain.blocks = blocks
    for _ in range(2):
        with pytest.raises(TransientError, match="29 has changed between two questions"):
            await follow.turn()


@pytest.mark.parametrize("by_depth", [True, False])
async def test_a_branch_that_is_not_final_either_stops_nothing(by_depth: bool) -> None:
    """An endpoint on a branch of its own, whose final block is below the known one."""
    chain = chain_of(30)
    follow = Follow(chain, beginning(0))
    await follow.turn()
    chain.by_depth = by_depth
    chain.final = 0
    del chain.blocks[15:]
    chain.grow(10, "other")
    chain.final = 10
    for _ in range(3):
        with pytest.raises(TransientError, match="but not a final one"):
            await follow.turn()
    assert follow.state.alarm is None


async def test_a_change_beyond_the_limit_is_doubted_and_then_stops_the_follow() -> None:
    chain = chain_of(30)
    chain.final = 10  # the chain finalises no more blocks
    follow = Follow(chain, beginning(0))
    await follow.turn()
    stored = dict(follow.stored)
    chain.reorganise(DEPTH, DEPTH, "one")
    seen = await look(follow.state, chain)
    assert doubtful(follow.state, seen, DEPTH) is None
    chain.final = 10
    chain.reorganise(DEPTH + 1, DEPTH, "two")
    seen = await look(follow.state, chain)
    assert doubtful(follow.state, seen, DEPTH) == 30 - DEPTH - 1
    for _ in range(3):
        await follow.turn()
    assert f"more than the limit of {DEPTH}" in (follow.state.alarm or "")
    assert follow.stored == stored


async def test_nothing_is_planned_while_a_branch_is_retracted() -> None:
    chain = chain_of(30)
    state = beginning(0)
    state = step(state, await look(state, chain), depth=DEPTH, next_chunk=0).state
    waiting = state.cut(25, Retraction(7, 26, 29))
    chain.grow(3)
    made = step(waiting, await look(waiting, chain), depth=DEPTH, next_chunk=8)
    assert made.state == waiting
    assert not made.blocks


async def test_headers_that_the_endpoint_lacks_are_asked_for_later() -> None:
    chain = chain_of(30)
    chain.lacks = frozenset({25})
    with pytest.raises(TransientError):
        await look(beginning(0), chain)


async def test_headers_that_are_null_once_do_not_delay_a_sighting() -> None:
    chain = chain_of(30)
    chain.null_once = {23, 26}
    assert isinstance(await look(beginning(0), chain), Grown)


async def test_a_fork_is_not_told_from_headers_that_the_endpoint_lacks() -> None:
    chain = chain_of(30)
    follow = Follow(chain, beginning(0))
    await follow.turn()
    chain.reorganise(3, 4, "other")
    chain.lacks = frozenset(range(28))
    with pytest.raises(TransientError):
        await follow.turn()
    assert follow.state.alarm is None


actions = st.lists(
    st.one_of(
        st.tuples(st.just("grow"), st.integers(1, 30)),
        st.tuples(st.just("reorganise"), st.integers(1, 2 * FINAL), st.integers(0, 9)),
        st.tuples(st.just("cache"), st.booleans()),
        st.tuples(st.just("lag"), st.integers(0, 6)),
        st.tuples(st.just("turn")),
    ),
    max_size=40,
)


@settings(max_examples=300)
@given(start=st.integers(0, 25), script=actions)
async def test_what_is_stored_becomes_the_chain(start: int, script: list[tuple[str, ...]]) -> None:
    chain = chain_of(20)
    follow = Follow(chain, beginning(start))
    for at, action in enumerate(script):
        match action:
            case ("grow", count):
                chain.grow(int(count))
            case ("reorganise", depth, grown):
                chain.reorganise(int(depth), int(grown), str(at))
            case ("lag", lag):
                chain.lag = int(lag)
            case ("cache", True):
                chain.cache()
            case ("cache", False):
                chain.cached = None
            case _:
                with suppress(TransientError):
                    await follow.turn()
    chain.lag, chain.cached = 0, None
    chain.grow(20)
    for _ in range(4):
        await follow.turn()
    truth = {each.height: each.hash for each in chain.blocks if each.height >= start}
    assert follow.state.alarm is None
    assert follow.stored == truth
