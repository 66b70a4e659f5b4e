"""One run: a chunk under lease, from its claim to its outcome.

A run goes on behind what earlier runs have done. When the job fails for good, the run **bisects**
what is left, within its own lease: it stores what is good and keeps the bad partitions as holes,
so that the dead letter names the culprit and not the thousand innocents around it. An error that
names its culprit saves the search.

The lease is watched by this process's own monotonic clock, counted from before the request that
granted it was sent. When it can have ended, the run is over, whatever the ledger would say.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

from gapless.core.chunk import after_failure
from gapless.core.errors import (
    BadSelector,
    LeaseLost,
    LedgerError,
    LedgerUnreachable,
    PermanentError,
    StopRequested,
)
from gapless.core.partitions import Partition
from gapless.core.ranges import RangeSet, Span
from gapless.core.redaction import redact
from gapless.core.retry import BLAMELESS, RetryKind
from gapless.core.selector import Selection
from gapless.ledger import Ledger, coverage
from gapless.ledger.database import Transaction
from gapless.ledger.records import Claim, Coverage, Failure, Progress
from gapless.runtime.context import BlockingContext, Context
from gapless.runtime.job import Chunk, Job
from gapless.runtime.shared import Opening, Shared
from gapless.telemetry import about

T = TypeVar("T")

WITHIN = 2**32
"""What a run tells within its transactions is counted from here on, apart from all else."""

MAX_CULPRITS = 16
"""More bad partitions than these in one chunk, and the rest is given up unseen."""


@dataclass(frozen=True)
class Completed:
    claim: Claim
    covered: tuple[Coverage, ...] = ()


@dataclass(frozen=True)
class GivenBack:
    claim: Claim
    progress: Progress


@dataclass(frozen=True)
class Dropped:
    """The lease is gone: nothing may be written."""

    claim: Claim


Outcome = Completed | Failure | GivenBack | Dropped


def trusted(lease_seconds: float) -> float:
    """The part of a lease that its holder counts on: the rest is for the way back."""
    return lease_seconds - min(2.0, lease_seconds / 10)


@dataclass(frozen=True)
class Resources:
    """What all runs of a worker use."""

    ledger: Ledger
    threads: Executor
    shared: Shared


class Run:
    """A chunk being worked on."""

    def __init__(self, resources: Resources, claim: Claim, job: Job, selection: Selection) -> None:
        self.claim = claim
        self.fence = claim.fence
        self.attempt = claim.tries.attempts + claim.tries.lost + 1
        self.spec = claim.backfill.spec
        self.task: asyncio.Task[Outcome] | None = None
        self.ledger = resources.ledger
        self._resources = resources
        self._job = job
        self._selection = selection
        self._last = claim.last_processed
        self._holes = claim.holes
        self._covered: tuple[Coverage, ...] = ()
        self._told_within = 0
        self._culprits = 0
        self._culprit: Exception | None = None
        self._healing: Span | None = None  # the hole that is being tried again
        self._giving_up = False
        self._stopping = False
        self._lost = False
        self._in_doubt = False
        self.in_transaction = False
        self._deadline = float("inf")
        self._watch: asyncio.TimerHandle | None = None

    # What the worker does to a run

    def start(self) -> asyncio.Task[Outcome]:
        self.task = asyncio.create_task(self._outcome(), name=f"gapless-run-{self.claim.chunk_id}")
        return self.task

    def lease_until(self, deadline: float) -> None:
        """Ends the run at this moment of the monotonic clock, unless the lease is renewed."""
        self._deadline = deadline
        if self._watch is not None:
            self._watch.cancel()
        self._watch = asyncio.get_running_loop().call_at(deadline, self.lose)

    def lose(self) -> None:
        """The lease is gone: stop the job, write nothing."""
        self._lost = True
        self.interrupt()

    def stop(self) -> None:
        """Asks the job to end at its next sign of progress."""
        self._stopping = True

    def interrupt(self) -> None:
        """Ends an async job at its next await; a thread can only be asked."""
        self._stopping = True
        if self.task is not None and self._job.is_async:
            self.task.cancel()

    def disown(self) -> GivenBack:
        """Gives back a chunk whose thread does not listen; what it does from now on is void."""
        self._lost = True
        return GivenBack(self.claim, self.progress)

    @property
    def on_thread(self) -> bool:
        return not self._job.is_async

    @property
    def lost(self) -> bool:
        """Whether the lease is gone: whatever the run does from now on is void."""
        return self._lost

    @property
    def progress(self) -> Progress:
        return Progress(self._last, self._holes, self._covered)

    # What the context sees

    @property
    def stopping(self) -> bool:
        return self._stopping

    def check(self) -> None:
        # A job that keeps the event loop busy keeps its timers from firing: look at the clock too.
        if self._lost or time.monotonic() > self._deadline:
            self._lost = True
            raise LeaseLost(f"the lease of chunk `{self.claim.chunk_id}` is gone")
        if self._in_doubt:
            raise LedgerUnreachable("nobody answered whether the last transaction was committed")
        if self._stopping:
            raise StopRequested(f"chunk `{self.claim.chunk_id}` is to stop")

    def advance_to(self, partition: Partition) -> None:
        self._advance(self._position(partition))

    def cover(self, told: Iterable[Coverage]) -> None:
        more = tuple(told)
        for each in more:
            coverage.check(each)  # here, where the job hears of it: heartbeats carry it from now on
        self._covered += more

    @asynccontextmanager
    async def transaction(self, done: Partition | None) -> AsyncIterator[Transaction]:
        self.check()
        reached = None if done is None else self._position(done)
        sent: float | None = None

        def at_commit() -> Progress:
            nonlocal sent
            sent = time.monotonic()
            return self.progress if reached is None else self._after(reached)

        self.in_transaction = True  # it holds the chunk's row, and extends the lease by itself
        try:
            async with self.ledger.holding(self.claim, at_commit) as tx:
                yield tx
        except BaseException:
            # Cut off in the commit: only the ledger knows. It says so when the run is written
            # off; until then nothing may be done that may be done already.
            self._in_doubt = self._in_doubt or sent is not None
            raise
        finally:
            self.in_transaction = False
        assert sent is not None
        self.lease_until(sent + trusted(self.claim.backfill.lease_seconds))
        if reached is not None:
            self._advance(reached)

    async def cover_within(self, tx: Transaction, told: Iterable[Coverage]) -> None:
        more = tuple(told)
        await coverage.add(tx, self.claim, more, WITHIN + self._told_within)
        self._told_within += len(more)  # also if it is taken back: no number is told twice

    async def shared(self, key: str, open: Opening[T]) -> T:  # noqa: A002
        return await self._resources.shared.get(key, open)

    # The run itself

    async def _outcome(self) -> Outcome:
        try:
            with about(chunk=self.claim.chunk_id, fence=self.fence):
                await self._work()
        except LeaseLost:
            return Dropped(self.claim)
        except StopRequested:
            return GivenBack(self.claim, self.progress)
        except asyncio.CancelledError:
            if not self._stopping:
                raise
            return Dropped(self.claim) if self._lost else GivenBack(self.claim, self.progress)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a job may raise anything
            return self._failure(error)
        finally:
            if self._watch is not None:
                self._watch.cancel()
        if self._lost:
            return Dropped(self.claim)
        if self._holes:
            return self._failure(self._culprit or self._left_before(), permanent=True)
        return Completed(self.claim, self._covered)

    async def _work(self) -> None:
        """Goes on behind what is done; a policy that never gives up tries the holes again too."""
        if self._next <= self.claim.span.last:
            await self._process(Span(self._next, self.claim.span.last))
        if self.claim.backfill.retry.kind is RetryKind.UNBOUNDED:
            for hole in self.claim.holes.spans:
                self._healing = hole
                await self._process(hole)

    async def _process(self, span: Span) -> None:
        """Runs the job over a span, and if it fails for good, over its halves."""
        try:
            await self._call(span)
        except BLAMELESS:
            raise
        except Exception as error:
            if self._in_doubt or not self._is_final(error):
                raise
            rest = Span(min(max(span.first, self._next), span.last), span.last)
            if rest.size == 1 or self._culprits >= MAX_CULPRITS:
                self._leave_out(rest, error)
                return
            self.check()
            culprits = self._named_in(rest, error)
            if culprits is None:
                middle = (rest.first + rest.last) // 2
                await self._process(Span(rest.first, middle))
                await self._process(Span(middle + 1, rest.last))
            else:
                await self._process_around(culprits, rest, error)
        else:
            self._advance(span.last)

    async def _process_around(self, culprits: Span, span: Span, error: Exception) -> None:
        """Leaves some out; of those before them nobody knows yet whether they are done."""
        if span.first < culprits.first:
            await self._process(Span(span.first, culprits.first - 1))
        self._leave_out(culprits, error)
        if culprits.last < span.last:
            await self._process(Span(culprits.last + 1, span.last))

    async def _call(self, span: Span) -> None:
        claim = self.claim
        chunk = Chunk(claim.backfill_id, claim.chunk_index, self._selection, span, claim.span)
        if self._job.is_async:
            await self._job.function(chunk, Context(self))
        else:
            loop = asyncio.get_running_loop()
            context = BlockingContext(self, loop)
            await loop.run_in_executor(self._resources.threads, self._job.function, chunk, context)

    @property
    def _next(self) -> int:
        """The first position that nobody has done yet."""
        if self._healing is not None:
            undone = self._holes & RangeSet.of(self._healing)
            return undone.spans[0].first if undone else self._healing.last + 1
        return self.claim.span.first if self._last is None else self._last + 1

    def _position(self, partition: Partition) -> int:
        position = self._selection.position(partition)
        if not self.claim.span.first <= position <= self.claim.span.last:
            raise BadSelector(f"`{partition}` is not in chunk `{self.claim.chunk_id}`")
        return position

    def _named_in(self, span: Span, error: Exception) -> Span | None:
        """The positions of the partitions that an error blames, if they are among these."""
        if not isinstance(error, PermanentError):
            return None
        if error.partition is None or error.through is None:
            return None
        try:
            named = Span(self._position(error.partition), self._position(error.through))
        except BadSelector:
            return None
        return named if span.first <= named.first <= named.last <= span.last else None

    def _after(self, position: int) -> Progress:
        """The progress once all up to this position is done."""
        if self._healing is not None and self._healing.first <= position:
            healed = RangeSet.of((self._healing.first, position))
            return replace(self.progress, holes=self._holes - healed)
        reached = position if self._last is None else max(self._last, position)
        return replace(self.progress, last_processed=reached)

    def _advance(self, position: int) -> None:
        after = self._after(position)
        self._last, self._holes = after.last_processed, after.holes

    def _leave_out(self, span: Span, error: Exception) -> None:
        self._culprits += 1
        self._culprit = self._culprit or error
        if self._healing is None:
            self._advance(span.last)
            self._holes |= RangeSet.of(span)

    def _is_final(self, error: Exception) -> bool:
        """Whether no later run would change anything, by the error or by the retry policy."""
        if not self._giving_up:
            verdict = after_failure(
                self.claim.backfill.retry,
                self.claim.tries,
                progressed=self._last != self.claim.failed_behind,
                permanent=False,
                chance=0.0,
            )
            self._giving_up = verdict.delay is None
        return self._giving_up or isinstance(error, PermanentError)

    def _failure(self, error: BaseException, *, permanent: bool = False) -> Failure:
        message = redact(str(error)) or repr(type(error))
        ledger_lost = isinstance(error, LedgerError)
        name = type(error).__name__
        return Failure(self.claim, self.progress, name, message, permanent, ledger_lost)

    def _left_before(self) -> PermanentError:
        count = len(self._holes)
        return PermanentError(f"{count} partitions had failed for good in an earlier run")
