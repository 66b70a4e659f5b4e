"""Every error says what happened; its place in the tree says what happens next."""

from __future__ import annotations

import inspect
import pickle
import re

import pytest

from gapless.core import errors
from gapless.core.errors import GaplessError, UsageError
from gapless.core.remedies import EndBackfill
from gapless.providers import Refused


def _needs_no_words(error: type[GaplessError]) -> bool:
    parameters = inspect.signature(error).parameters.values()
    return all(parameter.default is not inspect.Parameter.empty for parameter in parameters)


CLASSES = [
    each
    for _, each in inspect.getmembers(errors, inspect.isclass)
    if issubclass(each, GaplessError)
]


@pytest.mark.parametrize("error", [each for each in CLASSES if _needs_no_words(each)])
def test_an_error_without_a_message_uses_that_of_its_class(
    error: type[GaplessError],
) -> None:
    assert error.__doc__
    assert str(error()) == error.__doc__
    assert error().hint is None


def test_an_error_carries_its_message_and_a_hint() -> None:
    error = UsageError("what happened", hint="what to do")
    assert (str(error), error.hint) == ("what happened", "what to do")


def test_a_remedy_is_a_hint_in_plain_words() -> None:
    error = UsageError("what happened", remedy=EndBackfill("bf_1"))
    assert error.hint == "wait until `bf_1` has ended, or cancel it first"
    own = UsageError("what happened", hint="what to do", remedy=EndBackfill("bf_1"))
    assert (own.hint, own.remedy) == ("what to do", EndBackfill("bf_1"))


CODES = {
    "BadAnswer": "bad_answer",
    "BadBlock": "bad_block",
    "BadJob": "bad_job",
    "BadSelector": "bad_selector",
    "BrokenSeam": "broken_seam",
    "ChangesPruned": "changes_pruned",
    "Conflict": "conflict",
    "Damaged": "damaged",
    "FencedOff": "fenced_off",
    "GaplessError": "gapless_error",
    "Incomplete": "incomplete",
    "JobError": "job_error",
    "LedgerBusy": "ledger_busy",
    "LedgerError": "ledger_error",
    "LedgerUnreachable": "ledger_unreachable",
    "LibraryMismatch": "library_mismatch",
    "MissingHistory": "missing_history",
    "NotFound": "not_found",
    "Orphaned": "orphaned",
    "OutputError": "output_error",
    "PermanentError": "permanent_error",
    "PublisherError": "publisher_error",
    "Refused": "refused",
    "RunTimeout": "run_timeout",
    "SchemaMismatch": "schema_mismatch",
    "SinkError": "sink_error",
    "SinkUnusable": "sink_unusable",
    "SourceError": "source_error",
    "StreamRefused": "stream_refused",
    "StreamUnreachable": "stream_unreachable",
    "StreamUnusable": "stream_unusable",
    "TransientError": "transient_error",
    "Unavailable": "unavailable",
    "UnknownJob": "unknown_job",
    "Unreadable": "unreadable",
    "UsageError": "usage_error",
    "WrongState": "wrong_state",
}


def test_codes_are_stable() -> None:
    classes: list[type[GaplessError]] = [*CLASSES, Refused]
    assert {each.__name__: each.code for each in classes} == CODES


def test_an_error_can_be_sent_to_another_process() -> None:
    again = pickle.loads(pickle.dumps(UsageError("what happened", hint="what to do")))
    assert (type(again), str(again), again.hint) == (UsageError, "what happened", "what to do")


@pytest.mark.parametrize("error", [each for each in CLASSES if each is not GaplessError])
def test_every_error_belongs_to_one_branch(error: type[GaplessError]) -> None:
    assert sum(issubclass(error, branch) for branch in GaplessError.__subclasses__()) == 1


def test_the_tree_in_the_docstring_is_right() -> None:
    drawn: dict[str, str] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        if found := re.match(r"    ([│ ]*)(?:[├└]── )?([A-Z]\w+)(?: +\S.*)?$", line):
            depth = (line.index(found[2]) - 4) // 4
            path[depth:] = [found[2]]
            drawn[found[2]] = path[depth - 1] if depth else ""
    named = {
        name: base if (base := each.__bases__[0].__name__) in drawn else ""
        for name, each in inspect.getmembers(errors, inspect.isclass)
        if each.__module__ == errors.__name__
    }
    assert drawn == named


def test_a_job_cannot_swallow_a_stop_by_accident() -> None:
    for stop in (errors.StopRequested, errors.LeaseLost):
        assert issubclass(stop, errors.RunStopped)
        assert not issubclass(stop, Exception)
