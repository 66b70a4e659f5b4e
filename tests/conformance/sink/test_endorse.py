"""Ranges that were proven again get a better record; their rows and fences do not change."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gapless.core.errors import FencedOff
from gapless.core.ranges import Span
from gapless.sinks import Sink, Stored
from tests.conformance.sink.stage import (
    CHAIN_ID,
    EVERYTHING,
    HEADERS,
    PROVEN,
    batch,
    examine,
    held,
    rows_of,
)

MORE = frozenset({"hash", "prices"})
PRICES = frozenset({"prices"})  # what every batch of these tests leaves unproven
NOTHING: frozenset[str] = frozenset()


async def seen(sink: Sink, span: Span, names: tuple[str, ...] = EVERYTHING) -> list[Stored]:
    return [it for it in await sink.stored(CHAIN_ID, span) if it.dataset in names]


async def proofs(sink: Sink, name: str = "blocks") -> list[tuple[Span, int, frozenset[str]]]:
    return [
        (it.span, it.fence, it.proven) for it in await sink.stored(CHAIN_ID) if it.dataset == name
    ]


async def test_an_endorsed_range_has_more_proofs(sink: Sink) -> None:
    await sink.write(batch(0, 9), 5)
    before = await sink.stored(CHAIN_ID)
    await sink.endorse(CHAIN_ID, await seen(sink, Span(0, 9)), MORE, frozenset({"roots"}), 5)
    assert await sink.stored(CHAIN_ID) == [
        replace(it, proven=PROVEN | MORE, unproven=frozenset({"roots"})) for it in before
    ]
    assert (await held(sink, "logs")).equals(rows_of("logs", Span(0, 9)))


async def test_what_was_proven_once_stays_proven(sink: Sink) -> None:
    await sink.write(batch(0, 9), 5)
    await sink.endorse(CHAIN_ID, await seen(sink, Span(0, 9)), NOTHING, PROVEN | {"hash"}, 6)
    for record in await sink.stored(CHAIN_ID):
        assert (record.proven, record.unproven) == (PROVEN, PRICES | {"hash"})


async def test_only_the_part_that_was_seen_is_endorsed(sink: Sink) -> None:
    await sink.write(batch(0, 9), 5)
    await sink.write(batch(10, 19), 6)
    await sink.endorse(
        CHAIN_ID, await seen(sink, Span(3, 12), ("blocks", "logs")), MORE, NOTHING, 6
    )
    for name in ("blocks", "logs"):
        assert await proofs(sink, name) == [
            (Span(0, 2), 5, PROVEN),
            (Span(3, 9), 5, PROVEN | MORE),
            (Span(10, 12), 6, PROVEN | MORE),
            (Span(13, 19), 6, PROVEN),
        ]
    assert await proofs(sink, "transactions") == [
        (Span(0, 9), 5, PROVEN),
        (Span(10, 19), 6, PROVEN),
    ]
    for name in EVERYTHING:
        assert (await held(sink, name)).equals(rows_of(name, Span(0, 19)))
    await examine(sink)


async def test_endorsed_neighbours_become_one_record(sink: Sink) -> None:
    await sink.write(batch(0, 4), 5)
    await sink.write(batch(5, 9, proven=PROVEN | MORE), 5)
    await sink.write(batch(10, 14), 5)
    for span in (Span(0, 4), Span(10, 14)):
        await sink.endorse(CHAIN_ID, await seen(sink, span), MORE, NOTHING, 5)
    whole = await sink.stored(CHAIN_ID, Span(5, 9))
    assert {it.unproven for it in whole} == {PRICES}  # as the batch claimed
    await sink.endorse(CHAIN_ID, whole, MORE, NOTHING, 5)
    assert await proofs(sink) == [(Span(0, 14), 5, PROVEN | MORE)]


async def test_gaps_in_what_was_seen_stay_gaps(sink: Sink) -> None:
    await sink.write(batch(0, 4, tables=HEADERS), 5)
    await sink.write(batch(10, 14), 5)
    await sink.endorse(CHAIN_ID, await seen(sink, Span(0, 30)), MORE, NOTHING, 5)
    assert [it[0] for it in await proofs(sink, "blocks")] == [(0, 4), (10, 14)]
    assert [it[0] for it in await proofs(sink, "logs")] == [(10, 14)]
    await sink.endorse(CHAIN_ID, [], MORE, NOTHING, 5)


async def test_repeating_an_endorsement_changes_nothing(sink: Sink) -> None:
    await sink.write(batch(0, 9), 5)
    before = await seen(sink, Span(2, 6))
    await sink.endorse(CHAIN_ID, before, MORE, NOTHING, 5)
    stored = await sink.stored(CHAIN_ID)
    await sink.endorse(CHAIN_ID, before, MORE, NOTHING, 5)  # the reply was lost
    assert await sink.stored(CHAIN_ID) == stored


async def test_an_older_fence_cannot_endorse(sink: Sink) -> None:
    await sink.write(batch(0, 9), 5)
    before = await sink.stored(CHAIN_ID)
    with pytest.raises(FencedOff, match="changed under fence 5"):
        await sink.endorse(CHAIN_ID, before, MORE, NOTHING, 4)
    await sink.retract(CHAIN_ID, Span(9, 9), 7)
    with pytest.raises(FencedOff, match="changed under fence 7"):
        await sink.endorse(CHAIN_ID, before, MORE, NOTHING, 6)
    assert {it.proven for it in await sink.stored(CHAIN_ID)} == {PROVEN}


@pytest.mark.parametrize("change", ["rewritten", "retracted", "added", "another branch"])
async def test_ranges_that_changed_meanwhile_are_not_endorsed(sink: Sink, change: str) -> None:
    await sink.write(batch(20, 24, tables=HEADERS), 5)
    await sink.write(batch(27, 29), 5)
    before = await seen(sink, Span(20, 29))
    if change == "rewritten":
        await sink.write(batch(21, 22, tables=HEADERS), 6)
    elif change == "retracted":
        await sink.retract(CHAIN_ID, Span(21, 21), 6)
    elif change == "added":
        await sink.write(batch(25, 26), 5)
    else:
        await sink.write(batch(20, 24, branch=1, tables=HEADERS), 5)
    after = await sink.stored(CHAIN_ID)
    with pytest.raises(FencedOff, match="changed"):
        await sink.endorse(CHAIN_ID, before, MORE, NOTHING, 9)
    assert await sink.stored(CHAIN_ID) == after


async def test_changes_elsewhere_do_not_matter(sink: Sink) -> None:
    await sink.write(batch(0, 19), 5)
    before = await seen(sink, Span(4, 8))
    await sink.write(batch(9, 12), 7)
    await sink.retract(CHAIN_ID, Span(0, 2), 8)
    await sink.endorse(CHAIN_ID, before, MORE, NOTHING, 6)
    assert await proofs(sink, "logs") == [
        (Span(3, 3), 5, PROVEN),
        (Span(4, 8), 5, PROVEN | MORE),
        (Span(9, 12), 7, PROVEN),
        (Span(13, 19), 5, PROVEN),
    ]
    await sink.write(batch(4, 8), 6)


async def test_records_are_listed_in_full(sink: Sink) -> None:
    await sink.write(batch(0, 9), 5)
    await sink.write(batch(10, 19, tables=HEADERS), 6)
    whole = await sink.stored(CHAIN_ID)
    assert await sink.records(CHAIN_ID, Span(8, 12)) == whole
    assert await sink.records(CHAIN_ID, Span(3, 3)) == [it for it in whole if it.fence == 5]
    assert await sink.records(CHAIN_ID, Span(15, 99)) == [it for it in whole if it.fence == 6]
    assert await sink.records(CHAIN_ID, Span(20, 99)) == []
    assert await sink.records(5, Span(0, 99)) == []
