"""One run: a chunk under lease, from its claim to its outcome.

A run resumes after the progress of earlier runs. When the job fails permanently, the run
**bisects** the rest within its own lease: it completes the good partitions and leaves the bad ones
as holes, so that the dead letter names only the partitions that fail.

Every run ends in an outcome, whatever the job does. A run that has to end early (its backfill is
cancelled, it timed out, its lease is lost) is asked to stop, then interrupted, then abandoned, with
a few seconds in between.

The process watches the lease with its own monotonic clock, starting before the request that granted
the lease was sent. Once the lease may have expired, the run is over, whatever the ledger would say.
Only inside its transaction does a run need no lease: the transaction locks the chunk's row, so no
other worker can take it.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar

from gapless.config import Config, load
from gapless.core.errors import (
    BadJob,
    LeaseLost,
    LedgerError,
    LedgerUnreachable,
    RunStopped,
    RunTimeout,
    StopRequested,
    has,
    members,
)
from gapless.core.partitions import Partition
from gapless.core.ranges import Span
from gapless.core.selector import Selection
from gapless.ledger import Ledger
from gapless.ledger.database import Transaction
from gapless.ledger.records import Claim, Failure, Progress
from gapless.runtime.bisection import Bisection, JobFailed
from gapless.runtime.calls import CallAbandoned, Calls, JobCall
from gapless.runtime.context import BlockingContext, Context
from gapless.runtime.error_text import describe
from gapless.runtime.job import Chunk, Job
from gapless.runtime.reached import Reached
from gapless.runtime.shared import Opening, Shared
from gapless.system import SYSTEM, System
from gapless.telemetry import about, log

T = TypeVar("T")

CANCEL_GRACE = 10.0
"""Seconds for a run of a cancelled backfill to end by itself before it is interrupted."""

INTERRUPT_GRACE = 5.0
"""Seconds for an interrupted job to end before it is abandoned."""

_STOPPED = (StopRequested, asyncio.CancelledError, CallAbandoned)


@dataclass(frozen=True)
class Completed:
    claim: Claim


@dataclass(frozen=True)
class GivenBack:
    claim: Claim
    progress: Progress


@dataclass(frozen=True)
class Dropped:
    """The lease is lost: nothing may be written."""

    claim: Claim


Outcome = Completed | Failure | GivenBack | Dropped


def trusted(lease_seconds: float) -> float:
    """The part of a lease that its holder relies on; the rest covers the renewal's round trip."""
    return lease_seconds - min(2.0, lease_seconds / 10)


@dataclass(frozen=True)
class Resources:
    """The resources that all runs of a worker use."""

    ledger: Ledger
    calls: Calls
    shared: Shared
    config: Callable[[], Config] = load
    system: System = SYSTEM


class Run:
    """The processing of one claimed chunk."""

    def __init__(self, resources: Resources, claim: Claim, job: Job, selection: Selection) -> None:
        self.claim = claim
        self.fence = claim.fence
        self.write_fence = claim.fence if claim.write_fence is None else claim.write_fence
        self.payload = claim.payload
        self.attempt = claim.attempt
        self.spec = claim.backfill.spec
        self.task: asyncio.Task[Outcome] | None = None
        self.ledger = resources.ledger
        self.system = resources.system
        self.config = resources.config
        self._resources = resources
        self._job = job
        self._selection = selection
        self._reached = Reached(claim, selection)
        self._bisection = Bisection(claim, self._reached, self._raised_by_job, self._ends_run)
        self._stop = asyncio.Event()
        self._told_to_end = False  # by an exception raised in the job
        self._timed_out = False
        self._lost = False
        self._in_doubt = False
        self._deadline = math.inf
        self._lease_timer: asyncio.TimerHandle | None = None
        self._timers: list[asyncio.TimerHandle] = []
        self._call: JobCall | None = None
        self._context: Context | BlockingContext | None = None
        self._stuck_at: str | None = None
        self._open = AsyncExitStack()  # the transaction, if there is one
        self.in_transaction = False

    # Called by the worker

    def start(self) -> asyncio.Task[Outcome]:
        self.task = asyncio.create_task(self._outcome(), name=f"gapless-run-{self.claim.chunk_id}")
        if self.claim.backfill.timeout is not None:
            self._later(self.claim.backfill.timeout, self._time_out)
        return self.task

    def lease_until(self, deadline: float) -> None:
        """Ends the run at this monotonic time, unless the lease is renewed."""
        self._deadline = deadline
        if self._lease_timer is not None:
            self._lease_timer.cancel()
        if deadline < math.inf:
            self._lease_timer = asyncio.get_running_loop().call_at(deadline, self.lose)

    def lose(self) -> None:
        """Stops the job and writes nothing, because the lease is lost."""
        self._lost = True
        self.interrupt()

    def stop(self) -> None:
        """Asks the job to end when it next reports progress."""
        self._stop.set()

    def cancel(self) -> None:
        """Asks the job to end, and interrupts it soon if it does not."""
        if not self.stopping:
            self.stop()
            self._later(CANCEL_GRACE, self.interrupt)

    def interrupt(self) -> None:
        """Cancels an async job, or asks a thread to end; abandons it if that does not help."""
        self._stop.set()
        if self._call is not None:
            self._told_to_end |= not self.on_thread
            self._call.cancel()
            self._later(INTERRUPT_GRACE, self._abandon)

    def disown(self) -> GivenBack:
        """Gives back a chunk whose thread does not stop; its later effects are discarded."""
        progress = self._reached.progress
        self._lost = True
        self._abandon()
        return GivenBack(self.claim, progress)

    @property
    def on_thread(self) -> bool:
        return not self._job.is_async

    @property
    def lost(self) -> bool:
        """Whether the lease is lost: nothing that the run does from now on takes effect."""
        return self._lost

    @property
    def progress(self) -> Progress:
        return self._reached.progress

    def _time_out(self) -> None:
        self._timed_out = True
        self.interrupt()

    def _abandon(self) -> None:
        if self._call is None or self._call.ended.done():
            return
        self._stuck_at = self._call.where()
        self._call.abandon()
        log(logging.WARNING, "run_orphaned", chunk=self.claim.chunk_id, fence=self.fence)

    def _later(self, seconds: float, act: Callable[[], None]) -> None:
        self._timers.append(asyncio.get_running_loop().call_later(seconds, act))

    # Called by the context

    @property
    def stopping(self) -> bool:
        return self._stop.is_set()

    async def stop_requested(self) -> None:
        await self._stop.wait()

    def check(self) -> None:
        self._check_lease()
        if self.stopping:
            self._told_to_end = True
            raise self._stop_request()

    def _stop_request(self) -> StopRequested:
        return StopRequested(f"chunk `{self.claim.chunk_id}` was asked to stop")

    def _check_lease(self) -> None:
        # A job that blocks the event loop delays its timers, so check the clock as well.
        if self._lost or self.system.clock() > self._deadline:
            self._lost = True
            raise LeaseLost(f"lost the lease of chunk `{self.claim.chunk_id}`")
        if self._in_doubt:
            raise LedgerUnreachable("it is unknown whether the last transaction was committed")

    def advance_to(self, partition: Partition) -> None:
        self._reached.advance(self._reached.position(partition))

    @asynccontextmanager
    async def transaction(
        self, done: Partition | None, *, finishing: bool = False
    ) -> AsyncIterator[Transaction]:
        if finishing:
            self._check_lease()
        else:
            self.check()
        if self.in_transaction:
            raise BadJob(
                f"chunk `{self.claim.chunk_id}` already has an open transaction",
                hint="end the transaction before you begin the next one",
            )
        reached = None if done is None else self._reached.position(done)
        sent: float | None = None

        def at_commit() -> Progress:
            nonlocal sent
            sent = self.system.clock()
            self.lease_until(sent + trusted(self.claim.backfill.lease_seconds))
            return self.progress if reached is None else self._reached.after(reached)

        self.in_transaction = True
        leased_until = math.inf
        try:
            async with AsyncExitStack() as self._open:
                holding = self.ledger.holding(self.claim, at_commit)
                tx = await self._open.enter_async_context(holding)
                leased_until = self._deadline
                self.lease_until(math.inf)
                yield tx
            if sent is None:  # the run was abandoned and its transaction rolled back
                raise LeaseLost(f"the run of chunk `{self.claim.chunk_id}` is over")
        except BaseException as error:
            # If the commit was sent and then interrupted, only the ledger knows its result. It
            # decides when the run's outcome is written; until then nothing may be repeated.
            self._in_doubt = self._in_doubt or sent is not None
            self._lost = self._lost or isinstance(error, LeaseLost)
            self.lease_until(min(self._deadline, leased_until))
            raise
        finally:
            self.in_transaction = False
        if reached is not None:
            self._reached.advance(reached)

    async def shared(self, key: str, open: Opening[T]) -> T:  # noqa: A002
        return await self._resources.shared.get(key, open)

    # The run itself

    async def _outcome(self) -> Outcome:
        error: BaseException | None = None
        try:
            with about(chunk=self.claim.chunk_id, fence=self.fence):
                await self._bisection.go()
        except JobFailed as failed:
            error = failed.error
        except Exception as ours:  # noqa: BLE001 - an engine bug must not lose the chunk
            error = ours
        finally:
            self.lease_until(math.inf)
            for timer in self._timers:
                timer.cancel()
        if error is None and self.in_transaction:
            error = BadJob("the job ended with an open transaction")
        outcome = self._outcome_of(error)
        self._lost = True  # stops threads and tasks that the job left behind
        if self.in_transaction:
            await self._roll_back()
        return outcome

    def _outcome_of(self, error: BaseException | None) -> Outcome:
        if self._lost:
            return Dropped(self.claim)
        if error is None and self._reached.holes:
            assert self._bisection.culprit is not None, "a hole without an error"
            return self._failure(self._bisection.culprit, permanent=True)
        if error is None:
            return Completed(self.claim)
        if self._timed_out:
            return self._timeout(error)
        if self.stopping and all(isinstance(each, _STOPPED) for each in members(error)):
            return GivenBack(self.claim, self.progress)
        return self._failure(error)

    async def _roll_back(self) -> None:
        """Rolls back the transaction that the job left open."""
        error = LeaseLost(f"the run of chunk `{self.claim.chunk_id}` is over")
        with suppress(Exception, RunStopped):
            async with asyncio.timeout(INTERRUPT_GRACE):
                if isinstance(self._context, BlockingContext):
                    await self._context.abandon()
                await self._open.__aexit__(LeaseLost, error, None)

    async def _raised_by_job(self, span: Span) -> BaseException | None:
        """Calls the job for a span, unless the run must end; returns what it raised."""
        try:
            self.check()
        except (RunStopped, LedgerUnreachable) as reason:
            return reason
        claim = self.claim
        chunk = Chunk(claim.backfill_id, claim.chunk_index, self._selection, span, claim.span)
        context = BlockingContext(self) if self.on_thread else Context(self)
        function, calls = self._job.function, self._resources.calls
        self._context = context
        self._call = calls.start(function, chunk, context, on_thread=self.on_thread)
        try:
            raised = await self._call.ended
        finally:
            self._call.cancel()
            self._call = None
        if raised is None and self._told_to_end:  # it returned early, so what it did is unknown
            return self._stop_request()
        return raised

    def _ends_run(self, error: BaseException) -> bool:
        """Whether an error ends the run and is not about its partitions."""
        stops = _STOPPED if self.stopping else (RunStopped,)
        return self._in_doubt or has(error, *stops)

    def _failure(self, error: BaseException, *, permanent: bool = False) -> Failure:
        alone = members(error)
        words = describe(alone[0] if len(alone) == 1 else error)
        return Failure(
            self.claim,
            self.progress,
            words.name,
            words.message,
            permanent=permanent or has(error, BadJob),
            ledger_lost=has(error, LedgerError),
            traceback=words.traceback,
        )

    def _timeout(self, error: BaseException) -> Failure:
        words = describe(error)
        message = f"the run took longer than {self.claim.backfill.timeout:g} s"
        at = self._stuck_at or words.traceback
        return Failure(self.claim, self.progress, RunTimeout.__name__, message, traceback=at)
