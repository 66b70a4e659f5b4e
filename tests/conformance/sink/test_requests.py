"""A sink remembers which blocks were requested of it."""

from __future__ import annotations

import asyncio

import pytest

from gapless.chains.opening import open_sink
from gapless.core.anchors import Anchor
from gapless.core.ranges import Span
from gapless.sinks import Request, Sink
from tests.conformance.sink.stage import CHAIN_ID, batch, examine

HEADERS = frozenset({"blocks"})
LOGS = frozenset({"blocks", "logs"})
LINKED = frozenset({"link", "receipts_root"})
ANCHORS = frozenset({Anchor(5, b"\x05" * 32), Anchor(15, b"\xff" * 32)})


def wanted(first: int, last: int, datasets: frozenset[str] = HEADERS) -> Request:
    return Request(Span(first, last), datasets)


async def spans(sink: Sink) -> list[tuple[int, int]]:
    return [(*each.span,) for each in await sink.requests(CHAIN_ID)]


async def test_a_request_is_remembered(sink: Sink, other: Sink) -> None:
    everything = Request(Span(0, 19), LOGS, LINKED, ANCHORS)
    assert await sink.requests(CHAIN_ID) == []
    await sink.request(CHAIN_ID, everything)
    await sink.request(CHAIN_ID, everything)
    assert await sink.requests(CHAIN_ID) == await other.requests(CHAIN_ID) == [everything]
    assert await sink.requests(5) == []


async def test_requests_outlive_the_process_that_made_them(target: str) -> None:
    async with await open_sink(target) as sink:
        await sink.request(CHAIN_ID, Request(Span(0, 19), LOGS, LINKED, ANCHORS))
        before = await sink.requests(CHAIN_ID)
    async with await open_sink(target) as sink:
        assert await sink.requests(CHAIN_ID) == before


async def test_overlapping_and_touching_requests_of_one_nature_are_merged(sink: Sink) -> None:
    for first, last in ((20, 29), (0, 9), (40, 49), (5, 14), (15, 19)):
        await sink.request(CHAIN_ID, wanted(first, last))
    assert await spans(sink) == [(0, 29), (40, 49)]
    await sink.request(CHAIN_ID, wanted(28, 35, LOGS))
    await sink.request(CHAIN_ID, Request(Span(28, 35), HEADERS, LINKED))
    await sink.request(CHAIN_ID, Request(Span(30, 31), HEADERS, frozenset(), ANCHORS))
    assert await spans(sink) == [(0, 29), (28, 35), (28, 35), (30, 31), (40, 49)]


async def test_a_withdrawn_request_is_forgotten(sink: Sink) -> None:
    await sink.request(CHAIN_ID, wanted(0, 29))
    await sink.request(CHAIN_ID, wanted(12, 14, LOGS))
    await sink.withdraw(CHAIN_ID, Span(10, 19))
    assert await sink.requests(CHAIN_ID) == [wanted(0, 9), wanted(20, 29)]
    await sink.withdraw(CHAIN_ID, Span(0, 100))
    assert await sink.requests(CHAIN_ID) == []
    await sink.withdraw(CHAIN_ID, Span(0, 100))


async def test_anchors_of_withdrawn_blocks_are_removed_too(sink: Sink) -> None:
    await sink.request(CHAIN_ID, Request(Span(0, 19), HEADERS, LINKED, ANCHORS))
    await sink.withdraw(CHAIN_ID, Span(10, 19))
    (left,) = await sink.requests(CHAIN_ID)
    assert left == Request(Span(0, 9), HEADERS, LINKED, frozenset({Anchor(5, b"\x05" * 32)}))


async def test_a_chain_that_was_only_requested_is_listed(sink: Sink) -> None:
    await sink.request(5, wanted(0, 9))
    assert await sink.chains() == [5]
    await sink.write(batch(0, 9), 1)
    assert await sink.chains() == [5, CHAIN_ID]
    await sink.request(CHAIN_ID, wanted(0, 9))
    assert await sink.chains() == [5, CHAIN_ID]
    await sink.withdraw(5, Span(0, 9))
    assert await sink.chains() == [CHAIN_ID]


async def test_requests_and_blocks_do_not_affect_each_other(sink: Sink) -> None:
    await sink.write(batch(0, 9), 1)
    before = await sink.stored(CHAIN_ID)
    await sink.request(CHAIN_ID, wanted(0, 19))
    assert await sink.stored(CHAIN_ID) == before
    await sink.retract(CHAIN_ID, Span(5, 9), 2)
    await sink.write(batch(5, 12), 2)
    assert await spans(sink) == [(0, 19)]
    await sink.withdraw(CHAIN_ID, Span(0, 4))
    assert [it.span for it in await sink.stored(CHAIN_ID) if it.dataset == "logs"] == [
        (0, 4),
        (5, 12),
    ]
    await examine(sink)


async def test_concurrent_requests_are_all_remembered(sink: Sink, other: Sink) -> None:
    await asyncio.gather(
        *((sink, other)[at % 2].request(CHAIN_ID, wanted(10 * at, 10 * at + 4)) for at in range(8))
    )
    assert await spans(sink) == [(10 * at, 10 * at + 4) for at in range(8)]


@pytest.mark.parametrize(
    ("impossible", "complaint"),
    [
        (Request(Span(9, 0), HEADERS), "not a range of blocks"),
        (Request(Span(-1, 5), HEADERS), "not a range of blocks"),
        (Request(Span(0, 2**63), HEADERS), "not a range of blocks"),
        (Request(Span(0, 5), frozenset()), "a request must name known tables"),
        (Request(Span(0, 5), frozenset({"no such table"})), "a request must name known tables"),
        (
            Request(Span(0, 5), HEADERS, frozenset({"two words"})),
            "the name of a check must be one word",
        ),
    ],
)
async def test_a_request_that_cannot_be_met_is_refused(
    sink: Sink, impossible: Request, complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        await sink.request(CHAIN_ID, impossible)
    assert await sink.chains() == []
