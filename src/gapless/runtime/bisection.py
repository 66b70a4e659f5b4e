"""Completes a chunk around partitions that fail permanently, by bisection.

An error is final if no later run would succeed: the job raised a `PermanentError`, or the retry
policy allows no further attempt. The remaining partitions are then halved until each failing one is
isolated and left out as a hole. An error that names the failing partitions saves the search. An
error that is not about the partitions (the ledger or the endpoints are unreachable, the run must
stop, the job's code is wrong) ends the run at once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

from gapless.core.chunk import after_failure
from gapless.core.errors import BadJob, PermanentError, has, members
from gapless.core.ranges import Span
from gapless.core.retry import BLAMELESS
from gapless.ledger.records import Claim
from gapless.runtime.reached import Reached

MAX_CULPRITS = 16
"""Failing partitions per chunk after which the rest is given up without another attempt."""


class JobFailed(Exception):
    """The job raised an error after which the run cannot continue."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


class Bisection:
    """Works through one chunk; `call` runs the job over a span and returns what it raised."""

    def __init__(
        self,
        claim: Claim,
        reached: Reached,
        call: Callable[[Span], Awaitable[BaseException | None]],
        ends_run: Callable[[BaseException], bool],
    ) -> None:
        self.culprit: BaseException | None = None  # the first error that left a hole
        self._claim = claim
        self._reached = reached
        self._call = call
        self._ends_run = ends_run
        self._culprits = 0
        self._last_try = False

    async def go(self) -> None:
        """Resumes after the recorded progress, then retries the holes of earlier runs.

        Those runs did not finish, or their policy never gives up, so the holes are not final.
        """
        if self._reached.next <= self._claim.span.last:
            await self._process(Span(self._reached.next, self._claim.span.last))
        for hole in self._claim.holes.spans:
            self._reached.heal(hole)
            await self._process(hole)

    async def _process(self, span: Span) -> None:
        """Runs the job over a span and, if it fails permanently, over its halves."""
        error = await self._call(span)
        if error is None:
            self._reached.advance(span.last)
            return
        if not self._is_final(error):
            raise JobFailed(error)
        rest = Span(min(max(span.first, self._reached.next), span.last), span.last)
        if rest.size == 1 or self._culprits >= MAX_CULPRITS:
            self._leave_out(rest, error)
        elif (culprits := self._named_in(rest, error)) is not None:
            await self._process_around(culprits, rest, error)
        else:
            middle = (rest.first + rest.last) // 2
            await self._process(Span(rest.first, middle))
            await self._process(Span(middle + 1, rest.last))

    async def _process_around(self, culprits: Span, span: Span, error: BaseException) -> None:
        """Leaves the culprits out; whether the partitions before them are done is unknown."""
        if span.first < culprits.first:
            await self._process(Span(span.first, culprits.first - 1))
        self._leave_out(culprits, error)
        if culprits.last < span.last:
            await self._process(Span(culprits.last + 1, span.last))

    def _leave_out(self, span: Span, error: BaseException) -> None:
        self._culprits += 1
        if self.culprit is None:
            self.culprit = error
        self._reached.leave_out(span)

    def _named_in(self, span: Span, error: BaseException) -> Span | None:
        """The positions of the partitions that an error names, if they are in the span."""
        for each in members(error):
            if not isinstance(each, PermanentError):
                continue
            with suppress(Exception):  # the error names no partition of this chunk
                if each.partition is None or each.through is None:
                    continue
                first, last = map(self._reached.position, (each.partition, each.through))
                if span.first <= first <= last <= span.last:
                    return Span(first, last)
        return None

    def _is_final(self, error: BaseException) -> bool:
        if self._ends_run(error) or has(error, *BLAMELESS, BadJob):
            return False
        if not self._last_try:
            verdict = after_failure(
                self._claim.backfill.retry,
                self._claim.failures,
                progressed=self._reached.last != self._claim.last_failure_position,
                permanent=False,
                chance=0.0,
            )
            self._last_try = verdict.delay is None
        return self._last_try or has(error, PermanentError)
