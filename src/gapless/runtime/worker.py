"""The worker: keeps its slots busy while the ledger has work for them.

One loop talks to the ledger. Each turn, it writes the outcomes of all runs that have ended since
the last turn, in one transaction where possible, and looks for work, in one that locks nothing. If
there is any, it claims chunks for all idle slots, in one transaction per queue. Under load, turns
batch by themselves; without load, the loop sleeps until something is due, a notification arrives,
or the poll interval is over. Correctness relies on polling only; notifications just make it faster.
While the ledger is unreachable, the loop retries without limit.

A second loop sends heartbeats (see `heartbeats`).

Draining gives back what it can: jobs that report progress end at their next report, others get
`drain_seconds` to finish. Jobs that still run are then interrupted and their chunks given back.
Jobs that ignore even that, and outcomes that cannot be written to the ledger, are left behind a few
seconds later: their leases expire.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from gapless.config import Config, load
from gapless.core.errors import LedgerError, LedgerUnreachable, Unreadable
from gapless.ledger import Ledger
from gapless.ledger.records import Claim, ClaimRequest, Progress, Survey, SurveyRequest
from gapless.runtime.calls import Calls, contain_exits
from gapless.runtime.catalog import Catalog
from gapless.runtime.heartbeats import Heartbeats
from gapless.runtime.outage import Outage
from gapless.runtime.outcomes import Outcomes
from gapless.runtime.run import GivenBack, Outcome, Resources, Run, trusted
from gapless.runtime.selections import Selections
from gapless.runtime.settling import Settling, concerned
from gapless.runtime.shared import Opening, Shared
from gapless.runtime.slots import announced, checked, queues_of
from gapless.system import SYSTEM, System
from gapless.telemetry import about, log

T = TypeVar("T")

HEEDING_SECONDS = 1.5
"""Seconds for an interrupted job to end before the worker stops waiting for it."""

LEAVING_SECONDS = 4.0
"""Seconds after `drain_seconds` when a worker exits, whatever is left to do."""


@dataclass(frozen=True)
class WorkerOptions:
    """The options of a worker; all durations are in seconds."""

    poll_seconds: float = 1.0
    heartbeat_seconds: float = 10.0
    drain_seconds: float = 30.0
    only: str | None = None  # the one backfill or follow to work on


class Worker:
    """Runs chunks in slots until it drains."""

    def __init__(
        self,
        ledger: Ledger,
        catalog: Catalog,
        slots: Mapping[str, int],
        options: WorkerOptions = WorkerOptions(),  # noqa: B008 - frozen
        on_settled: Callable[[], None] = lambda: None,
        shared: Mapping[str, Any] | None = None,
        config: Callable[[], Config] = load,
        system: System = SYSTEM,
    ) -> None:
        self._system = system
        self._process = system.process()
        self.id = f"{self._process.host.split('/')[0]}:{self._process.pid}:{system.token(3)}"
        self._ledger = ledger
        self._catalog = catalog
        self._slots = checked(slots)
        self.queues = tuple(dict.fromkeys(q for slot in slots for q in queues_of(slot)))
        self._options = options
        self._calls = Calls()
        self._shared = Shared(shared)
        self._resources = Resources(ledger, self._calls, self._shared, config, system)
        self._runs: dict[Run, str] = {}
        self._outcomes = Outcomes(ledger, system.clock)
        self._settling = Settling(ledger, catalog, on_settled, self.wake)
        self._selections = Selections(ledger, catalog)
        self._outage = Outage(options.poll_seconds, system.clock)
        self._heartbeats = Heartbeats(
            ledger, self.id, catalog, self._runs, options.heartbeat_seconds, self._outage
        )
        self.started = asyncio.Event()
        self._wake = asyncio.Event()
        self._draining = asyncio.Event()
        self._leaving = asyncio.Event()
        self._polled_at = float("-inf")
        self._patience = options.poll_seconds
        self.left_behind = 0  # runs that draining did not wait for

    async def run(self) -> None:
        """Works until drained; then closes the shared resources."""
        contain_exits()
        with about(worker=self.id):
            async with self._shared:
                await self._work()
            log(logging.INFO, "worker_stopped")

    async def _work(self) -> None:
        freed = await self.free_dead()
        slots = announced(self._slots, self._options.only)
        await self._ledger.register(self.id, self._process, slots)
        self.started.set()
        log(logging.INFO, "worker_started", slots=self._slots, freed=freed)
        self._ledger.on_notify(self.wake)
        loops = [
            asyncio.create_task(self._take_turns(), name="gapless-turns"),
            asyncio.create_task(self._heartbeats.send(), name="gapless-heartbeats"),
        ]
        leaving = asyncio.create_task(self._leaving.wait())
        try:
            # Heartbeats end only if they fail, and without them every lease would be lost.
            await asyncio.wait([*loops, leaving], return_when=asyncio.FIRST_COMPLETED)
            for loop in loops:
                if loop.done():
                    loop.result()
        finally:
            for each in (*loops, leaving):
                each.cancel()
            await asyncio.wait([*loops, leaving])
            await self._leave()

    async def _take_turns(self) -> None:
        """Takes turns until the worker is drained."""
        await self._take_turn()
        while not self._draining.is_set() or self._runs or self._outcomes:
            await self._sleep()
            await self._take_turn()
        with suppress(LedgerUnreachable):  # others see by its last heartbeat that it has ended
            await self._ledger.end_worker(self.id)

    async def _leave(self) -> None:
        """Ends the remaining runs, or leaves them behind."""
        self._interrupt_all()
        if left := [run.task for run in self._runs if run.task is not None]:
            await asyncio.wait(left, timeout=HEEDING_SECONDS)
        self._disown_all()
        self.left_behind = max(self.left_behind, len(self._outcomes))  # these were not written
        self._calls.close()

    async def free_dead(self) -> int:
        """Frees the leases of dead processes of this host; returns how many."""
        return await self._ledger.free_dead(self._process, self._system.is_alive)

    async def shared(self, key: str, open: Opening[T]) -> T:  # noqa: A002
        """What its runs share under the key; the first that asks opens it."""
        return await self._shared.get(key, open)

    @property
    def slots(self) -> Mapping[str, int]:
        return self._slots

    @property
    def orphans(self) -> int:
        """Abandoned jobs that are still running."""
        return len(self._calls.orphans)

    @property
    def running(self) -> Counter[str]:
        """Running chunks, by slot."""
        return Counter(self._runs.values())

    @property
    def ended(self) -> Counter[str]:
        """Written outcomes, by kind."""
        return self._outcomes.written

    def wake(self) -> None:
        """Makes the worker look for work now."""
        self._wake.set()

    def drain(self) -> None:
        """Takes no new chunks; ends or gives back running ones. A second call does not wait."""
        if self._draining.is_set():
            self._interrupt_all()
            return
        self._draining.set()
        log(logging.INFO, "worker_draining", worker=self.id, running=len(self._runs))
        for run in self._runs:
            run.stop()
        loop, patience = asyncio.get_running_loop(), self._options.drain_seconds
        loop.call_later(patience, self._interrupt_all)
        loop.call_later(patience + HEEDING_SECONDS, self._disown_all)
        loop.call_later(patience + LEAVING_SECONDS, self._leaving.set)
        self.wake()

    def _interrupt_all(self) -> None:
        for run in list(self._runs):
            if run.on_thread:
                self._disown(run)
            else:
                run.interrupt()
        self.wake()

    def _disown_all(self) -> None:
        for run in list(self._runs):
            self._disown(run)
        self.wake()

    def _disown(self, run: Run) -> None:
        """Gives back the rest of a run without waiting for it any longer."""
        self.left_behind += 1
        self._outcomes.add(run.disown())
        del self._runs[run]

    # The ledger loop

    async def _take_turn(self) -> None:
        self._wake.clear()
        try:
            ended = await self._outcomes.write()
            looked = self._now()
            if looked - self._polled_at >= self._options.poll_seconds:
                found = await self._look(None, None)
                self._polled_at = self._now()
            else:
                found = await self._look(*concerned(ended))
            if not self._draining.is_set():
                await self._fill_slots(found)
            self._patience = self._options.poll_seconds * (0.75 + self._system.chance() / 2)
            if found.due is not None and len(self._runs) < sum(self._slots.values()):
                self._patience = min(self._patience, max(looked + found.due - self._now(), 0.0))
            # Idle slots are filled first; nothing waits for this.
            await self._settling.settle(found.finished, found.drained)
        except LedgerUnreachable as error:
            self._outage.note("turns", error)
            await self._hold_off(self._outage.pause())
            self.wake()
        else:
            self._outage.over("turns")

    async def _hold_off(self, seconds: float) -> None:
        """Waits before retrying the ledger; not for long once the worker drains."""
        draining = self._draining.is_set()
        try:
            async with asyncio.timeout(self._options.poll_seconds if draining else seconds):
                await (self._leaving if draining else self._draining).wait()
        except TimeoutError:
            pass

    async def _sleep(self) -> None:
        """Sleeps until woken, or until it is time to poll again."""
        try:
            async with asyncio.timeout(self._patience):
                await self._wake.wait()
        except TimeoutError:
            pass

    async def _look(
        self, backfills: tuple[str, ...] | None, groups: tuple[str, ...] | None
    ) -> Survey:
        """Looks for work, and whether these backfills and groups, or any, have ended."""
        known = self._catalog.known
        request = SurveyRequest(self.queues, known, self._options.only, backfills, groups)
        found = await self._ledger.survey(request)
        self._learn(found.jobs)
        if self._catalog.known != known:  # so that there may be more work
            return await self._look(backfills, groups)
        return found

    def _learn(self, jobs: Sequence[tuple[str, int]]) -> None:
        """Resolves the jobs of current backfills."""
        before = set(self._catalog.unresolved.items())
        self._catalog.resolve(jobs)
        for job, reason in self._catalog.unresolved.items() - before:
            # Jobs of other workers that this process was never given are not worth a warning.
            level = logging.WARNING if self._catalog.importing else logging.DEBUG
            log(level, "job_unresolved", job=job, reason=reason)
            self._heartbeats.hurry()

    async def _fill_slots(self, found: Survey) -> None:
        busy = self.running
        for slot, count in self._slots.items():
            idle = count - busy[slot]
            while (
                idle > 0
                and not found.with_work.isdisjoint(queues_of(slot))
                and not self._draining.is_set()
                and (claims := await self._claim(slot, idle))
            ):
                idle -= len(claims)

    async def _claim(self, slot: str, count: int) -> list[Claim]:
        request = ClaimRequest(
            owner=self.id,
            claim_id=self._system.token(8),
            queues=queues_of(slot),
            jobs=self._catalog.known,
            count=count,
            only=self._options.only,
        )
        sent = self._now()
        claims: list[Claim] = []
        try:
            claims = await self._ledger.claim(request)
            await self._start_all(claims, slot, sent)
        except Unreadable as error:
            await self._condemn(error.backfill_id or claims[0].backfill_id, error)
        return claims

    async def _condemn(self, backfill_id: str, error: Unreadable) -> None:
        """Fails the backfill that an unreadable row belongs to: no worker could run it."""
        log(logging.ERROR, "backfill_unreadable", backfill=backfill_id, error=error)
        await self._ledger.condemn(backfill_id, str(error))
        self.wake()

    async def _start_all(self, claims: Sequence[Claim], slot: str, sent: float) -> None:
        """Starts runs for claims of one backfill; on failure, gives the claims back."""
        if not claims:
            return
        try:
            job = self._catalog[claims[0].backfill.job]
            selection = await self._selections.of(claims[0])
        except LedgerError:
            self._give_back(claims)
            raise
        if self._draining.is_set():  # since the claim was sent
            self._give_back(claims)
            return
        for claim in claims:
            run = Run(self._resources, claim, job, selection)
            self._runs[run] = slot
            run.lease_until(sent + trusted(claim.backfill.lease_seconds))
            run.start().add_done_callback(partial(self._end, run))
        self._heartbeats.hurry()

    def _give_back(self, claims: Sequence[Claim]) -> None:
        for claim in claims:
            self._outcomes.add(GivenBack(claim, Progress(claim.last_processed, claim.holes)))
        self.wake()

    def _end(self, run: Run, task: asyncio.Task[Outcome]) -> None:
        if self._runs.pop(run, None) is not None and not task.cancelled():
            self._outcomes.add(task.result())
        self.wake()

    def _now(self) -> float:
        return self._system.clock()
