"""Folding the events reproduces the tables; any difference is named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gapless.core.backfill import Lifecycle, State
from gapless.core.chunk import Status
from gapless.core.events import (
    BackfillChunkPlanned,
    BackfillCompacted,
    BackfillStateChanged,
    BackfillStopRequested,
    ChunkEnded,
    ChunkFailed,
    Event,
)
from gapless.core.projection import ChunkFacts, Projection, digest

HISTORY: list[Event] = [
    BackfillChunkPlanned("bf", 0, 0, 9),
    BackfillChunkPlanned("bf", 1, 10, 19),
    BackfillStateChanged("bf", "PENDING", "RUNNING", 1),
    ChunkFailed("bf", 0, 1, 1, 0, "Boom", "it broke"),
    ChunkFailed("bf", 0, 3, 2, 0, "Boom", "it broke"),
    ChunkEnded("bf", 1, Status.COMPLETE),
    BackfillStopRequested("bf", "cancel"),
]
FACTS = [ChunkFacts(0, 0, 9, attempts=2), ChunkFacts(1, 10, 19, ended=Status.COMPLETE)]


def folded(*events: Event) -> Projection:
    projection = Projection(Lifecycle("bf"))
    for event in events:
        projection.apply(event)
    return projection


def test_folding_reproduces_the_tables() -> None:
    projection = folded(*HISTORY)
    assert projection.lifecycle == Lifecycle("bf", State.RUNNING, 1, projection.lifecycle.stopping)
    assert list(projection.chunks.values()) == FACTS
    assert projection.differences(projection.lifecycle, FACTS) == []


@pytest.mark.parametrize(
    ("index", "change"),
    [
        (0, {"attempts": 1}),
        (0, {"lost": 1}),
        (0, {"ended": Status.ABANDONED}),
        (1, {"ended": None}),
        (1, {"ended": Status.CANCELLED}),
        (1, {"first": 11}),
        (1, {"last": 18}),
    ],
)
def test_a_chunk_with_any_difference_is_named(index: int, change: dict[str, object]) -> None:
    tables = list(FACTS)
    tables[index] = replace(FACTS[index], **change)  # type: ignore[arg-type]
    projection = folded(*HISTORY)
    (found,) = projection.differences(projection.lifecycle, tables)
    assert found == f"chunk is {tables[index]}, its events say {FACTS[index]}"


def test_a_missing_or_unknown_chunk_is_named() -> None:
    projection = folded(*HISTORY)
    (found,) = projection.differences(projection.lifecycle, FACTS[:1])
    assert found.startswith("chunk is None, its events say 1 [10, 19] COMPLETE")
    (found,) = projection.differences(projection.lifecycle, [*FACTS, ChunkFacts(2, 20, 29)])
    assert found == "chunk is 2 [20, 29] open, 0 attempts, 0 lost, its events say None"


def test_a_different_state_is_named() -> None:
    projection = folded(*HISTORY)
    (found,) = projection.differences(Lifecycle("bf", State.SUCCEEDED, 2), FACTS)
    assert "SUCCEEDED" in found
    assert "RUNNING" in found


@pytest.mark.parametrize(
    "stray", [ChunkEnded("bf", 5, Status.COMPLETE), ChunkFailed("bf", 5, 1, 1, 0, "Boom", "x")]
)
def test_an_event_of_a_chunk_that_was_never_planned_is_named(stray: Event) -> None:
    projection = folded(*HISTORY, stray)
    (found,) = projection.differences(projection.lifecycle, FACTS)
    assert "never planned" in found
    assert "chunk_index=5" in found


def test_a_compacted_backfill_must_match_its_digest() -> None:
    ended = [replace(fact, ended=Status.COMPLETE) for fact in FACTS]
    projection = folded(BackfillCompacted("bf", 5, 2, 0, 0, digest(ended)))
    assert projection.differences(projection.lifecycle, ended) == []
    assert projection.differences(projection.lifecycle, FACTS) == [
        "chunks differ from the compacted snapshot"
    ]


def test_failed_runs_are_counted_until_a_compaction_says_their_number() -> None:
    assert folded(*HISTORY).failed_runs == 2
    assert folded(BackfillCompacted("bf", 5, 2, 0, 0, "digest", 2)).failed_runs == 2
    older = BackfillCompacted("bf", 5, 2, 0, 0, "digest")
    assert folded(older).failed_runs is None


def test_the_digest_depends_on_every_fact_and_their_order() -> None:
    variants = [
        FACTS,
        FACTS[::-1],
        FACTS[:1],
        [],
        [replace(FACTS[0], lost=1), FACTS[1]],
        [replace(FACTS[0], attempts=1), FACTS[1]],
        [FACTS[0], replace(FACTS[1], ended=Status.ABANDONED)],
        [FACTS[0], replace(FACTS[1], last=20)],
    ]
    assert len({digest(variant) for variant in variants}) == len(variants)
