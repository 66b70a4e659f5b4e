"""Jobs: the function that a run calls for some partitions.

A job is a function of a chunk and a context, async or plain. It runs at least once for every
partition; effects that go through the context's transaction happen exactly once.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from gapless.core.chunk import chunk_id, run_key
from gapless.core.errors import UsageError
from gapless.core.partitions import Partition, Scheme
from gapless.core.ranges import Span
from gapless.core.retry import RetryPolicy
from gapless.core.selector import Selection

JobFunction = Callable[..., Any]
SHORTEST_TIMEOUT = 0.1


@dataclass(frozen=True)
class Chunk:
    """The partitions of one run, in order, without those that earlier runs finished."""

    backfill_id: str
    index: int
    selection: Selection
    positions: Span
    whole: Span  # all positions of the chunk, including those of other calls and earlier runs

    def __iter__(self) -> Iterator[Partition]:
        return self.selection.slice(*self.positions)

    def __len__(self) -> int:
        return self.positions.size

    @property
    def id(self) -> str:
        return chunk_id(self.backfill_id, self.index)

    @property
    def run_key(self) -> str:
        return run_key(self.backfill_id, self.index)

    @property
    def first(self) -> Partition:
        return self.selection.partition(self.positions.first)

    @property
    def last(self) -> Partition:
        return self.selection.partition(self.positions.last)

    @property
    def spans(self) -> tuple[Span, ...]:
        """The chunk's ordinals (such as heights) as inclusive spans; usually there is one."""
        return self.selection.ordinals.slice(*self.positions).spans

    @property
    def whole_spans(self) -> tuple[Span, ...]:
        """Like `spans`, but of the whole chunk, including what earlier runs finished."""
        return self.selection.ordinals.slice(*self.whole).spans


@dataclass(frozen=True)
class Job:
    """A function, the partitions it works on and its retry policy."""

    function: JobFunction
    name: str
    version: int
    partitions: Scheme
    retry: RetryPolicy
    chunk_size: int
    lease_seconds: float
    timeout: float | None = None

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self.function(*arguments, **named)

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)


def job(
    *,
    partitions: Scheme,
    retry: RetryPolicy | str = "backoff",
    name: str | None = None,
    version: int = 1,
    chunk_size: int | None = None,
    lease_seconds: float = 60.0,
    timeout: float | None = None,
) -> Callable[[JobFunction], Job]:
    """Turns a function `(chunk, context)` into a job.

    Workers find it by name, `module:function` unless given, and by version: raise the version
    when a running backfill must not continue with the new code. A run that takes longer than
    `timeout` seconds fails.
    """

    def decorate(function: JobFunction) -> Job:
        _require_function(function)
        return Job(
            function,
            name or f"{function.__module__}:{function.__qualname__}",
            version,
            partitions,
            RetryPolicy.named(retry) if isinstance(retry, str) else retry,
            at_least(1, "chunk_size", chunk_size or partitions.default_chunk_size),
            at_least(0.1, "lease_seconds", lease_seconds),
            None if timeout is None else at_least(SHORTEST_TIMEOUT, "timeout", timeout),
        )

    return decorate


def _require_function(function: object) -> None:
    """Refuses generators and callables that are not functions."""
    name = getattr(function, "__qualname__", None) or type(function).__name__
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise UsageError(
            f"`{name}` is a generator, so calling it does not run it",
            hint="remove `yield`; report progress with `context.progress`",
        )
    if isinstance(function, partial) or not inspect.isroutine(function):
        raise UsageError(
            f"a job must be a function, and `{name}` is not",
            hint="write a `def` or `async def` that calls it",
        )


def at_least(bound: float, what: str, value: Any) -> Any:
    """The value, if it is not below the bound."""
    if value < bound:
        raise UsageError(f"{what} is {value}", hint=f"it must be at least {bound}")
    return value
