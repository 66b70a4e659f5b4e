"""The worker: slots that never idle while the ledger has something for them.

One loop talks to the ledger. Each turn it writes the outcomes of all runs that have ended since
the last, in one transaction where it can, and claims for all slots that are idle, in one
transaction a queue. Under load, turns batch by themselves; without load the loop sleeps until
something is due, a hint arrives, or the poll interval is over. Polling is the truth, hints only
make it faster.

A second loop sends heartbeats, which carry progress to the ledger and bring back what became of
the backfill: go on, stop, or lost.

Draining gives back what it can: jobs that report progress end at their next report, others get
`drain_seconds` to finish. What is left then is interrupted and given back.
"""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, assert_never

from gapless.core.chunk import Status
from gapless.core.errors import LedgerError
from gapless.core.selector import Selection
from gapless.ledger import Ledger
from gapless.ledger.records import Claim, ClaimRequest, Failure, Progress, Signal
from gapless.runtime.catalog import Catalog
from gapless.runtime.drift import drift_of
from gapless.runtime.process import is_alive, this_process
from gapless.runtime.run import Completed, Dropped, GivenBack, Outcome, Resources, Run, trusted
from gapless.runtime.shared import Shared
from gapless.runtime.slots import announced, checked, queues_of
from gapless.telemetry import about, log, metrics


@dataclass(frozen=True)
class WorkerOptions:
    """How a worker behaves; seconds throughout."""

    poll_seconds: float = 1.0
    heartbeat_seconds: float = 10.0
    drain_seconds: float = 30.0
    only: str | None = None  # the one backfill to work on


class Worker:
    """Runs chunks in slots until told to drain."""

    def __init__(
        self,
        ledger: Ledger,
        catalog: Catalog,
        slots: Mapping[str, int],
        options: WorkerOptions = WorkerOptions(),  # noqa: B008 - frozen
        on_settled: Callable[[], None] = lambda: None,
        shared: Mapping[str, Any] | None = None,
    ) -> None:
        self._process = this_process()
        self.id = f"{self._process.host.split('/')[0]}:{self._process.pid}:{secrets.token_hex(3)}"
        self._ledger = ledger
        self._catalog = catalog
        self._slots = checked(slots)
        self.queues = tuple(dict.fromkeys(q for slot in slots for q in queues_of(slot)))
        self._options = options
        self._on_settled = on_settled
        self._threads = ThreadPoolExecutor(
            sum(self._slots.values()), thread_name_prefix="gapless-job"
        )
        self._shared = Shared(shared)
        self._resources = Resources(ledger, self._threads, self._shared)
        self._runs: dict[Run, str] = {}
        self._ended: list[Outcome] = []
        self._selections: dict[str, Selection] = {}
        self._drift_checked: set[str] = set()
        self.started = asyncio.Event()
        self._wake = asyncio.Event()
        self._beat_now = asyncio.Event()
        self._draining = False
        self._polled_at = float("-inf")
        self._patience = options.poll_seconds
        self.ended: Counter[str] = Counter()  # outcomes written, by kind
        self.orphans = 0  # threads that were still busy when draining gave up on them

    async def run(self) -> None:
        """Works until drained; then closes what the runs have shared."""
        with about(worker=self.id):
            async with self._shared:
                await self._work()
                await self._ledger.end_worker(self.id)
            log(logging.INFO, "worker_stopped")

    async def _work(self) -> None:
        freed = await self.free_dead()
        slots = announced(self._slots, self._options.only)
        await self._ledger.register(self.id, self._process, slots)
        self.started.set()
        log(logging.INFO, "worker_started", slots=self._slots, freed=freed)
        self._ledger.on_notify(self.wake)
        heartbeats = asyncio.create_task(self._send_heartbeats(), name="gapless-heartbeats")
        heartbeats.add_done_callback(lambda _: self.wake())
        try:
            await self._take_turn()
            while not self._draining or self._runs or self._ended:
                await self._sleep()
                if heartbeats.done():
                    heartbeats.result()  # raises why: without them every lease would be lost
                await self._take_turn()
        finally:
            heartbeats.cancel()
            await asyncio.wait([heartbeats])
            self._interrupt_all()
            if leftover := [run.task for run in self._runs if run.task is not None]:
                await asyncio.wait(leftover)
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def free_dead(self) -> int:
        """Frees the leases of dead processes of this host; returns how many."""
        return await self._ledger.free_dead(self._process, is_alive)

    @property
    def slots(self) -> Mapping[str, int]:
        return self._slots

    @property
    def running(self) -> Counter[str]:
        """Chunks that run now, by slot."""
        return Counter(self._runs.values())

    def wake(self) -> None:
        """There may be work: look now."""
        self._wake.set()

    def drain(self) -> None:
        """Takes nothing new; ends or gives back what runs. A second call does not wait."""
        if self._draining:
            self._interrupt_all()
            return
        self._draining = True
        log(logging.INFO, "worker_draining", worker=self.id, running=len(self._runs))
        for run in self._runs:
            run.stop()
        asyncio.get_running_loop().call_later(self._options.drain_seconds, self._interrupt_all)
        self.wake()

    def _interrupt_all(self) -> None:
        for run in list(self._runs):
            if run.on_thread:
                self.orphans += 1
                self._ended.append(run.disown())
                del self._runs[run]
            else:
                run.interrupt()
        self.wake()

    # The ledger loop

    async def _take_turn(self) -> None:
        self._wake.clear()
        try:
            ended = await self._write_outcomes()
            polling = self._now() - self._polled_at >= self._options.poll_seconds
            if not self._draining:
                if polling:
                    await self._learn_jobs()
                await self._fill_slots()
            # No slot waits for what comes last.
            await (self._settle_all() if polling else self._settle_after(ended))
        except LedgerError as error:
            log(logging.WARNING, "ledger_unreachable", error=error)
            await asyncio.sleep(self._options.poll_seconds)
            self.wake()

    async def _sleep(self) -> None:
        """Until woken, or until it is time to look again."""
        try:
            async with asyncio.timeout(self._patience):
                await self._wake.wait()
        except TimeoutError:
            pass

    async def _learn_jobs(self) -> None:
        """Learns the jobs that backfills ask for by now."""
        before = set(self._catalog.unresolved)
        self._catalog.resolve(await self._ledger.active_jobs(self.queues))
        for job in self._catalog.unresolved.keys() - before:
            reason = self._catalog.unresolved[job]
            # Others may have jobs that this process was never given: that is worth no warning.
            level = logging.WARNING if self._catalog.importing else logging.DEBUG
            log(level, "job_unresolved", job=job, reason=reason)
            self._beat_now.set()

    async def _write_outcomes(self) -> list[Outcome]:
        ended, self._ended = self._ended, []
        try:
            await self._complete([each for each in ended if isinstance(each, Completed)])
            for outcome in ended:
                await self._write(outcome)
        except LedgerError:
            self._ended = ended + self._ended  # every write is idempotent: all of it again
            raise
        self.ended.update(type(each).__name__.lower() for each in ended)
        return ended

    async def _complete(self, done: list[Completed]) -> None:
        if not done:
            return
        covered = {each.claim.chunk_id: each.covered for each in done}
        lost = await self._ledger.complete([each.claim for each in done], covered)
        for claim in (each.claim for each in done):
            if claim.chunk_id in lost:
                _log_lost(claim)
            else:
                log(logging.DEBUG, "chunk_completed", chunk=claim.chunk_id, fence=claim.fence)

    async def _write(self, outcome: Outcome) -> None:
        claim = outcome.claim
        match outcome:
            case Completed():
                pass  # all of them at once, before
            case Failure():
                verdict = await self._ledger.fail(outcome)
                if verdict is None:
                    _log_lost(claim)
                    return
                error = f"{outcome.error_class}: {outcome.error_message}"
                fields = {"chunk": claim.chunk_id, "fence": claim.fence, "error": error}
                if verdict.status is Status.ABANDONED:
                    log(logging.ERROR, "chunk_abandoned", **fields)
                else:
                    log(
                        logging.WARNING,
                        "chunk_failed",
                        **fields,
                        retry_in=round(verdict.delay or 0.0, 3),
                    )
            case GivenBack():
                if await self._ledger.release(claim, outcome.progress):
                    log(logging.INFO, "chunk_given_back", chunk=claim.chunk_id, fence=claim.fence)
            case Dropped():
                _log_lost(claim)
            case _:
                assert_never(outcome)

    async def _settle_after(self, outcomes: list[Outcome]) -> None:
        """Ends what these outcomes may have been the last of."""
        if outcomes:
            claimed = {each.claim.backfill for each in outcomes}
            groups = {backfill.group for backfill in claimed if backfill.group}
            await self._settle(sorted({each.backfill_id for each in claimed}), sorted(groups))

    async def _settle_all(self) -> None:
        """Now and then, ends whatever nobody has ended: a crash may have come in between."""
        self._polled_at = self._now()
        await self._settle(None, None)

    async def _settle(self, backfills: list[str] | None, groups: list[str] | None) -> None:
        """Ends what is done and starts the hooks of drained groups; None stands for all."""
        ended = await self._ledger.settle(backfills)
        if groups is None or groups:
            for hook in await self._ledger.close_epochs(groups):
                log(logging.INFO, "group_drained", hook=hook.id)
                self._catalog.resolve([(hook.job, hook.job_version)])
                self.wake()
        if ended:
            self._on_settled()
        for backfill_id in ended:
            await self._tell_of_end(backfill_id)

    async def _tell_of_end(self, backfill_id: str) -> None:
        ended = await self._ledger.backfill(backfill_id)
        seconds = (ended.ended_at or ended.now) - (ended.started_at or ended.created_at)
        metrics.DURATION.observe(seconds)
        fields = {"backfill": backfill_id, "state": ended.state.lower()}
        log(logging.INFO, "backfill_settled", **fields, seconds=round(seconds, 3))

    async def _fill_slots(self) -> None:
        busy = self.running
        looked = self._now()
        for slot, count in self._slots.items():
            idle = count - busy[slot]
            while idle > 0 and not self._draining and (claims := await self._claim(slot, idle)):
                idle -= len(claims)
        self._patience = self._options.poll_seconds * random.uniform(0.75, 1.25)
        if len(self._runs) < sum(self._slots.values()):
            since = self._now() - looked
            due = await self._ledger.seconds_until_due(self.queues, since)
            if due is not None:
                self._patience = min(self._patience, max(due, 0.0))

    async def _claim(self, slot: str, count: int) -> list[Claim]:
        request = ClaimRequest(
            owner=self.id,
            claim_id=secrets.token_hex(8),
            queues=queues_of(slot),
            jobs=self._catalog.known,
            count=count,
            only=self._options.only,
        )
        sent = self._now()
        claims = await self._ledger.claim(request) if request.jobs else []
        for claim in claims:
            await self._start(claim, slot, sent)
        return claims

    async def _start(self, claim: Claim, slot: str, sent: float) -> None:
        job = self._catalog[claim.backfill.job]
        selection = await self._selection(claim)
        if self._draining:  # since the claim was sent
            self._ended.append(GivenBack(claim, Progress(claim.last_processed, claim.holes)))
            return
        run = Run(self._resources, claim, job, selection)
        self._runs[run] = slot
        run.lease_until(sent + trusted(claim.backfill.lease_seconds))
        run.start().add_done_callback(lambda task: self._end(run, task))
        self._beat_now.set()

    def _end(self, run: Run, task: asyncio.Task[Outcome]) -> None:
        if self._runs.pop(run, None) is not None and not task.cancelled():
            self._ended.append(task.result())
        self.wake()

    async def _selection(self, claim: Claim) -> Selection:
        digest = claim.backfill.selection
        if digest not in self._selections:
            self._selections[digest] = await self._ledger.selection(digest)
        if claim.backfill_id not in self._drift_checked:
            self._drift_checked.add(claim.backfill_id)
            await self._check_drift(claim, self._selections[digest])
        return self._selections[digest]

    async def _check_drift(self, claim: Claim, selection: Selection) -> None:
        backfill = await self._ledger.backfill(claim.backfill_id)
        scheme = self._catalog[claim.backfill.job].partitions
        drift = drift_of(backfill.selector, selection, scheme)
        if drift != backfill.drift:
            log(logging.WARNING, "catalog_drifted", backfill=claim.backfill_id, drift=drift)
            await self._ledger.note_drift(claim.backfill_id, drift)

    # The heartbeat loop

    async def _send_heartbeats(self) -> None:
        next_beat = self._now()
        while True:
            leases = [run.claim.backfill.lease_seconds for run in self._runs]
            pause = min([self._options.heartbeat_seconds, *(lease / 6 for lease in leases)])
            next_beat = min(next_beat, self._now() + pause)
            try:
                async with asyncio.timeout(next_beat - self._now()):
                    await self._beat_now.wait()
                self._beat_now.clear()
            except TimeoutError:
                next_beat = self._now() + pause
                try:
                    await self._beat()
                except LedgerError as error:
                    log(logging.WARNING, "ledger_unreachable", error=error)

    async def _beat(self) -> None:
        runs = [run for run in self._runs if not run.in_transaction]
        sent = self._now()
        if runs:
            signals = await self._ledger.heartbeat([(run.claim, run.progress) for run in runs])
            for run in runs:
                self._obey(run, signals[run.claim.chunk_id], sent)
        await self._ledger.see_worker(self.id, self._catalog.unresolved)

    def _obey(self, run: Run, signal: Signal, sent: float) -> None:
        if run not in self._runs:
            return  # it has ended by itself while the heartbeat was on its way
        if signal is Signal.LOST:
            run.lose()
            return
        run.lease_until(sent + trusted(run.claim.backfill.lease_seconds))
        if signal is Signal.STOP:
            run.stop()

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


def _log_lost(claim: Claim) -> None:
    log(logging.WARNING, "lease_lost", chunk=claim.chunk_id, fence=claim.fence)
