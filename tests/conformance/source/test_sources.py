"""A source of any family returns every requested block, from any kind of node."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapless.core.errors import MissingHistory, Unavailable
from gapless.core.ranges import Span
from gapless.devnode import Chain, DevNode, Limits, simulated
from gapless.devnode.limits import FinalityTags
from gapless.providers import Refused
from gapless.providers.provider_errors import Reaction
from tests.conformance.source.conftest import PARAMETERS
from tests.conformance.source.sources import SUBJECTS, Subject, family_source

SPAN = Span(0, 60)


@pytest.fixture(params=SUBJECTS)
def subject(request: pytest.FixtureRequest) -> Subject:
    return SUBJECTS[request.param]


@pytest.fixture
def chain(subject: Subject, cache: Path) -> Chain:
    return simulated(PARAMETERS, cache, family=subject.family.name)


@pytest.fixture
def other(subject: Subject, cache: Path) -> Chain:
    """The same chain on another node."""
    return simulated(PARAMETERS, cache, family=subject.family.name)


@pytest.mark.parametrize(
    "limits", [Limits(), Limits(max_batch=3), Limits(max_batch=1)], ids=["", "small", "single"]
)
@pytest.mark.parametrize("faults", ["", "null=0.02,omit=0.1,500=0.05,shuffle=0.2"])
async def test_blocks(subject: Subject, chain: Chain, limits: Limits, faults: str) -> None:
    async with family_source(subject, DevNode(chain, limits=limits, faults=faults)) as source:
        subject.assert_true(chain, SPAN, await source.fetch(SPAN))


async def test_what_blocks_cost(subject: Subject, chain: Chain) -> None:
    """No more calls than the dry run announces; a provider may count fewer."""
    node = DevNode(chain)
    async with family_source(subject, node) as source:
        await source.fetch(Span(1, 60))
        identified = 1  # the first contact
        assert node.calls.total() - identified <= subject.block_calls
        announced = subject.family.calls(60, [table.name for table in subject.family.tables])
        assert announced[subject.receipts_method] == 60


async def test_blocks_without_what_their_transactions_did(subject: Subject, chain: Chain) -> None:
    anchor, node = subject.family.tables[0].name, DevNode(chain)
    async with family_source(subject, node, datasets=[anchor]) as source:
        assert [each.height for each in await source.fetch(SPAN)] == [*range(61)]
        assert subject.receipts_method not in node.calls


# Nulls


async def test_null_below_the_head_is_requested_again(subject: Subject, chain: Chain) -> None:
    async with family_source(subject, DevNode(chain, faults="null@17*3")) as source:
        subject.assert_true(chain, SPAN, await source.fetch(SPAN))


async def test_null_is_requested_from_another_endpoint(
    subject: Subject, chain: Chain, other: Chain
) -> None:
    liar = DevNode(chain, limits=Limits(pruned_below=100, pruned_null=True))
    span = Span(1, 60)
    async with family_source(subject, liar, DevNode(other)) as source:
        await source.head()
        for _ in range(4):
            blocks = await source.fetch(span, avoid={"b"})
            subject.assert_true(chain, span, blocks)
            assert {each.endpoint for each in blocks} == {"b"}
        for _ in range(4):
            await source.fetch(span)
        assert liar.calls.total() <= 2 * 61 * 4, "it is now asked last"


async def test_null_for_a_third_of_all_calls(subject: Subject, chain: Chain) -> None:
    """As from a balancer with three nodes, one of which has no history."""
    node = DevNode(chain, faults="null=0.33")
    async with family_source(subject, node) as source:
        await source.head()
        for first in range(0, 120, 10):
            span = Span(first, first + 9)
            subject.assert_true(chain, span, await source.fetch(span))
        assert node.calls.total() < 4 * 240


async def test_one_block_that_is_always_null_is_not_called_pruned(
    subject: Subject, chain: Chain
) -> None:
    node = DevNode(chain, faults="null@17*1000")
    async with family_source(subject, node) as source:
        await source.head()
        with pytest.raises(
            MissingHistory, match=r"block 17 .* null at `a`.*although lower blocks are answered"
        ) as missing:
            await source.fetch(Span(10, 20))
        assert missing.value.height == 17
        assert "archive" not in (missing.value.hint or "")
        with pytest.raises(MissingHistory, match="although lower blocks are answered"):
            await source.fetch(Span(17, 17))
        assert node.calls.total() < 150


async def test_pruned_history_answered_with_null(subject: Subject, chain: Chain) -> None:
    limits = Limits(pruned_below=30, pruned_null=True)
    async with family_source(subject, DevNode(chain, limits=limits)) as source:
        with pytest.raises(MissingHistory, match="null at `a`") as missing:
            await source.fetch(Span(28, 33))
        assert missing.value.height == 28
        assert "archive" in (missing.value.hint or "")
        subject.assert_true(chain, Span(30, 33), await source.fetch(Span(30, 33)))


async def test_pruned_history_answered_with_an_error(subject: Subject, chain: Chain) -> None:
    async with family_source(subject, DevNode(chain, limits=Limits(pruned_below=30))) as source:
        with pytest.raises(MissingHistory) as missing:
            await source.fetch(Span(25, 33))
        assert missing.value.height == 25


async def test_history_that_only_one_endpoint_has(
    subject: Subject, chain: Chain, other: Chain
) -> None:
    pruned = DevNode(chain, limits=Limits(pruned_below=100))
    async with family_source(subject, pruned, DevNode(other)) as source:
        for _ in range(3):
            subject.assert_true(chain, Span(1, 60), await source.fetch(Span(1, 60)))


async def test_a_block_above_the_head(subject: Subject, chain: Chain) -> None:
    async with family_source(subject, DevNode(chain)) as source:
        with pytest.raises(Refused, match="block 205 is above the head, 200") as refused:
            await source.fetch(Span(199, 205))
        assert refused.value.refusal.reaction is Reaction.LATER


async def test_a_node_that_lags_behind_its_own_head(subject: Subject, chain: Chain) -> None:
    lagging = DevNode(chain, faults="stale-head@200*99")
    async with family_source(subject, lagging) as source:
        await source.head()
        with pytest.raises(Unavailable, match="block 200 is below the head, but null at `a`"):
            await source.fetch(Span(199, 200))


# The head


async def test_a_lower_head_is_ignored(subject: Subject, chain: Chain, other: Chain) -> None:
    other.start_at(150)
    async with family_source(subject, DevNode(chain), DevNode(other)) as source:
        assert max([await source.head() for _ in range(4)]) == 200
        assert await source.head() == 200


@pytest.mark.parametrize("finality", FinalityTags)
async def test_finalized(subject: Subject, chain: Chain, finality: FinalityTags) -> None:
    expected = 200 - subject.finality_depth if finality is FinalityTags.DEPTH else None
    async with family_source(subject, DevNode(chain, limits=Limits(finality=finality))) as source:
        assert await source.finalized() == expected


@pytest.mark.parametrize("finality", [FinalityTags.DEPTH, FinalityTags.ERROR, FinalityTags.NULL])
async def test_the_latest_block_of_one_endpoint(
    subject: Subject, chain: Chain, other: Chain, finality: FinalityTags
) -> None:
    """An endpoint that reports no final block still reports its head."""
    other.start_at(150)
    nodes = DevNode(chain), DevNode(other, limits=Limits(finality=finality))
    async with family_source(subject, *nodes) as source:
        found = await source.latest("b", 2.0)
        assert found is not None
        head, final = found
        assert (head.height, head.hash) == (150, subject.hash_of(chain.hash(150)))
        assert head.parent_hash == subject.hash_of(chain.hash(149))
        final_height = 150 - subject.finality_depth if finality is FinalityTags.DEPTH else None
        assert (final.height if final else None) == final_height


async def test_headers_of_one_endpoint(subject: Subject, chain: Chain, other: Chain) -> None:
    other.start_at(150)
    async with family_source(subject, DevNode(chain), DevNode(other)) as source:
        found = await source.headers("b", [148, 149, 150, 151], 2.0)
        assert {at: each.hash for at, each in found.items()} == {
            at: subject.hash_of(chain.hash(at)) for at in (148, 149, 150)
        }


async def test_hashes(subject: Subject, chain: Chain) -> None:
    async with family_source(subject, DevNode(chain, faults="null@199")) as source:
        expected = {at: subject.hash_of(chain.hash(at)) for at in range(195, 201)}
        assert await source.hashes(Span(195, 230)) == expected


async def test_the_hash_of_a_block(subject: Subject, chain: Chain) -> None:
    async with family_source(subject, DevNode(chain, faults="null@17")) as source:
        assert await source.block_hash(17) == subject.hash_of(chain.hash(17))


# How much at once


async def test_the_unit_adapts_to_what_the_endpoint_accepts(subject: Subject, chain: Chain) -> None:
    async with family_source(subject, DevNode(chain)) as source:
        units = [source.unit]
        for _ in range(4):
            await source.fetch(Span(1, source.unit))
            units.append(source.unit)
        assert tuple(units) == subject.first_units
    async with family_source(subject, DevNode(chain, limits=Limits(max_batch=6))) as source:
        for _ in range(3):
            await source.fetch(Span(1, source.unit))
        assert source.unit <= 6


async def test_a_second_opinion(subject: Subject, chain: Chain, other: Chain) -> None:
    async with family_source(subject, DevNode(chain), DevNode(other)) as source:
        (one,) = await source.fetch(Span(5, 5))
        (two,) = await source.fetch(Span(5, 5), avoid={one.endpoint})
        assert one.endpoint != two.endpoint
