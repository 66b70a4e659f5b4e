"""Which endpoint a follower believes about the head."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import cast

import pytest

from gapless.chains import find_network
from gapless.chains.family import BlockHeader, Source
from gapless.chains.network import Network
from gapless.core.errors import TransientError, Unavailable, UsageError
from gapless.following import endpoints
from gapless.following.endpoints import EndpointHeaders, StickyEndpoint
from gapless.following.sighting import ChainHead, look
from gapless.following.state import FollowState
from gapless.providers.standing import Served
from tests.waiting import eventually

CELO = find_network("celo")


@dataclass
class Heads:
    """Endpoints by name, each with its head; None: it does not answer."""

    heads: dict[str, int | None]
    finals: dict[str, int] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    hanging: set[str] = field(default_factory=set)
    lacks: dict[str, set[int]] = field(default_factory=dict)  # heights, by endpoint
    foreign: set[str] = field(default_factory=set)  # nodes of another network

    async def latest(
        self, endpoint: str, patience: float
    ) -> tuple[BlockHeader, BlockHeader | None] | None:
        self.asked.append(endpoint)
        if endpoint in self.hanging:
            await asyncio.Event().wait()
        if endpoint in self.foreign:
            raise UsageError(f"endpoint `{endpoint}` is on chain 1")
        head, final = self.heads[endpoint], self.finals.get(endpoint)
        return None if head is None else (header(head), None if final is None else header(final))

    async def headers(
        self, endpoint: str, heights: Sequence[int], patience: float
    ) -> dict[int, BlockHeader]:
        head, lacks = self.heads[endpoint], self.lacks.get(endpoint, set())
        return {it: header(it) for it in heights if it <= (head or -1) and it not in lacks}

    def served(self) -> dict[str, Served]:
        return {name: Served(trouble="HTTP 503") for name in self.heads}


def header(height: int) -> BlockHeader:
    return BlockHeader(height, b"%d" % height, b"%d" % (height - 1))


class Chain(StickyEndpoint):
    """Endpoints of which the blocks up to a height are known."""

    def __init__(self, heads: Heads, known: int = 10) -> None:
        super().__init__(cast("Source", heads), [*heads.heads], CELO, heads.served)
        hashes = tuple(header(it).hash.hex() for it in range(5, known + 1))
        self.state = FollowState(start=0, next=known + 1, base=5, hashes=hashes)
        self.known = known

    async def see(self, *, late: bool = False) -> int:
        """The head that is seen."""
        look_at = partial(look, self.state)
        return (await self.sight(look_at, known=self.known, late=late)).tip.head.height


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "_PATIENCE", 0.02)


async def test_it_stays_with_one_that_answers() -> None:
    heads = Heads({"b": 12, "a": 10, "c": 11})
    chain = Chain(heads)
    assert [await chain.see() for _ in range(3)] == [10, 10, 10]
    assert heads.asked == ["a"] * 3


async def test_the_highest_one_takes_over_from_one_that_does_not_answer() -> None:
    heads = Heads({"a": None, "b": 9, "c": 11})
    chain = Chain(heads)
    assert await chain.see() == 11
    heads.heads["a"] = 12
    assert await chain.see() == 11
    assert heads.asked == ["a", "b", "c", "c"]


async def test_one_that_hangs_or_is_of_another_network_is_replaced() -> None:
    hanging = Chain(Heads({"a": 10, "b": 10, "c": None}, hanging={"a"}))
    foreign = Chain(Heads({"a": 10, "b": 9, "c": 8}, foreign={"a"}, hanging={"c"}))
    for chain, head in ((hanging, 10), (foreign, 9)):
        assert (await chain.see(), chain.name) == (head, "b")


async def test_one_that_is_slow_is_waited_for_if_no_other_one_answers() -> None:
    heads = Heads({"a": 11, "b": None}, hanging={"a"})
    chain = Chain(heads)
    waiting = asyncio.create_task(chain.see())
    await eventually(lambda: heads.asked.count("b") > 2)
    assert not waiting.done()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)


async def test_none_answers() -> None:
    with pytest.raises(Unavailable, match=r"no endpoint answers: `a` \(HTTP 503\), `b` \(HTTP"):
        await Chain(Heads({"a": None, "b": None})).see()
    with pytest.raises(UsageError, match="is on chain 1"):
        await Chain(Heads({"a": 10}, foreign={"a"})).see()


async def test_another_one_is_used_for_blocks_that_this_one_lacks() -> None:
    heads = Heads({"a": 14, "b": 10, "c": 13}, lacks={"a": {12}})
    chain = Chain(heads)
    assert (await chain.see(), chain.name) == (13, "c")


async def test_no_other_one_is_taken_that_is_not_ahead() -> None:
    chain = Chain(Heads({"a": 14, "b": 10, "c": 9}, lacks={"a": {12}}))
    with pytest.raises(TransientError, match="lacks blocks"):
        await chain.see()
    assert chain.name == "a"


async def test_others_are_asked_when_a_block_is_late() -> None:
    heads = Heads({"a": 10, "b": 10, "c": None})
    chain = Chain(heads)
    assert (await chain.see(late=True), chain.name) == (10, "a")
    heads.heads["b"] = 11
    assert (await chain.see(), chain.name) == (10, "a")
    assert (await chain.see(late=True), chain.name) == (11, "b")
    heads.asked.clear()
    heads.heads["b"] = 12
    assert (await chain.see(late=True), heads.asked) == (12, ["b"])


async def test_another_endpoint_must_have_the_same_block() -> None:
    assert await Chain(Heads({"a": 10})).is_agreed(5)
    assert await Chain(Heads({"a": 10, "b": None, "c": 9}, hanging={"c"})).is_agreed(5)
    assert await Chain(Heads({"a": 10, "b": 4, "c": 5})).is_agreed(5)
    assert not await Chain(Heads({"a": 10, "b": 4})).is_agreed(5)


async def test_the_next_one_follows_the_last_one() -> None:
    chain = Chain(Heads({"a": 1, "b": 2}))
    chain.move_on()
    assert chain.name == "b"
    chain.move_on()
    assert chain.name == "a"


async def tip_of(heads: Heads, network: Network = CELO) -> ChainHead:
    return await EndpointHeaders(cast("Source", heads), "a", network).tip()


@pytest.mark.parametrize(
    ("reported", "head", "final"),
    [({}, 1850, 950), ({"a": 1800}, 1850, 1800), ({"a": 2000}, 2000, 2000)],
)
async def test_finality_is_reported_or_by_depth(
    reported: dict[str, int], head: int, final: int
) -> None:
    """A final block above the head is the head: the other answer is old."""
    tip = await tip_of(Heads({"a": 1850}, reported))
    assert (tip.head, tip.final) == (header(head), final)
    assert tip.final_hash == (header(final).hash if reported else None)


async def test_all_blocks_may_be_final() -> None:
    shallow = replace(CELO, finality=replace(CELO.finality, depth=0))
    assert (await tip_of(Heads({"a": 7}), shallow)).final == 7
