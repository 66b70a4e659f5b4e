"""Fetching in parallel, consuming in order: no result lost or duplicated, no task left running."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.core.errors import StopRequested
from gapless.core.ranges import Span
from gapless.pipeline.ordering import cells, in_order
from gapless.pipeline.stop import StopSignal

SPANS = [Span(at, at) for at in range(40)]


def tasks() -> int:
    return len(asyncio.all_tasks())


def request() -> asyncio.Future[None]:
    """Setting the event requests a stop."""
    return asyncio.get_running_loop().create_future()


@given(st.lists(st.integers(0, 5), min_size=40, max_size=40), st.integers(1, 9))
async def test_results_come_in_order_however_long_each_takes(turns: list[int], most: int) -> None:
    under_way = 0
    peak = 0

    async def fetch(span: Span) -> Span:
        nonlocal under_way, peak
        under_way += 1
        peak = max(peak, under_way)
        for _ in range(turns[span.first]):
            await asyncio.sleep(0)
        under_way -= 1
        return span

    async with aclosing(in_order(fetch, SPANS, lambda: most, StopSignal(request()))) as results:
        assert [result async for result in results] == SPANS
    assert peak <= most


async def test_an_error_comes_after_all_earlier_results_and_leaves_no_task() -> None:
    async def fetch(span: Span) -> Span:
        if span.first == 7:
            raise OSError("seven")
        await asyncio.sleep(0.001 * (span.first % 3))
        return span

    seen: list[int] = []

    async def consume() -> None:
        async with aclosing(in_order(fetch, SPANS, lambda: 6, StopSignal(request()))) as results:
            async for result in results:
                seen.append(result.first)  # noqa: PERF401 - an error comes in between

    before = tasks()
    with pytest.raises(OSError, match="seven"):
        await consume()
    assert seen == list(range(7))
    assert tasks() == before


async def test_cancelling_leaves_no_task() -> None:
    started = asyncio.Event()

    async def fetch(span: Span) -> Span:
        started.set()
        await asyncio.Event().wait()
        return span

    async def consume() -> None:
        async with aclosing(in_order(fetch, SPANS, lambda: 6, StopSignal(request()))) as results:
            async for _ in results:
                pass

    before = tasks()
    consumer = asyncio.create_task(consume())
    await started.wait()
    consumer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await consumer
    assert tasks() == before


async def test_a_stop_starts_nothing_new_and_waits_for_what_is_in_flight() -> None:
    stop, begun, answer = request(), list[int](), asyncio.Event()

    async def fetch(span: Span) -> Span:
        begun.append(span.first)
        if span.first >= 3:
            if not stop.done():
                stop.set_result(None)
            await answer.wait()
        return span

    asyncio.get_running_loop().call_later(0.01, answer.set)
    async with aclosing(in_order(fetch, SPANS, lambda: 6, StopSignal(stop, 20.0))) as results:
        seen = [result.first async for result in results]
    assert seen == begun
    assert 3 < len(seen) <= 9


async def test_results_end_where_an_answer_misses_the_grace_period() -> None:
    stop = request()
    stop.set_result(None)
    hangs = asyncio.Event()

    async def fetch(span: Span) -> Span:
        if span.first == 4:
            await hangs.wait()
        return span

    async def spans() -> list[int]:
        waiting = StopSignal(asyncio.ensure_future(asyncio.sleep(0.01)), 0.01)
        async with aclosing(in_order(fetch, SPANS, lambda: 6, waiting)) as results:
            return [result.first async for result in results]

    before = tasks()
    assert await spans() == [0, 1, 2, 3]
    assert tasks() == before


async def test_an_answer_that_exceeds_the_grace_period_is_cut_off() -> None:
    stop = request()
    stop.set_result(None)
    before = tasks()
    with pytest.raises(StopRequested):
        await StopSignal(stop, 0.01).limit(asyncio.sleep(60))
    assert await StopSignal(stop, 20.0).limit(asyncio.sleep(0.01, "in time")) == "in time"
    assert tasks() == before


@given(
    st.integers(0, 5000),
    st.integers(1, 3000),
    st.integers(1, 400),
    st.one_of(st.none(), st.integers(1, 500)),
    st.integers(1, 300),
)
def test_cells_cover_the_span_and_cross_no_boundary(
    first: int, size: int, batch: int, grid: int | None, unit: int
) -> None:
    span = Span(first, first + size - 1)
    found = list(cells(span, batch, grid, lambda: unit))
    assert [height for cell in found for height in range(cell.first, cell.last + 1)] == list(
        range(span.first, span.last + 1)
    )
    assert all(cell.size <= unit for cell in found)
    if grid:
        assert all(cell.first // grid == cell.last // grid for cell in found)
    else:
        starts = {(cell.first - first) // batch for cell in found}
        assert all((cell.first - first) // batch == (cell.last - first) // batch for cell in found)
        assert len(starts) == -(-size // batch)


def test_units_of_a_batch_have_equal_sizes() -> None:
    sizes = [cell.size for cell in cells(Span(0, 99), 100, None, lambda: 33)]
    assert sizes == [25, 25, 25, 25]
