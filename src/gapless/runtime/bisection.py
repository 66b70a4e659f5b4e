"""Doing a chunk whatever of it is bad: by halves, around the partitions that fail for good.

An error is final if no later run would change anything: the job says so with a `PermanentError`,
or the retry policy has no try left. Then what remains is halved until each culprit is alone, and
left out as a hole. An error that names its culprit saves the search. An error that is not about the
partitions (the ledger or the endpoints are gone, the run must stop, the job's code is wrong) ends
the run at once.
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
"""More bad partitions than these in one chunk, and the rest is given up unseen."""


class JobFailed(Exception):
    """The job raised an error from which the run cannot go on."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


class Bisection:
    """The way through one chunk; `call` runs the job over a span and returns what it raised."""

    def __init__(
        self,
        claim: Claim,
        reached: Reached,
        call: Callable[[Span], Awaitable[BaseException | None]],
        ends_run: Callable[[BaseException], bool],
    ) -> None:
        self.culprit: BaseException | None = None  # the first error that left something out
        self._claim = claim
        self._reached = reached
        self._call = call
        self._ends_run = ends_run
        self._culprits = 0
        self._last_try = False

    async def go(self) -> None:
        """Resumes after what is done; then tries again what an earlier run has left out.

        That run has not come to its end, or its policy never gives up: so nobody has given up yet.
        """
        if self._reached.next <= self._claim.span.last:
            await self._process(Span(self._reached.next, self._claim.span.last))
        for hole in self._claim.holes.spans:
            self._reached.heal(hole)
            await self._process(hole)

    async def _process(self, span: Span) -> None:
        """Runs the job over a span, and if it fails for good, over its halves."""
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
        """Leaves some out; of those before them nobody knows yet whether they are done."""
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
        """The positions of the partitions that an error blames, if they are among these."""
        for each in members(error):
            if not isinstance(each, PermanentError):
                continue
            with suppress(Exception):  # whatever was named, it is not a partition of the chunk
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
