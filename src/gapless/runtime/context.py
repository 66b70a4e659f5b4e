"""What a job can see of its run, and how it reports progress.

`progress` is cheap and never waits: it reaches the ledger with the next heartbeat, with the next
transaction or at the end of the run. A crash before that repeats the partitions since then; a job
that must not repeat an effect writes it in a `transaction`, which commits effect and progress
together.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Protocol, TypeVar

from gapless.config import Config
from gapless.core.partitions import Partition
from gapless.ledger import Ledger
from gapless.ledger.database import Row, Transaction
from gapless.runtime.shared import Opening
from gapless.system import System

T = TypeVar("T")


class RunState(Protocol):
    """The run, as seen by its context."""

    write_fence: int
    payload: str | None
    attempt: int
    spec: dict[str, Any]
    ledger: Ledger
    system: System
    config: Callable[[], Config]

    @property
    def stopping(self) -> bool: ...
    async def stop_requested(self) -> None: ...
    def check(self) -> None: ...
    def advance_to(self, partition: Partition) -> None: ...
    def transaction(self, done: Partition | None, *, finishing: bool = False) -> Any: ...
    async def shared(self, key: str, open: Opening[T]) -> T: ...  # noqa: A002


class _Context:
    def __init__(self, run: RunState) -> None:
        self._run = run

    @property
    def fence(self) -> int:
        """The number to pass with every write: the sink refuses it where a higher one has written.

        It is unique to this run and higher than those before, unless the chunk has its own.
        """
        return self._run.write_fence

    @property
    def payload(self) -> str | None:
        """What the process that appended the chunk to a standing backfill tells the job."""
        return self._run.payload

    @property
    def attempt(self) -> int:
        """1 for the first run of the chunk, one more for each retry."""
        return self._run.attempt

    @property
    def spec(self) -> dict[str, Any]:
        """The parameters that the backfill was created with."""
        return self._run.spec

    @property
    def stopping(self) -> bool:
        """Whether the run should end soon: its backfill is cancelled, or its worker drains."""
        return self._run.stopping

    def check(self) -> None:
        """Raises if the run must end now; the job should not catch that."""
        self._run.check()

    def progress(self, partition: Partition) -> None:
        """Records that all partitions up to this one are done; raises if the run must end now."""
        self._run.advance_to(partition)
        self._run.check()


class Context(_Context):
    """The context of an async job."""

    @property
    def ledger(self) -> Ledger:
        """The ledger that the run belongs to."""
        return self._run.ledger

    @property
    def system(self) -> System:
        """The worker's clocks, randomness and threads; a job that uses them can be simulated."""
        return self._run.system

    @property
    def config(self) -> Config:
        """The worker's configuration, which resolves names of endpoints and sinks."""
        return self._run.config()

    async def stop_requested(self) -> None:
        """Waits until the run should end soon."""
        await self._run.stop_requested()

    @asynccontextmanager
    async def transaction(
        self, done: Partition | None = None, *, finishing: bool = False
    ) -> AsyncIterator[Transaction]:
        """A transaction on the ledger's database for effects that must happen exactly once.

        With `done`, all partitions up to this one count as done once it commits. A run has one
        transaction at a time. A run that should stop cannot begin one, unless it is `finishing`:
        storing what it has already fetched.
        """
        async with self._run.transaction(done, finishing=finishing) as tx:
            yield tx

    async def shared(self, key: str, open: Opening[T]) -> T:  # noqa: A002
        """What the runs of this worker share under the key; the first that asks opens it.

        `open` gives an async context manager. It is left when the worker has stopped.
        """
        return await self._run.shared(key, open)


class BlockingTransaction:
    """A transaction for a job that runs on its own thread."""

    def __init__(self, tx: Transaction, wait: Callable[[Awaitable[Any]], Any]) -> None:
        self._tx, self._wait = tx, wait

    def execute(self, text: str, **parameters: Any) -> list[Row]:
        rows: list[Row] = self._wait(self._tx.execute(text, **parameters))
        return rows


class BlockingContext(_Context):
    """The context of a plain function, which runs on its own thread."""

    def __init__(self, run: RunState) -> None:
        super().__init__(run)
        self._loop = asyncio.get_running_loop()
        self._awaited: set[asyncio.Task[Any]] = set()  # on the loop, for the thread

    @contextmanager
    def transaction(self, done: Partition | None = None) -> Iterator[BlockingTransaction]:
        """A transaction on the ledger's database for effects that must happen exactly once.

        With `done`, all partitions up to this one count as done once it commits. A run has one
        transaction at a time.
        """
        opened = self._run.transaction(done)
        tx = self._wait(opened.__aenter__())
        try:
            yield BlockingTransaction(tx, self._wait)
        except BaseException as error:
            if not self._wait(opened.__aexit__(type(error), error, error.__traceback__)):
                raise
        else:
            self._wait(opened.__aexit__(None, None, None))

    def shared(self, key: str, open: Opening[T]) -> T:  # noqa: A002
        """What the runs of this worker share under the key; the first that asks opens it.

        `open` gives an async context manager. It is entered on the worker's event loop, and left
        when the worker has stopped.
        """
        return self._wait(self._run.shared(key, open))

    async def abandon(self) -> None:
        """Cancels what the thread waits for, and returns when that has ended."""
        for task in self._awaited:
            task.cancel()
        if self._awaited:
            await asyncio.wait(self._awaited)

    def _wait(self, awaitable: Awaitable[T]) -> T:
        async def result() -> T:
            task = asyncio.current_task()
            assert task is not None
            self._awaited.add(task)
            task.add_done_callback(self._awaited.discard)
            return await awaitable

        return asyncio.run_coroutine_threadsafe(result(), self._loop).result()
