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
    │   ├── ChangesPruned     changes were deleted before they were read: start with the rows
    │   ├── Orphaned          its blocks are not on the node's chain: repair it; exit code 1
    │   └── SinkUnusable      it is not a sink, or not one for this
    ├── PublisherError        a stream cannot take what it is given
    │   ├── StreamUnreachable it does not answer: a publisher keeps trying, a command gives up
    │   ├── StreamRefused     another publisher leads, or the stream says something else: read again
    │   └── StreamUnusable    it is not a stream, or not one for this
    ├── OutputError           the file that is to be written cannot be: exit code 1
    └── JobError              raised by a job, or about one
        ├── TransientError    trying again later may help: the retry policy decides
        ├── PermanentError    trying again cannot help: the run goes on without the culprit
        ├── BadJob            the job's code is wrong, whatever the partition: not tried again
        └── RunTimeout        the run took longer than the backfill allows: the policy decides

    RunStopped                no failure, and no Exception that a job might swallow by accident
    ├── StopRequested         cancel or drain: what is done is kept, the rest is given back
    └── LeaseLost             someone else owns the chunk: drop the work, write nothing

An error says what happened. Its `code` names the kind for programs and never changes. Its `hint`
says what a person can do, in a sentence that fits every interface; where an interface has words of
its own for that, `remedy` has the advice as a value.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gapless.core.partitions import Partition
    from gapless.core.ranges import RangeSet, Span
    from gapless.core.remedies import AnyRemedy


class GaplessError(Exception):
    """Something went wrong in Gapless."""

    code = "gapless_error"
    exit_code = 2  # of a command that ends with it
    # Also of a class of a job's own that does not call `__init__`.
    hint: str | None = None
    remedy: AnyRemedy | None = None

    def __init__(
        self, message: str = "", *, hint: str | None = None, remedy: AnyRemedy | None = None
    ) -> None:
        super().__init__(message or self.__doc__ or type(self).__name__)
        self.remedy = remedy
        self.hint = str(remedy) if hint is None and remedy is not None else hint


class UsageError(GaplessError):
    """The request is wrong; nothing was written."""

    code = "usage_error"


class BadSelector(UsageError):
    """The selector selects nothing, or names partitions that do not exist."""

    code = "bad_selector"


class UnknownJob(UsageError):
    """The job cannot be found."""

    code = "unknown_job"


class NotFound(UsageError):
    """There is no such backfill or chunk in this ledger."""

    code = "not_found"


class WrongState(UsageError):
    """The command does not fit the state."""

    code = "wrong_state"


class Conflict(UsageError):
    """The id belongs to a different request."""

    code = "conflict"


class LedgerError(GaplessError):
    """The ledger cannot serve this process."""

    code = "ledger_error"


class LedgerUnreachable(LedgerError):
    """The ledger does not answer, or cannot serve for now."""

    code = "ledger_unreachable"


class LedgerBusy(LedgerUnreachable):
    """Someone else holds a lock on these rows."""

    code = "ledger_busy"


class Unreadable(LedgerError):
    """A row of the ledger cannot be understood; `backfill_id` is set where it is known whose."""

    code = "unreadable"

    def __init__(
        self,
        message: str,
        *,
        backfill_id: str | None = None,
        hint: str | None = None,
        remedy: AnyRemedy | None = None,
    ) -> None:
        super().__init__(message, hint=hint, remedy=remedy)
        self.backfill_id = backfill_id


class SchemaMismatch(LedgerError):
    """The ledger's schema is not the one this version works with."""

    code = "schema_mismatch"


class LibraryMismatch(LedgerError):
    """Another live process uses this ledger with a different library."""

    code = "library_mismatch"


class SourceError(GaplessError):
    """A source's answer cannot be used."""

    code = "source_error"


class Unavailable(SourceError):
    """No endpoint answers."""

    code = "unavailable"


class MissingHistory(SourceError):
    """No endpoint has blocks this old."""

    code = "missing_history"

    def __init__(self, message: str, *, height: int, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.height = height


class BadAnswer(SourceError):
    """The node's answer is malformed."""

    code = "bad_answer"


class BadBlock(BadAnswer):
    """The block does not hold together: `check` names what failed, at `height`."""

    code = "bad_block"

    def __init__(
        self, message: str, *, height: int, check: str, remedy: AnyRemedy | None = None
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.height = height
        self.check = check

    def __reduce__(self) -> tuple[partial[BadBlock], tuple[str]]:
        # Checks may run in another process, and the refusal has to come back whole.
        again = partial(BadBlock, height=self.height, check=self.check, remedy=self.remedy)
        return again, (str(self),)


class SinkError(GaplessError):
    """A sink cannot take what it is given."""

    code = "sink_error"


class FencedOff(SinkError):
    """A newer run has touched the range.

    `stored` is the part of it that such runs have written, in all tables that were to be written:
    that part is done. The rest was retracted, or holds other tables.
    """

    code = "fenced_off"

    def __init__(self, message: str, *, stored: RangeSet) -> None:
        super().__init__(message)
        self.stored = stored


class BrokenSeam(SinkError):
    """A stored neighbour is of another branch: the block at `height`, before or behind."""

    code = "broken_seam"

    def __init__(self, message: str, *, height: int) -> None:
        super().__init__(message)
        self.height = height


class Damaged(SinkError):
    """Rows of `dataset` cannot be read in `span`, although the sink says that it holds them."""

    code = "damaged"
    exit_code = 1

    def __init__(
        self, message: str, *, dataset: str, span: Span, remedy: AnyRemedy | None = None
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.dataset = dataset
        self.span = span


class Incomplete(SinkError):
    """The sink does not hold all that was asked of it."""

    code = "incomplete"
    exit_code = 1


class ChangesPruned(SinkError):
    """Changes were deleted that this reader has not seen."""

    code = "changes_pruned"
    exit_code = 1


class Orphaned(SinkError):
    """Stored blocks, at the heights `stale`, are not on the chain of the node."""

    code = "orphaned"
    exit_code = 1

    def __init__(self, message: str, *, stale: RangeSet, remedy: AnyRemedy) -> None:
        super().__init__(message, remedy=remedy)
        self.stale = stale


class SinkUnusable(SinkError):
    """It is not a sink, or not one for this."""

    code = "sink_unusable"


class PublisherError(GaplessError):
    """A stream cannot take what it is given."""

    code = "publisher_error"
    exit_code = 1


class StreamUnreachable(PublisherError):
    """The server of a stream does not answer, or cannot serve for now."""

    code = "stream_unreachable"


class StreamRefused(PublisherError):
    """The stream's own record does not allow this write; nothing was written."""

    code = "stream_refused"


class StreamUnusable(PublisherError):
    """It is not a stream, or not one for this."""

    code = "stream_unusable"
    exit_code = 2


class OutputError(GaplessError):
    """A file cannot be written."""

    code = "output_error"
    exit_code = 1


class JobError(GaplessError):
    """A job failed."""

    code = "job_error"


class TransientError(JobError):
    """Trying again later may help."""

    code = "transient_error"


class PermanentError(JobError):
    """Trying again cannot help.

    If the job knows which partition is to blame, `partition` names it, and the run need not search;
    `through` names the last one, if all from the one to the other are.
    """

    code = "permanent_error"
    partition: Partition | None = None
    through: Partition | None = None

    def __init__(
        self,
        message: str = "",
        *,
        partition: Partition | None = None,
        through: Partition | None = None,
        hint: str | None = None,
        remedy: AnyRemedy | None = None,
    ) -> None:
        super().__init__(message, hint=hint, remedy=remedy)
        self.partition = partition
        self.through = partition if through is None else through


class BadJob(JobError):
    """The job's code is wrong: no partition is to blame, and trying again cannot help."""

    code = "bad_job"


class RunTimeout(JobError):
    """The run took longer than the backfill allows."""

    code = "run_timeout"


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
