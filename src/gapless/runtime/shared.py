"""Resources that the runs of one worker share because they are expensive to open.

Examples are a connection pool or a sink. Each resource is opened once, by the first run that needs
it, and closed when the worker has stopped, after its last run. Resources are closed in reverse
order, so one may depend on others that it requested itself. Each has its own task that opens and
closes it, because task groups and timeouts inside it must not change tasks, and because a run that
is stopped while it waits must not cancel the opening for the others. A failed opening is not
cached: the next run retries it. Resources that were passed to the worker are closed by their owner.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Self, TypeVar

from gapless.core.errors import StopRequested

T = TypeVar("T")
Opening = Callable[[], AbstractAsyncContextManager[T]]


class _Kept:
    """One shared resource, held open by its own task until it is closed."""

    def __init__(self, key: str, open: Opening[Any]) -> None:  # noqa: A002
        self.value: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.value.add_done_callback(_retrieve)
        self._over = asyncio.Event()
        self._task = asyncio.create_task(self._keep(open), name=f"gapless-shared-{key}")

    async def _keep(self, open: Opening[Any]) -> None:  # noqa: A002
        try:
            async with open() as value:
                self.value.set_result(value)
                await self._over.wait()
        except BaseException as error:
            if self.value.done():
                raise
            if isinstance(error, asyncio.CancelledError):
                self.value.cancel()
                raise
            if isinstance(error, StopIteration):  # which a future cannot hold
                error = RuntimeError(f"opening it raised {error!r}")
            self.value.set_exception(error)

    async def close(self) -> None:
        self._over.set()
        await self._task


class Shared:
    """Shared resources by key, open until the end of the `async with`."""

    def __init__(self, given: Mapping[str, Any] | None = None) -> None:
        self._given = dict(given or {})  # opened and closed by the caller
        self._kept: dict[str, _Kept] = {}
        self._opened: list[_Kept] = []
        self._closed = False

    async def get(self, key: str, open: Opening[T]) -> T:  # noqa: A002
        """The resource of this key; calls `open` if there is none yet."""
        if self._closed:
            raise StopRequested("the worker has stopped")
        if key in self._given:
            found: T = self._given[key]
            return found
        kept = self._kept.get(key)
        if kept is None:
            kept = self._kept[key] = _Kept(key, open)
            kept.value.add_done_callback(lambda value: self._note(key, value))
        value: T = await asyncio.shield(kept.value)
        return value

    def _note(self, key: str, value: asyncio.Future[Any]) -> None:
        if value.cancelled() or value.exception() is not None:
            del self._kept[key]
        else:
            self._opened.append(self._kept[key])

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        """Closes all resources, even if closing one raises; then raises those errors."""
        self._closed = True
        await asyncio.gather(*(kept.value for kept in self._kept.values()), return_exceptions=True)
        problems: list[Exception] = []
        for kept in reversed(self._opened):
            try:
                await kept.close()
            except Exception as problem:  # noqa: BLE001 - the others must be closed too
                problems.append(problem)
        if problems:
            raise ExceptionGroup("shared resources of the worker could not be closed", problems)


def _retrieve(value: asyncio.Future[Any]) -> None:
    """Retrieves the exception, so that asyncio does not warn if no run waits for it."""
    if not value.cancelled():
        value.exception()
