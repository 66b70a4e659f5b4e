"""Whatever a job raises or returns, its run ends with an outcome, and the worker continues."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

import gapless
from gapless.core.errors import LeaseLost, StopRequested
from gapless.ledger.records import MESSAGE_LIMIT, Backfill, DeadLetter
from gapless.runtime.engine import Engine
from tests.conformance.engine.conftest import QUICK
from tests.support import Home
from tests.waiting import eventually

ONE = gapless.Range("0", "0")
ONCE = gapless.RetryPolicy.backoff(base=0.0, max_delay=0.0, retries=0)


async def ended(engine: Engine, job: gapless.Job, **options: Any) -> Backfill:
    handle = await engine.backfill(job, ONE, **options)
    return await asyncio.wait_for(handle.wait(), 30)


async def dead(engine: Engine, job: gapless.Job) -> DeadLetter:
    """The dead letter of a failing job, on an engine that continues anyway."""
    backfill = await ended(engine, job)
    assert backfill.state == "FAILED"

    @gapless.job(partitions=gapless.block_heights(), name="next")
    async def following(chunk: gapless.Chunk, context: gapless.Context) -> None: ...

    assert (await ended(engine, following)).state == "SUCCEEDED"
    (letter,) = await engine.ledger.dead(backfill.id)
    return letter


def raising(make: Callable[[], BaseException], *, on_thread: bool) -> gapless.Job:
    declare = gapless.job(partitions=gapless.block_heights(), retry=ONCE, name="raises")

    def plain(chunk: gapless.Chunk, context: gapless.BlockingContext) -> None:
        raise make()

    async def on_loop(chunk: gapless.Chunk, context: gapless.Context) -> None:
        raise make()

    return declare(plain if on_thread else on_loop)


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError

    __repr__ = __str__


class Custom(BaseException):
    pass


def odd_names() -> Exception:
    class Odd(Exception):
        pass

    Odd.__qualname__ = Odd.__module__ = "\ud800\0"
    return Odd("text")


class Falsy(gapless.PermanentError):
    def __bool__(self) -> bool:
        raise ZeroDivisionError

    def __len__(self) -> int:
        return 0


class Untraceable(Exception):
    @property
    def __traceback__(self) -> Any:  # type: ignore[override]
        raise ZeroDivisionError


class Classless(Exception):
    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise ZeroDivisionError


class OddGroup(ExceptionGroup[Exception]):
    exceptions: Any = ()


class Ring(ExceptionGroup[Exception]):
    @property
    def exceptions(self) -> Any:
        return (self,)


def in_a_circle() -> Exception:
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    return one


RAISED: dict[str, tuple[Callable[[], BaseException], str, str]] = {
    "neither true nor false": (lambda: Falsy("x"), "Falsy", "x"),
    "NUL": (lambda: ValueError("a\0b"), "ValueError", r"a\x00b"),
    "surrogate": (lambda: ValueError("a\ud800b"), "ValueError", r"a\ud800b"),
    "no text": (Unspeakable, "Unspeakable", "raised ValueError"),
    "odd names": (odd_names, "Odd", "text"),
    "megabytes": (lambda: ValueError("a://b@c/" * 500_000), "ValueError", "a://"),
    "SystemExit": (lambda: SystemExit(3), "SystemExit", "3"),
    "KeyboardInterrupt": (lambda: KeyboardInterrupt("x"), "KeyboardInterrupt", "x"),
    "GeneratorExit": (lambda: GeneratorExit("x"), "GeneratorExit", "x"),
    "CancelledError": (lambda: asyncio.CancelledError("x"), "CancelledError", "x"),
    "a class of its own": (lambda: Custom("x"), "Custom", "x"),
    "a stop that nobody asked for": (lambda: StopRequested("x"), "StopRequested", "x"),
    "a loss that is none": (lambda: LeaseLost("x"), "LeaseLost", "x"),
    "no traceback": (lambda: Untraceable("x"), "Untraceable", "x"),
    "no class": (lambda: Classless("x"), "ZeroDivisionError", ""),
    "a group without members": (lambda: OddGroup("", [KeyError("x")]), "KeyError", "x"),
    "a group of itself": (lambda: Ring("", [KeyError("x")]), "KeyError", "x"),
    "causes in a circle": (in_a_circle, "ValueError", "one"),
    "StopAsyncIteration": (lambda: StopAsyncIteration("x"), "StopAsyncIteration", "x"),
}


@pytest.mark.parametrize("on_thread", [False, True])
@pytest.mark.parametrize("kind", RAISED)
async def test_any_exception_becomes_an_outcome(engine: Engine, kind: str, on_thread: bool) -> None:
    make, name, message = RAISED[kind]
    letter = await dead(engine, raising(make, on_thread=on_thread))
    assert letter.error_class == name
    assert message in letter.error_message
    assert len(letter.error_message) <= MESSAGE_LIMIT


async def test_stop_iteration_fails_a_plain_job(engine: Engine) -> None:
    letter = await dead(engine, raising(lambda: StopIteration("x"), on_thread=True))
    assert letter.error_class == "StopIteration"


async def test_a_job_that_cancels_itself_fails(engine: Engine) -> None:
    @gapless.job(partitions=gapless.block_heights(), retry=ONCE)
    async def cancelled(chunk: gapless.Chunk, context: gapless.Context) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(60)

    assert (await dead(engine, cancelled)).error_class == "CancelledError"


async def test_partition_keys_that_cannot_be_stored_are_an_error_of_the_job(engine: Engine) -> None:
    @gapless.job(partitions=gapless.block_heights(), retry=ONCE)
    async def progresses(chunk: gapless.Chunk, context: gapless.Context) -> None:
        context.progress("\0\ud800")

    assert r"\x00\ud800" in (await dead(engine, progresses)).error_message


@pytest.mark.parametrize("on_thread", [False, True])
async def test_a_group_with_one_error_is_reported_as_that_error(
    engine: Engine, on_thread: bool
) -> None:
    def make() -> BaseException:
        return ExceptionGroup("outer", [ExceptionGroup("inner", [ValueError("bad")])])

    letter = await dead(engine, raising(make, on_thread=on_thread))
    assert (letter.error_class, letter.error_message) == ("ValueError", "bad")


async def test_a_group_with_a_permanent_error_is_permanent(engine: Engine) -> None:
    tries: list[int] = []

    @gapless.job(partitions=gapless.block_heights(), chunk_size=10)
    async def grouped(chunk: gapless.Chunk, context: gapless.Context) -> None:
        tries.append(context.attempt)
        if 7 in chunk:
            bad = gapless.PermanentError("bad block", partition=7)
            raise BaseExceptionGroup("", [KeyError("x"), ExceptionGroup("", [bad])])

    handle = await engine.backfill(grouped, gapless.Range("0", "9"))
    assert (await asyncio.wait_for(handle.wait(), 30)).state == "FAILED"
    (letter,) = await engine.ledger.dead(handle.id)
    assert letter.partitions == ("7",)
    assert letter.error_class == "BaseExceptionGroup" or letter.error_class == "ExceptionGroup"
    assert letter.error_message == "KeyError: 'x'; PermanentError: bad block"
    assert set(tries) == {1}


async def test_a_group_of_stop_requests_gives_the_chunk_back(home: Home) -> None:
    """A task group raises it when its tasks report progress while the worker drains."""
    started = asyncio.Event()

    @gapless.job(partitions=gapless.block_heights(), name="grouped")
    async def grouped(chunk: gapless.Chunk, context: gapless.Context) -> None:
        async def part() -> None:
            while True:
                await asyncio.sleep(0.01)
                context.check()

        started.set()
        async with asyncio.TaskGroup() as group:
            group.create_task(part())
            group.create_task(part())

    async with Engine(home.url, options=QUICK) as engine:
        handle = await engine.backfill(grouped, ONE)
        await started.wait()
    async with Engine(home.url, slots=None) as later:
        (chunk,) = await later.ledger.chunks(handle.id)
    assert (chunk.status, chunk.failures.attempts, chunk.error_class) == ("PENDING", 0, None)


def wrapped(*_: object) -> Any:
    async def work() -> None: ...

    return work()


def generating(*_: object) -> Any:
    def work() -> Iterator[int]:
        yield 1

    return work()


def generating_later(*_: object) -> Any:
    async def work() -> AsyncIterator[int]:
        yield 1

    return work()


async def nested(*_: object) -> Any:
    return wrapped()


class Awaitable:
    def __await__(self) -> Iterator[None]:
        yield


def awaitable(*_: object) -> Any:
    return Awaitable()


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (wrapped, "coroutine"),
        (generating, "generator"),
        (generating_later, "async_generator"),
        (nested, "coroutine"),
        (awaitable, "Awaitable"),
    ],
)
async def test_a_job_that_only_starts_its_work_fails_permanently(
    engine: Engine, function: Callable[..., Any], kind: str
) -> None:
    calls: list[int] = []

    def counted(chunk: gapless.Chunk, context: gapless.BlockingContext) -> Any:
        calls.append(len(chunk))
        return function(chunk, context)

    async def counted_async(chunk: gapless.Chunk, context: gapless.Context) -> Any:
        calls.append(len(chunk))
        return await function(chunk, context)

    declare = gapless.job(partitions=gapless.block_heights(), chunk_size=10, name="begins")
    job = declare(counted_async if function is nested else counted)
    handle = await engine.backfill(job, gapless.Range("0", "9"))
    assert (await asyncio.wait_for(handle.wait(), 30)).state == "FAILED"
    (letter,) = await engine.ledger.dead(handle.id)
    assert letter.error_class == "BadJob"
    assert letter.error_message == f"the job returned a `{kind}`, so its work was not done"
    assert calls == [10]  # no half of it would succeed


async def test_a_worker_keeps_its_slots_whatever_jobs_raise(home: Home) -> None:
    """More runs than slots: each slot would be lost once."""
    kinds = [StopIteration, SystemExit, KeyboardInterrupt, asyncio.CancelledError]

    @gapless.job(partitions=gapless.block_heights(), chunk_size=1, retry=ONCE, name="wild")
    def wild(chunk: gapless.Chunk, context: gapless.BlockingContext) -> None:
        raise kinds[int(chunk.first) % len(kinds)]

    async with Engine(home.url, slots=2, options=QUICK) as engine:
        handle = await engine.backfill(wild, gapless.Range("0", "11"))
        backfill = await asyncio.wait_for(handle.wait(), 30)
        assert backfill.chunks.abandoned == 12
        await eventually(lambda: engine.worker is not None and not engine.worker.running)


@pytest.mark.parametrize("exit_", [SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize("together", ["group", "gather", "alone"])
async def test_a_task_that_calls_exit_fails_its_job(
    engine: Engine, together: str, exit_: type[BaseException]
) -> None:
    async def leave() -> None:
        raise exit_("bad config")

    @gapless.job(partitions=gapless.block_heights(), retry=ONCE)
    async def parent(chunk: gapless.Chunk, context: gapless.Context) -> None:
        if together == "group":
            async with asyncio.TaskGroup() as group:
                group.create_task(leave())
        elif together == "gather":
            asyncio.create_task(asyncio.sleep(3600)).cancel()  # before it has started
            await asyncio.gather(leave(), asyncio.sleep(3600))
        else:
            left = asyncio.create_task(leave())
            await asyncio.wait([left])
            left.result()

    letter = await dead(engine, parent)
    assert (letter.error_class, letter.error_message) == (
        "JobError",
        f"a task of the job raised `{exit_.__name__}`: bad config",
    )


async def test_the_coroutine_state_of_a_jobs_task_can_be_inspected(engine: Engine) -> None:
    """anyio does so with every task of a group that it cancels."""
    states: list[str] = []

    @gapless.job(partitions=gapless.block_heights(), retry=ONCE)
    async def parent(chunk: gapless.Chunk, context: gapless.Context) -> None:
        task = asyncio.create_task(asyncio.sleep(0.01))
        for _ in range(2):
            states.append(inspect.getcoroutinestate(task.get_coro()))  # type: ignore[arg-type]
            await asyncio.sleep(0)

    assert (await ended(engine, parent)).state == "SUCCEEDED"
    assert states == [inspect.CORO_CREATED, inspect.CORO_SUSPENDED]


async def test_a_permanent_error_whose_class_never_calls_its_base(engine: Engine) -> None:
    class Lazy(gapless.PermanentError):
        def __init__(self, why: str) -> None:
            self.why = why

    @gapless.job(partitions=gapless.block_heights(), chunk_size=10)
    async def lazy(chunk: gapless.Chunk, context: gapless.Context) -> None:
        if 7 in chunk:
            raise Lazy("bad block")

    handle = await engine.backfill(lazy, gapless.Range("0", "9"))
    assert (await asyncio.wait_for(handle.wait(), 30)).state == "FAILED"
    (letter,) = await engine.ledger.dead(handle.id)
    assert (letter.error_class, letter.partitions) == ("Lazy", ("7",))
