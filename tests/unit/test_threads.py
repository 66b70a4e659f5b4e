"""Functions on threads: the priority lane first, and what has begun runs to its end."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest

from gapless.lanes import Lane, current_lane, in_lane
from gapless.threads import LaneExecutor, LaneLock, SerialThread


@pytest.fixture
def thread() -> Iterator[SerialThread]:
    thread = SerialThread("gapless-test")
    yield thread
    thread.end()


@pytest.fixture
def executor() -> Iterator[LaneExecutor]:
    with LaneExecutor(1, "gapless-test") as executor:
        yield executor


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


async def test_the_priority_lane_overtakes_all_that_waits(thread: SerialThread) -> None:
    begun, go_on, seen = threading.Event(), threading.Event(), list[str]()

    def work() -> None:
        begun.set()
        go_on.wait()

    calls = [asyncio.create_task(thread.run(work))]
    await asyncio.to_thread(begun.wait)
    for name in ("a", "b", "HEAD", "c", "NEXT"):
        with in_lane(Lane.PRIORITY if name.isupper() else Lane.ORDINARY):
            calls.append(asyncio.create_task(thread.run(seen.append, name)))
    await asyncio.sleep(0)
    go_on.set()
    await asyncio.gather(*calls)
    assert seen == ["HEAD", "NEXT", "a", "b", "c"]


async def test_a_function_is_in_the_lane_of_its_caller(thread: SerialThread) -> None:
    with in_lane(Lane.PRIORITY):
        assert await thread.run(current_lane) is Lane.PRIORITY
    assert await thread.run(current_lane) is Lane.ORDINARY


async def test_a_thread_ends_after_all_that_was_asked_for() -> None:
    thread, seen = SerialThread("gapless-test"), list[int]()
    calls = [asyncio.create_task(thread.run(seen.append, number)) for number in range(9)]
    await asyncio.sleep(0)
    with in_lane(Lane.PRIORITY):
        thread.end()
    await asyncio.gather(*calls)
    assert seen == [*range(9)]


async def test_one_who_is_cancelled_again_and_again_waits_for_the_end(thread: SerialThread) -> None:
    """A job that lost its lease is cancelled, and once more when its worker drains."""
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


def test_an_executor_returns_and_raises_what_the_function_does(executor: LaneExecutor) -> None:
    assert executor.submit(divmod, 7, 2).result() == (3, 1)
    with pytest.raises(ZeroDivisionError):
        executor.submit(divmod, 7, 0).result()
    assert [*executor.map(abs, (-1, -2))] == [1, 2]


def test_an_executor_prefers_the_priority_lane_and_skips_what_was_cancelled(
    executor: LaneExecutor,
) -> None:
    begun, go_on, seen = threading.Event(), threading.Event(), list[str]()

    def work() -> None:
        begun.set()
        go_on.wait()

    first = executor.submit(work)
    begun.wait()
    calls = {}
    for name in ("a", "b", "HEAD", "c", "NEXT"):
        with in_lane(Lane.PRIORITY if name.isupper() else Lane.ORDINARY):
            calls[name] = executor.submit(seen.append, name)
    assert calls["b"].cancel()
    assert not first.cancel()
    go_on.set()
    calls["c"].result()
    assert seen == ["HEAD", "NEXT", "a", "c"]


def test_an_executor_that_is_shut_down_ends_its_work_or_cancels_it_and_takes_no_more() -> None:
    for cancel in (False, True):
        begun, go_on, seen = threading.Event(), threading.Event(), list[int]()

        def work(begun: threading.Event = begun, go_on: threading.Event = go_on) -> None:
            begun.set()
            go_on.wait()

        executor = LaneExecutor(2, "gapless-test")
        working = [executor.submit(work) for _ in range(2)]
        begun.wait()
        for number in range(9):
            executor.submit(seen.append, number)
        executor.shutdown(wait=False, cancel_futures=cancel)
        with pytest.raises(RuntimeError, match="shut down"):
            executor.submit(print)
        go_on.set()
        executor.shutdown()
        assert all(each.done() for each in working)
        assert len(seen) == (0 if cancel else 9)


def test_all_threads_of_an_executor_work_at_the_same_time() -> None:
    met = threading.Barrier(3)
    with LaneExecutor(3, "gapless-test") as executor:
        assert sorted(executor.map(lambda _: met.wait(timeout=10), range(3))) == [0, 1, 2]


def test_a_lock_is_held_by_one_thread_and_then_by_the_priority_lane() -> None:
    lock, seen = LaneLock(), list[str]()

    def use(name: str) -> None:
        with in_lane(Lane.PRIORITY if name.isupper() else Lane.ORDINARY), lock:
            seen.append(name)

    threads = [threading.Thread(target=use, args=(name,)) for name in ("a", "b", "HEAD", "c")]
    with lock:
        for waiting, thread in enumerate(threads, 1):
            thread.start()
            while len(lock._waiting) < waiting:
                time.sleep(0.001)
        assert seen == []
    for thread in threads:
        thread.join()
    assert seen == ["HEAD", "a", "b", "c"]
    with lock:
        pass


def test_a_lock_is_free_after_an_error_inside() -> None:
    lock = LaneLock()
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), lock:
            divmod(1, 0)
