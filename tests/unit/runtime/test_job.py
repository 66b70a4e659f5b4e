"""Anything that cannot be a job is refused when it is declared."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any

import pytest

import gapless
from gapless.core.errors import UsageError


def generator(chunk: gapless.Chunk, context: gapless.BlockingContext) -> Iterator[int]:
    yield 1


async def async_generator(chunk: gapless.Chunk, context: gapless.Context) -> AsyncIterator[int]:
    yield 1


async def async_function(chunk: gapless.Chunk, context: gapless.Context) -> None: ...


def function(chunk: gapless.Chunk, context: gapless.BlockingContext) -> None: ...


class Callers:
    async def __call__(self, chunk: gapless.Chunk, context: gapless.Context) -> None: ...

    async def method(self, chunk: gapless.Chunk, context: gapless.Context) -> None: ...


@pytest.mark.parametrize("name", [None, "a-name"])
@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (generator, "`generator` is a generator"),
        (async_generator, "`async_generator` is a generator"),
        (partial(generator), "is a generator"),
        (partial(async_function), "a job must be a function, and `partial` is not"),
        (Callers(), "a job must be a function, and `Callers` is not"),
        (Callers, "a job must be a function, and `Callers` is not"),
    ],
)
def test_anything_but_a_function_is_refused(
    wrong: Callable[..., Any], reason: str, name: str | None
) -> None:
    with pytest.raises(UsageError, match=reason) as refused:
        gapless.job(partitions=gapless.block_heights(), name=name)(wrong)
    assert refused.value.hint


def test_functions_and_methods_are_jobs() -> None:
    declare = gapless.job(partitions=gapless.block_heights(), timeout=1.5)
    assert declare(async_function).is_async
    assert declare(Callers().method).is_async
    assert not declare(function).is_async
    assert declare(function).timeout == 1.5


@pytest.mark.parametrize("timeout", [0, -1, 0.01])
def test_a_timeout_has_a_minimum(timeout: float) -> None:
    with pytest.raises(UsageError, match="timeout is"):
        gapless.job(partitions=gapless.block_heights(), timeout=timeout)(function)
