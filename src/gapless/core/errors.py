"""Every error of Gapless, divided by what happens next.

    GaplessError
    ├── UsageError            the request is wrong: nothing was written, exit code 2
    │   ├── BadSelector       a range, key or filter that selects nothing or makes no sense
    │   ├── UnknownJob        the job cannot be imported, or is not a job
    │   ├── NotFound          no such backfill or chunk
    │   ├── WrongState        the command does not fit the backfill's state
    │   └── Conflict          the id is taken by a different request
    ├── LedgerError           the ledger cannot serve this process
    │   ├── LedgerUnreachable it cannot serve for now: a worker keeps trying, a command gives up
    │   │   └── LedgerBusy    others hold locks on the rows in question: the rest can be served
    │   ├── Unreadable        a row that nobody understands: its backfill fails, others go on
    │   ├── SchemaMismatch    the ledger's schema is older or newer than this library
    │   └── LibraryMismatch   a live process uses this ledger with another library
    ├── SourceError           a node's answer cannot be used: ask again, then elsewhere
    │   ├── Unavailable       no endpoint answers for now: the retry policy decides
    │   ├── MissingHistory    no endpoint has blocks this old: only another endpoint helps
    │   └── BadAnswer         the answer is malformed: it is never stored
    │       └── BadBlock      a block that contradicts itself or what its chain committed to
    ├── SinkError             a sink cannot take what it is given
    │   ├── FencedOff         a newer run has touched the range: nothing was written
    │   ├── BrokenSeam        a stored neighbour is of another branch: nothing was written
    │   ├── Damaged           stored rows cannot be read: repair the range; exit code 1
    │   ├── Incomplete        it does not hold all that was asked of it: exit code 1
    │   ├── Orphaned          its blocks are not on the node's chain: repair it; exit code 1
    │   └── SinkUnusable      it is no sink, or not one for this
    ├── OutputError           the file that is to be written cannot be: exit code 1
    └── JobError              raised by a job, or about one
        ├── TransientError    trying again later may help: the retry policy decides
        ├── PermanentError    trying again cannot help: the run goes on without the culprit
        ├── BadJob            the job's code is wrong, whatever the partition: not tried again
        └── RunTimeout        the run took longer than the backfill allows: the policy decides

    RunStopped                no failure, and no Exception that a job might swallow by accident
    ├── StopRequested         cancel or drain: what is done is kept, the rest is given back
    └── LeaseLost             someone else owns the chunk: drop the work, write nothing

An error says what happened, and its `hint` what the person can do about it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gapless.core.partitions import Partition
    from gapless.core.ranges import RangeSet, Span


class GaplessError(Exception):
    """Something went wrong in Gapless."""

    exit_code = 2  # of a command that ends with it
    hint: str | None = None  # also of a class of a job's own that does not call `__init__`

    def __init__(self, message: str = "", *, hint: str | None = None) -> None:
        super().__init__(message or self.__doc__ or type(self).__name__)
        self.hint = hint


class UsageError(GaplessError):
    """The request is wrong; nothing was written."""


class BadSelector(UsageError):
    """The selector selects nothing, or names partitions that do not exist."""


class UnknownJob(UsageError):
    """The job cannot be found."""


class NotFound(UsageError):
    """There is no such backfill or chunk in this ledger."""


class WrongState(UsageError):
    """The command does not fit the state."""


class Conflict(UsageError):
    """The id belongs to a different request."""


class LedgerError(GaplessError):
    """The ledger cannot serve this process."""


class LedgerUnreachable(LedgerError):
    """The ledger does not answer, or cannot serve for now."""


class LedgerBusy(LedgerUnreachable):
    """Someone else holds a lock on these rows."""


class Unreadable(LedgerError):
    """A row of the ledger cannot be understood; `backfill_id` is set where it is known whose."""

    def __init__(
        self, message: str, *, backfill_id: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.backfill_id = backfill_id


class SchemaMismatch(LedgerError):
    """The ledger's schema is not the one this version works with."""


class LibraryMismatch(LedgerError):
    """Another live process uses this ledger with a different library."""


class SourceError(GaplessError):
    """A source's answer cannot be used."""


class Unavailable(SourceError):
    """No endpoint answers."""


class MissingHistory(SourceError):
    """No endpoint has blocks this old."""

    def __init__(self, message: str, *, height: int, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.height = height


class BadAnswer(SourceError):
    """The node's answer is malformed."""


class BadBlock(BadAnswer):
    """The block does not hold together: `check` names what failed, at `height`."""

    def __init__(self, message: str, *, height: int, check: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.height = height
        self.check = check

    def __reduce__(self) -> tuple[partial[BadBlock], tuple[str]]:
        # Checks may run in another process, and the refusal has to come back whole.
        told = partial(BadBlock, height=self.height, check=self.check, hint=self.hint)
        return told, (str(self),)


class SinkError(GaplessError):
    """A sink cannot take what it is given."""


class FencedOff(SinkError):
    """A newer run has touched the range.

    `stored` is the part of it that such runs have written, in all tables that were to be written:
    that part is done. The rest was retracted, or holds other tables.
    """

    def __init__(self, message: str, *, stored: RangeSet) -> None:
        super().__init__(message)
        self.stored = stored


class BrokenSeam(SinkError):
    """A stored neighbour is of another branch: the block at `height`, before or behind."""

    def __init__(self, message: str, *, height: int) -> None:
        super().__init__(message)
        self.height = height


class Damaged(SinkError):
    """Rows of `dataset` cannot be read in `span`, although the sink says that it holds them."""

    exit_code = 1

    def __init__(self, message: str, *, dataset: str, span: Span, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.dataset = dataset
        self.span = span


class Incomplete(SinkError):
    """The sink does not hold all that was asked of it."""

    exit_code = 1


class Orphaned(SinkError):
    """Stored blocks, at the heights `stale`, are not on the chain of the node."""

    exit_code = 1

    def __init__(self, message: str, *, stale: RangeSet, hint: str) -> None:
        super().__init__(message, hint=hint)
        self.stale = stale


class SinkUnusable(SinkError):
    """It is no sink, or not one for this."""


class OutputError(GaplessError):
    """A file cannot be written."""

    exit_code = 1


class JobError(GaplessError):
    """A job failed."""


class TransientError(JobError):
    """Trying again later may help."""


class PermanentError(JobError):
    """Trying again cannot help.

    If the job knows which partition is to blame, `partition` names it, and the run need not search;
    `through` names the last one, if all from the one to the other are.
    """

    partition: Partition | None = None
    through: Partition | None = None

    def __init__(
        self,
        message: str = "",
        *,
        partition: Partition | None = None,
        through: Partition | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.partition = partition
        self.through = partition if through is None else through


class BadJob(JobError):
    """The job's code is wrong: no partition is to blame, and trying again cannot help."""


class RunTimeout(JobError):
    """The run took longer than the backfill allows."""


class RunStopped(BaseException):
    """The run must end now."""


class StopRequested(RunStopped):
    """The backfill is being cancelled, or the worker drains."""


class LeaseLost(RunStopped):
    """The chunk belongs to someone else by now."""


_grouped: Callable[[BaseException], tuple[BaseException, ...]]
_grouped = vars(BaseExceptionGroup)["exceptions"].__get__
"""What a group was made of, whatever its class makes of that: never nothing, and never itself."""


def members(error: BaseException) -> list[BaseException]:
    """The errors that a group stands for, however deep it is nested; of any other, itself."""
    found: list[BaseException] = []
    left = [error]
    while left:
        each = left.pop()
        if isinstance(each, BaseExceptionGroup):
            left += reversed(_grouped(each))
        else:
            found.append(each)
    return found


def has(error: BaseException, *kinds: type[BaseException]) -> bool:
    """Whether an error is of one of these kinds, or a group with such a member."""
    return any(isinstance(each, kinds) for each in members(error))
