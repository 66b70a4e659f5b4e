"""Writes the outcomes of runs to the ledger.

Pending outcomes are written in as few transactions as possible. An outcome that cannot be written
now is kept and written later: every write is idempotent. An outcome whose rows are locked by
another transaction is set aside for a while, so that it does not delay the others.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import assert_never

from gapless.core.chunk import Status
from gapless.core.errors import LedgerBusy
from gapless.ledger import Ledger
from gapless.ledger.records import Claim, Failure
from gapless.runtime.run import Completed, Dropped, GivenBack, Outcome
from gapless.telemetry import log, metrics

ASIDE_SECONDS = 10.0


class Outcomes:
    """The pending outcomes, and the number of written ones."""

    def __init__(self, ledger: Ledger, now: Callable[[], float]) -> None:
        self._ledger = ledger
        self._now = now
        self._waiting: list[Outcome] = []
        self._aside: list[tuple[float, Outcome]] = []
        self.written: Counter[str] = Counter()  # by kind

    def __len__(self) -> int:
        return len(self._waiting) + len(self._aside)

    def add(self, outcome: Outcome) -> None:
        self._waiting.append(outcome)

    async def write(self) -> list[Outcome]:
        """Writes pending outcomes; returns those that were written."""
        written: list[Outcome] = []
        batches = deque(_batches(self._take()))
        while batches:
            batch = batches.popleft()
            try:
                await self._write(batch)
            except LedgerBusy:
                if len(batch) > 1:
                    batches.extendleft([each] for each in reversed(batch))
                else:
                    self._aside.append((self._now() + ASIDE_SECONDS, batch[0]))
            except BaseException:  # also on cancellation: the worker must know what was not written
                self._waiting = [*batch, *chain.from_iterable(batches), *self._waiting]
                raise
            else:
                written += batch
                self.written.update(type(each).__name__.lower() for each in batch)
        return written

    def _take(self) -> list[Outcome]:
        now = self._now()
        due = [outcome for when, outcome in self._aside if when <= now]
        self._aside = [(when, outcome) for when, outcome in self._aside if when > now]
        taken, self._waiting = [*due, *self._waiting], []
        return taken

    async def _write(self, batch: Sequence[Outcome]) -> None:
        match batch[0]:
            case Completed():
                await self._complete([each for each in batch if isinstance(each, Completed)])
            case Failure() as failure:
                await self._fail(failure)
            case GivenBack(claim, progress):
                if await self._ledger.release(claim, progress):
                    log(logging.INFO, "chunk_given_back", chunk=claim.chunk_id, fence=claim.fence)
            case Dropped(claim):
                _log_lost(claim)
            case _ as never:
                assert_never(never)

    async def _complete(self, done: Sequence[Completed]) -> None:
        lost = await self._ledger.complete([each.claim for each in done])
        for claim in (each.claim for each in done):
            if claim.chunk_id in lost:
                _log_lost(claim)
            else:
                metrics.PARTITIONS.add(claim.span.size)
                log(logging.DEBUG, "chunk_completed", chunk=claim.chunk_id, fence=claim.fence)

    async def _fail(self, failure: Failure) -> None:
        claim = failure.claim
        verdict = await self._ledger.fail(failure)
        if verdict is None:
            _log_lost(claim)
            return
        error = f"{failure.error_class}: {failure.error_message}"
        fields = {"chunk": claim.chunk_id, "fence": claim.fence, "error": error}
        if verdict.status is Status.ABANDONED:
            log(logging.ERROR, "chunk_abandoned", **fields)
        else:
            retry_in = round(verdict.delay or 0.0, 3)
            log(logging.WARNING, "chunk_failed", **fields, retry_in=retry_in)


def _batches(outcomes: Sequence[Outcome]) -> Iterator[list[Outcome]]:
    """Groups outcomes by transaction: all completed ones together, every other one alone."""
    if completed := [each for each in outcomes if isinstance(each, Completed)]:
        yield list(completed)
    for each in outcomes:
        if not isinstance(each, Completed):
            yield [each]


def _log_lost(claim: Claim) -> None:
    log(logging.WARNING, "lease_lost", chunk=claim.chunk_id, fence=claim.fence)
