"""Folded records say the same of every height as before, and refuse at least the same writers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from gapless.core.errors import FencedOff
from gapless.core.ranges import RangeSet, Span
from gapless.schema.digest import MODULUS
from gapless.sinks import Stored, records
from gapless.sinks.records import FOLDED_BLOCKS, RangeRecords, Retracted, folded
from tests.evm import SCHEMA

LOWEST, HIGHEST = FOLDED_BLOCKS - 10, FOLDED_BLOCKS + 10
HIGHEST_FENCE = 6
fences = st.integers(1, HIGHEST_FENCE)
digests = st.integers(MODULUS - 9, MODULUS - 1)  # two of them exceed the modulus
proofs = st.sampled_from([frozenset[str](), frozenset({"hash"})])


@st.composite
def tables(draw: st.DrawFn) -> list[Stored]:
    """Records of blocks, some of which have logs of the same or a lower fence."""
    found: list[Stored] = []
    first, parent = LOWEST, b"genesis"
    while first <= HIGHEST:
        last = min(first + draw(st.integers(0, 3)), HIGHEST)
        block = Stored(
            dataset="blocks",
            span=Span(first, last),
            fence=draw(fences),
            rows=last - first + 1,
            digest=draw(digests),
            proven=draw(proofs),
            unproven=draw(proofs),
            parent_hash=parent,
            last_hash=b"%d" % last,
        )
        found.append(block)
        if draw(st.booleans()):
            fence = draw(st.integers(1, block.fence))
            logs = replace(block, dataset="logs", fence=fence, digest=draw(digests))
            found.append(replace(logs, proven=draw(proofs)))
        gap = draw(st.sampled_from([0, 0, 0, 2]))
        parent = draw(st.sampled_from([block.last_hash, block.last_hash, b"unknown"]))
        first = last + 1 + gap
    return draw(st.permutations(found))


lasts = st.integers(LOWEST, HIGHEST)
keeps = st.lists(
    st.tuples(lasts, st.integers(0, 4)).map(lambda it: (it[0], sum(it))), max_size=2
).map(RangeSet)


def of(stored: Sequence[Stored], dataset: str) -> list[Stored]:
    return [it for it in stored if it.dataset == dataset]


def by_height(stored: Sequence[Stored], dataset: str) -> dict[int, Stored]:
    found = of(stored, dataset)
    return {height: it for it in found for height in range(it.span.first, it.span.last + 1)}


def is_refused(stored: Sequence[Stored], height: int, fence: int) -> bool:
    known = RangeRecords(tuple(stored), (Retracted(Span(0, 9), HIGHEST_FENCE),))
    try:
        records.refuse_older(known, Span(height, height), fence, {"blocks"}, SCHEMA)
    except FencedOff:
        return True
    return False


@given(tables(), lasts, keeps)
def test_heights_proofs_and_digests_stay(stored: list[Stored], last: int, keep: RangeSet) -> None:
    after = folded(stored, last, keep, SCHEMA)
    for name in ("blocks", "logs"):
        old, new = by_height(stored, name), by_height(after, name)
        assert old.keys() == new.keys()
        assert sum(it.span.size for it in of(after, name)) == len(new), "no height is there twice"
        for height, record in new.items():
            assert (record.proven, record.unproven) == (old[height].proven, old[height].unproven)
        for record in of(after, name):
            parts = [it for it in of(stored, name) if it.span.overlap(record.span)]
            parts.sort(key=lambda it: it.span)
            assert all(one.last_hash == other.parent_hash for one, other in pairwise(parts))
            assert record.fence == max(it.fence for it in parts)
            assert record.rows == sum(it.rows for it in parts)
            assert record.digest == sum(it.digest for it in parts) % MODULUS
            assert record.parent_hash == parts[0].parent_hash
            assert record.last_hash == parts[-1].last_hash


@given(tables(), lasts, keeps)
def test_what_may_still_change_stays_as_it_is(
    stored: list[Stored], last: int, keep: RangeSet
) -> None:
    after = folded(stored, last, keep, SCHEMA)
    for record in stored:
        if record.span.last > last or RangeSet.of(record.span) & keep:
            assert record in after
    for record in {*after} - {*stored}:
        assert record.span.first // FOLDED_BLOCKS == record.span.last // FOLDED_BLOCKS


def refused_before_and_after(stored: list[Stored], last: int, keep: RangeSet) -> None:
    after = folded(stored, last, keep, SCHEMA)
    for height in range(LOWEST, HIGHEST + 1):
        for fence in range(HIGHEST_FENCE + 1):
            assert is_refused(after, height, fence) or not is_refused(stored, height, fence)


@given(tables(), lasts, keeps)
def test_a_writer_that_was_refused_is_refused(
    stored: list[Stored], last: int, keep: RangeSet
) -> None:
    refused_before_and_after(stored, last, keep)


def test_folding_to_the_lowest_fence_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = records._joined
    monkeypatch.setattr(
        records,
        "_joined",
        lambda one, other: replace(real(one, other), fence=min(one.fence, other.fence)),
    )
    law = given(tables(), lasts, keeps)(refused_before_and_after)
    with pytest.raises(AssertionError):
        settings(database=None, derandomize=True, phases=[Phase.generate])(law)()


@given(tables(), lasts, keeps)
def test_the_anchor_keeps_the_highest_fence(
    stored: list[Stored], last: int, keep: RangeSet
) -> None:
    after = folded(stored, last, keep, SCHEMA)
    blocks = by_height(after, "blocks")
    for height, logs in by_height(after, "logs").items():
        assert logs.fence <= blocks[height].fence


@given(tables(), lasts, keeps)
def test_nothing_is_left_to_fold(stored: list[Stored], last: int, keep: RangeSet) -> None:
    after = folded(stored, last, keep, SCHEMA)
    assert folded(after, last, keep, SCHEMA) == after
    for one, other in pairwise(of(after, "blocks")):
        assert (
            one.span.last + 1 != other.span.first
            or one.last_hash != other.parent_hash
            or (one.proven, one.unproven) != (other.proven, other.unproven)
            or one.span.first // FOLDED_BLOCKS != other.span.last // FOLDED_BLOCKS
            or other.span.last > last
            or keep.overlaps(one.span)
            or keep.overlaps(other.span)
        )
