"""Which endpoint a follower believes about the head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import pytest

from gapless.chains import find_network
from gapless.chains.family import BlockHeader, Source
from gapless.core.errors import Unavailable
from gapless.following.endpoints import StickyEndpoint

CELO = find_network("celo")


@dataclass
class Heads:
    """Endpoints by name, each with its head; None: it does not answer."""

    heads: dict[str, int | None]
    finals: dict[str, int] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    async def latest(
        self, endpoint: str, patience: float
    ) -> tuple[BlockHeader, BlockHeader | None] | None:
        self.asked.append(endpoint)
        head, final = self.heads[endpoint], self.finals.get(endpoint)
        return None if head is None else (header(head), None if final is None else header(final))

    async def headers(
        self, endpoint: str, heights: Sequence[int], patience: float
    ) -> dict[int, BlockHeader]:
        head = self.heads[endpoint]
        return {} if head is None else {it: header(it) for it in heights if it <= head}


def header(height: int) -> BlockHeader:
    return BlockHeader(height, b"%d" % height, b"%d" % (height - 1))


def sticky(heads: Heads) -> StickyEndpoint:
    return StickyEndpoint(cast("Source", heads), [*heads.heads], CELO)


async def test_it_stays_with_one_that_answers() -> None:
    heads = Heads({"b": 12, "a": 10, "c": 11})
    chain = sticky(heads)
    for _ in range(3):
        assert (await chain.tip()).head.height == 10
    assert heads.asked == ["a"] * 3


async def test_it_moves_on_from_one_that_does_not_and_stays_there() -> None:
    heads = Heads({"a": None, "b": 9, "c": 11})
    chain = sticky(heads)
    assert (await chain.tip()).head.height == 9
    heads.heads["a"] = 12
    assert (await chain.tip()).head.height == 9
    assert heads.asked == ["a", "b", "b"]


async def test_none_answers() -> None:
    with pytest.raises(Unavailable, match="no endpoint reports the head: asked a, b"):
        await sticky(Heads({"a": None, "b": None})).tip()


async def test_it_moves_ahead_only_if_another_one_is() -> None:
    heads = Heads({"a": 10, "b": 10, "c": None})
    chain = sticky(heads)
    assert await chain.move_ahead(10) is None
    assert chain.name == "a"
    heads.heads["b"] = 11
    assert await chain.move_ahead(10) == "a"
    assert chain.name == "b"


async def test_another_endpoint_must_have_the_same_block() -> None:
    assert await sticky(Heads({"a": 10})).is_agreed(5)
    assert await sticky(Heads({"a": 10, "b": None})).is_agreed(5)
    assert await sticky(Heads({"a": 10, "b": 4, "c": 5})).is_agreed(5)
    assert not await sticky(Heads({"a": 10, "b": 4})).is_agreed(5)


async def test_the_next_one_follows_the_last_one() -> None:
    chain = sticky(Heads({"a": 1, "b": 2}))
    chain.move_on()
    assert chain.name == "b"
    chain.move_on()
    assert chain.name == "a"


@pytest.mark.parametrize(
    ("reported", "head", "final"),
    [({}, 1850, 950), ({"a": 1800}, 1850, 1800), ({"a": 2000}, 2000, 2000)],
)
async def test_finality_is_reported_or_by_depth(
    reported: dict[str, int], head: int, final: int
) -> None:
    """A final block above the head is the head: the other answer is old."""
    tip = await sticky(Heads({"a": 1850}, reported)).tip()
    assert (tip.head, tip.final) == (header(head), final)
    assert tip.final_hash == (header(final).hash if reported else None)


async def test_all_blocks_may_be_final() -> None:
    shallow = replace(CELO, finality=replace(CELO.finality, depth=0))
    chain = StickyEndpoint(cast("Source", Heads({"a": 7})), ["a"], shallow)
    assert (await chain.tip()).final == 7
