"""Sinks on top of a blocking library: every call runs on the sink's own thread."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import ParamSpec, Self, TypeVar

import pyarrow as pa

from gapless.core.ranges import RangeSet, Span
from gapless.lanes import Lane, in_lane
from gapless.schema import Table
from gapless.sinks.changes import CHANGES_LIMIT, Change, ChangeReader
from gapless.sinks.sink import (
    EXPIRE_LIMIT,
    FOLD_LIMIT,
    Access,
    Batch,
    Damage,
    Request,
    Stored,
)
from gapless.system import System
from gapless.threads import SerialThread

P = ParamSpec("P")
T = TypeVar("T")


class ThreadedSink(ABC):
    """Implements the contract with plain methods that run on the thread."""

    batch_blocks: int | None = None
    grid: int | None = None

    def __init__(self, id_: str, thread: SerialThread, path: Path, access: Access) -> None:
        self.id = id_
        self._thread = thread
        self._path = path
        self._access = access

    @classmethod
    async def _opened(cls, kind: str, make: Callable[[SerialThread], Self], system: System) -> Self:
        """Return the sink that `make` creates on the thread."""
        thread = system.serial_thread(f"gapless-{kind}-sink")
        try:
            return await thread.run(make, thread)
        except BaseException:
            thread.end()
            raise

    async def write(self, batch: Batch, fence: int) -> None:
        await self._change(self._write, batch, fence)

    async def retract(self, chain_id: int, span: Span, fence: int) -> None:
        await self._change(self._retract, chain_id, span, fence)

    async def stored(self, chain_id: int, span: Span | None = None) -> list[Stored]:
        return await self._run(self._stored, chain_id, span)

    async def records(self, chain_id: int, span: Span) -> list[Stored]:
        return await self._run(self._records, chain_id, span)

    async def endorse(
        self,
        chain_id: int,
        seen: Sequence[Stored],
        proven: frozenset[str],
        unproven: frozenset[str],
        fence: int,
    ) -> None:
        if seen:
            await self._change(self._endorse, chain_id, seen, proven, unproven, fence)

    async def fold(
        self,
        chain_id: int,
        below: int,
        keep: RangeSet = RangeSet(),  # noqa: B008 - immutable
        limit: int = FOLD_LIMIT,
    ) -> int:
        return await self._change(self._fold, chain_id, below, keep, limit)

    async def expire(self, chain_id: int, below: int, limit: int = EXPIRE_LIMIT) -> int:
        return await self._change(self._expire, chain_id, below, limit)

    async def changes(self, chain_id: int, after: int, limit: int = CHANGES_LIMIT) -> list[Change]:
        return await self._run(self._changes, chain_id, after, limit)

    async def add_change_reader(self, chain_id: int, name: str) -> int:
        return await self._change(self._add_change_reader, chain_id, name)

    async def remove_change_reader(self, chain_id: int, name: str) -> None:
        await self._change(self._remove_change_reader, chain_id, name)

    async def change_readers(self, chain_id: int) -> dict[str, ChangeReader]:
        return await self._run(self._change_readers, chain_id)

    async def acknowledge_changes(self, chain_id: int, name: str, through: int) -> None:
        await self._change(self._acknowledge_changes, chain_id, name, through)

    async def chains(self) -> list[int]:
        return await self._run(self._chains)

    async def request(self, chain_id: int, wanted: Request) -> None:
        await self._change(self._request, chain_id, wanted)

    async def requests(self, chain_id: int) -> list[Request]:
        return await self._run(self._requests, chain_id)

    async def withdraw(self, chain_id: int, span: Span) -> None:
        await self._change(self._withdraw, chain_id, span)

    async def read(
        self, table: Table, chain_id: int, span: Span, columns: Collection[str] | None = None
    ) -> pa.Table:
        return await self._run(self._read, table, chain_id, span, columns)

    async def counts(self, table: Table, chain_id: int, span: Span) -> pa.Table:
        return await self._run(self._counts, table, chain_id, span)

    async def damage(self, chain_id: int, span: Span | None = None) -> list[Damage]:
        return await self._run(self._damage, chain_id, span)

    async def strays(self) -> list[str]:
        return await self._run(self._strays)

    async def highest_fence(self) -> int:
        return await self._run(self._highest_fence)

    async def finish(self) -> None:
        await self._change(self._finish)

    async def close(self) -> None:
        with self._translate_errors(), in_lane(Lane.ORDINARY):  # after all pending calls
            await self._thread.run(self._close)
        self._thread.end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def _change(self, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        self._access.admit(f"`{self._path}`")
        return await self._run(function, *arguments, **named)

    async def _run(self, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        with self._translate_errors():
            return await self._thread.run(function, *arguments, **named)

    @abstractmethod
    def _translate_errors(self) -> AbstractContextManager[None]:
        """Raise errors of the library as `SinkError`."""

    @abstractmethod
    def _write(self, batch: Batch, fence: int) -> None: ...

    @abstractmethod
    def _retract(self, chain_id: int, span: Span, fence: int) -> None: ...

    @abstractmethod
    def _stored(self, chain_id: int, span: Span | None) -> list[Stored]: ...

    @abstractmethod
    def _records(self, chain_id: int, span: Span) -> list[Stored]: ...

    @abstractmethod
    def _endorse(
        self,
        chain_id: int,
        seen: Sequence[Stored],
        proven: frozenset[str],
        unproven: frozenset[str],
        fence: int,
    ) -> None: ...

    @abstractmethod
    def _fold(self, chain_id: int, below: int, keep: RangeSet, limit: int) -> int: ...

    @abstractmethod
    def _expire(self, chain_id: int, below: int, limit: int) -> int: ...

    @abstractmethod
    def _changes(self, chain_id: int, after: int, limit: int) -> list[Change]: ...

    @abstractmethod
    def _add_change_reader(self, chain_id: int, name: str) -> int: ...

    @abstractmethod
    def _remove_change_reader(self, chain_id: int, name: str) -> None: ...

    @abstractmethod
    def _change_readers(self, chain_id: int) -> dict[str, ChangeReader]: ...

    @abstractmethod
    def _acknowledge_changes(self, chain_id: int, name: str, through: int) -> None: ...

    @abstractmethod
    def _chains(self) -> list[int]: ...

    @abstractmethod
    def _request(self, chain_id: int, wanted: Request) -> None: ...

    @abstractmethod
    def _requests(self, chain_id: int) -> list[Request]: ...

    @abstractmethod
    def _withdraw(self, chain_id: int, span: Span) -> None: ...

    @abstractmethod
    def _read(
        self, table: Table, chain_id: int, span: Span, columns: Collection[str] | None
    ) -> pa.Table: ...

    @abstractmethod
    def _counts(self, table: Table, chain_id: int, span: Span) -> pa.Table: ...

    def _damage(self, _chain_id: int, _span: Span | None) -> list[Damage]:
        return []

    def _strays(self) -> list[str]:
        return []

    @abstractmethod
    def _highest_fence(self) -> int: ...

    @abstractmethod
    def _finish(self) -> None: ...

    @abstractmethod
    def _close(self) -> None: ...
