"""Functions on a thread: a caller never leaves before its function has ended."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from gapless.threads import SerialThread


@pytest.fixture
def thread() -> Iterator[SerialThread]:
    thread = SerialThread("gapless-test")
    yield thread
    thread.end()


async def test_it_returns_and_raises_what_the_function_does(thread: SerialThread) -> None:
    assert await thread.run(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await thread.run(divmod, 7, 0)


async def test_functions_run_in_the_order_of_their_calls(
    thread: SerialThread,
) -> None:
    seen: list[int] = []
    await asyncio.gather(*(thread.run(seen.append, number) for number in range(50)))
    assert seen == [*range(50)]


async def test_a_caller_that_is_cancelled_repeatedly_still_waits_for_the_end(
    thread: SerialThread,
) -> None:
    """A job that lost its lease is cancelled, and again when its worker drains."""
    begun, go_on = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        go_on.wait()

    task = asyncio.create_task(thread.run(work))
    await asyncio.to_thread(begun.wait)
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0.001)
    assert not task.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
