"""Stored hashes compared with those of a node."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from gapless.chains.evm.tables import BLOCKS
from gapless.core.ranges import RangeSet, Span
from gapless.sinks import Sink
from gapless.verification import Finding, compare
from gapless.verification.against import sampled
from tests.conformance.sink.stage import CHAIN_ID, FORK, batch, rows_of


async def test_a_different_branch_is_found(sink: Sink) -> None:
    await sink.write(batch(10, 30), 5)

    async def hash_of(height: int) -> bytes:
        found: bytes = rows_of("blocks", Span(height, height), branch=1)["hash"][0].as_py()
        return found

    assert await compare(sink, BLOCKS, CHAIN_ID, [10, 15, FORK - 1], hash_of) == []
    words = "the node has a different block at this height"
    assert await compare(sink, BLOCKS, CHAIN_ID, [10, FORK, FORK + 1, 30, 35], hash_of) == [
        Finding("hash", "blocks", Span(FORK, FORK + 1), words),
        Finding("hash", "blocks", Span(30, 30), words),
    ]


@given(st.sets(st.integers(0, 200)), st.integers(2, 20), st.randoms())
def test_a_sample_includes_both_ends(members: set[int], count: int, chance: Random) -> None:
    found = sampled(RangeSet.from_members(members), count, chance)
    assert set(found) <= members
    assert found == sorted(set(found))
    assert len(found) == min(count, len(members))
    if members:
        assert (found[0], found[-1]) == (min(members), max(members))
