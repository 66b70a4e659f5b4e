"""The engine: one object for a ledger, a worker and a controller in one process.

async with gapless.Engine("sqlite:///ledger.db") as engine:
    backfill = await engine.backfill(my_job, gapless.Range("0", "9999"))
    print((await backfill.wait()).state)
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from gapless.config import Config, load
from gapless.core.backfill import State
from gapless.core.selector import Selector
from gapless.ledger import Ledger, open_ledger
from gapless.ledger.records import Backfill, BackfillRequest, Queue
from gapless.ledger.views import EVERYTHING
from gapless.runtime.catalog import Catalog
from gapless.runtime.controller import BackfillOptions, Controller, request_for
from gapless.runtime.explain import Explanation
from gapless.runtime.job import Job
from gapless.runtime.process import DEFAULT_LEDGER, actor
from gapless.runtime.shared import Opening
from gapless.runtime.slots import DEFAULT_SLOTS
from gapless.runtime.worker import Worker, WorkerOptions
from gapless.system import SYSTEM, System

T = TypeVar("T")


class BackfillHandle:
    """A handle to control a backfill and wait for it."""

    def __init__(self, engine: Engine, backfill_id: str) -> None:
        self.id = backfill_id
        self._engine = engine

    def __repr__(self) -> str:
        return f"BackfillHandle({self.id!r})"

    async def progress(self) -> Backfill:
        """Its current state, chunk counts, percentage and error."""
        return await self._engine.ledger.backfill(self.id)

    async def wait(self) -> Backfill:
        """Waits until the backfill has ended, even if another process runs it."""
        while not (now := await self.progress()).state.ended:
            await self._engine.something_settled()
        return now

    async def explain(self) -> list[Explanation]:
        """Why its chunks run or wait."""
        return await self._engine.controller.explain(self.id)

    async def pause(self) -> Backfill:
        """Starts no new chunks; running ones finish."""
        return await self._engine.ledger.pause(self.id)

    async def resume(self) -> Backfill:
        backfill = await self._engine.ledger.resume(self.id)
        self._engine.wake()
        return backfill

    async def cancel(self, *, force: bool = False) -> Backfill:
        """Ends it once its running chunks have stopped; with `force`, without waiting for them."""
        return await self._engine.ledger.cancel(self.id, force=force)

    async def retry_failed(self, request_id: str | None = None) -> BackfillHandle:
        """Creates a backfill of what this one did not complete; one per request id."""
        child = await self._engine.controller.retry_failed(self.id, request_id)
        self._engine.wake()
        return BackfillHandle(self._engine, child.id)


class Engine:
    """Runs backfills in this process; with `slots=None`, only controls them."""

    ledger: Ledger
    controller: Controller

    def __init__(
        self,
        ledger: str | Ledger | None = None,
        *,
        slots: int | Mapping[str, int] | None = DEFAULT_SLOTS,
        jobs: Iterable[Job] = (),
        importing: bool = False,
        options: WorkerOptions = WorkerOptions(),  # noqa: B008 - frozen
        shared: Mapping[str, Any] | None = None,
        config: Config | None = None,
        system: System = SYSTEM,
    ) -> None:
        """`ledger` is a URL, or an open ledger, which the caller closes.

        `shared` are resources that runs find under these keys; the caller closes them. `config`
        resolves names of endpoints and sinks; by default it is read from the current folder when a
        job first needs it.
        """
        self._given = ledger if isinstance(ledger, Ledger) else None
        named = None if isinstance(ledger, Ledger) else ledger
        self._url = named or os.environ.get("GAPLESS_LEDGER", DEFAULT_LEDGER)
        self._config = config
        self._slots = {"default": slots} if isinstance(slots, int) else slots
        self._catalog = Catalog(jobs, importing=importing, now=system.clock)
        self._options = options
        self._shared = shared
        self._system = system
        self._settled = asyncio.Event()
        self._working: asyncio.Task[None] | None = None
        self.worker: Worker | None = None

    @property
    def drain_seconds(self) -> float:
        """How long runs may take to finish once the engine drains."""
        return self._options.drain_seconds

    async def __aenter__(self) -> Self:
        self.ledger = self._given or await open_ledger(
            self._url, actor=actor(), system=self._system
        )
        self.controller = Controller(self.ledger, self._system)
        if self._slots is not None:
            self.worker = Worker(
                self.ledger,
                self._catalog,
                self._slots,
                self._options,
                self._on_settled,
                self._shared,
                self._configuration,
                self._system,
            )
            self._working = asyncio.create_task(self.worker.run(), name="gapless-worker")
            await self._has_started()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            await self.drain()
        finally:
            await self._close()

    async def _close(self) -> None:
        if self._given is None:
            await self.ledger.close()

    @property
    def system(self) -> System:
        """The clocks, randomness and threads that it runs on."""
        return self._system

    @property
    def config(self) -> Config:
        """The configuration, which resolves names of endpoints and sinks."""
        return self._configuration()

    async def shared(self, key: str, open: Opening[T]) -> T:  # noqa: A002
        """What the runs of its worker share under the key; the first that asks opens it."""
        assert self.worker is not None
        return await self.worker.shared(key, open)

    def configure(self, config: Config) -> None:
        """Replaces the configuration, for runs that start from now on."""
        self._config = config

    def learn(self, job: Job) -> None:
        """Lets its worker run the backfills of a job, whoever has created them."""
        self._catalog.add(job)
        self.wake()

    def _configuration(self) -> Config:
        if self._config is None:
            self._config = load()
        return self._config

    async def backfill(
        self, job: Job, selector: Selector, **options: Unpack[BackfillOptions]
    ) -> BackfillHandle:
        """Creates a backfill of a job over the selected partitions."""
        request = request_for(job, selector, options, self._system)
        if hook := options.get("on_drained"):
            self._catalog.add(hook)
        return await self.submit(job, request)

    async def submit(self, job: Job, request: BackfillRequest) -> BackfillHandle:
        """Creates a backfill from a finished request."""
        created = await self.ledger.create(request)
        self._catalog.add(job)  # only now: an invalid request must start nothing
        self.wake()
        return BackfillHandle(self, created.id)

    async def attach(self, job: Job, backfill_id: str) -> BackfillHandle:
        """Attaches to an existing backfill of this job."""
        handle = await self.get(backfill_id)
        self._catalog.add(job)
        self.wake()
        return handle

    async def get(self, backfill_id: str) -> BackfillHandle:
        """The handle of an existing backfill."""
        return BackfillHandle(self, (await self.ledger.backfill(backfill_id)).id)

    async def queues(self) -> list[Queue]:
        """All queues of the ledger, with their chunks and the slots of live workers."""
        return await self.ledger.queues()

    async def pause_queue(self, name: str) -> bool:
        """Starts no new chunks of a queue in any worker; False if it was paused already."""
        return await self.ledger.pause_queue(name)

    async def resume_queue(self, name: str) -> bool:
        """Resumes a paused queue; False if it was not paused."""
        resumed = await self.ledger.resume_queue(name)
        self.wake()
        return resumed

    async def _has_started(self) -> None:
        """Waits until the worker runs; raises if it cannot start."""
        assert self.worker is not None
        assert self._working is not None
        started = asyncio.create_task(self.worker.started.wait())
        try:
            await asyncio.wait([started, self._working], return_when=asyncio.FIRST_COMPLETED)
            if self._working.done():
                self._working.result()
        except BaseException:
            await self._close()
            raise
        finally:
            started.cancel()

    async def drain(self) -> None:
        """Takes no new chunks, and waits until running ones have finished or were given back."""
        if self.worker is not None and self._working is not None:
            if not self._working.done():
                self.worker.drain()
            await self._working

    async def free_dead(self) -> None:
        """Frees the leases of dead processes of this host."""
        assert self.worker is not None
        await self.worker.free_dead()
        self.wake()

    async def is_idle(self) -> bool:
        """Whether no backfill is left that this engine could finish by itself.

        Paused backfills and those of paused queues wait for a person once their running chunks have
        finished, backfills of unavailable jobs for another worker, and standing ones for their
        follow.
        """
        assert self.worker is not None
        if self.worker.running:
            return False
        if await self.ledger.close_epochs(hurry=True):  # more can come only after this engine
            return False
        for state in (State.PENDING, State.RUNNING):
            for each in await self.ledger.backfills(state=state, limit=EVERYTHING):
                known = self._catalog.reason_against(each.job, each.job_version) is None
                waits = each.standing and not each.chunks.unfinished
                served = each.queue in self.worker.queues and not each.queue_paused
                if known and served and not waits:
                    return False
        return True

    def wake(self) -> None:
        if self.worker is not None:
            self.worker.wake()

    async def something_settled(self) -> None:
        """Waits until a backfill ended here, or it is time to check on other workers."""
        if self._working is not None and self._working.done():
            self._working.result()  # raise if the worker died, so that no caller waits forever
        try:
            async with asyncio.timeout(self._options.poll_seconds / 2):
                await self._settled.wait()
        except TimeoutError:
            pass

    def _on_settled(self) -> None:
        self._settled.set()
        self._settled = asyncio.Event()
