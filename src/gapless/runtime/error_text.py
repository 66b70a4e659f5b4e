"""Converts an exception to text for the ledger and the log.

A job may raise anything: megabytes of text, characters that no database accepts, a URL with its API
key, an object whose `__str__` raises. The text returned here is short, can be stored anywhere and
shows at most the host of a URL; and there always is a text.

Texts are truncated before they are redacted, because redaction takes time in proportion to the
text, and again afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from traceback import StackSummary, TracebackException, walk_stack
from types import FrameType, TracebackType

from gapless.core.errors import members
from gapless.core.redaction import redact
from gapless.core.text import head, storable, tail
from gapless.ledger.records import CLASS_LIMIT, MESSAGE_LIMIT, TRACEBACK_LIMIT

_LINE_LIMIT = 1_000  # characters of one traceback entry
_FRAMES = 30  # innermost frames shown per exception
_MEMBERS = 5  # members of an exception group that are listed
_TRACED = 1_000  # largest group whose members are all traced; otherwise only the first is
_CALLER = "gapless.runtime.calls"  # the module of the frames above the job's function


@dataclass(frozen=True)
class ErrorText:
    """An exception as text."""

    name: str
    message: str
    traceback: str | None = None


def describe(error: BaseException) -> ErrorText:
    """The class of an error, its message and its traceback."""
    return ErrorText(name_of(error), message_of(error), _traceback_of(error))


def name_of(error: BaseException) -> str:
    try:
        return _clean(type(error).__name__, CLASS_LIMIT)
    except BaseException:  # noqa: BLE001 - a metaclass may raise anything
        return "Exception"


def message_of(error: BaseException) -> str:
    """The message of an error; for a group, the messages of its members."""
    if not isinstance(error, BaseExceptionGroup):
        return _clean(_text_of(error), MESSAGE_LIMIT) or "(no message)"
    found = members(error)
    said = [f"{name_of(each)}: {message_of(each)}" for each in found[:_MEMBERS]]
    if len(found) > _MEMBERS:
        said.append(f"and {len(found) - _MEMBERS} more")
    share = MESSAGE_LIMIT // len(said)
    return head("; ".join(head(each, share) for each in said), MESSAGE_LIMIT)


def stack_of(frame: FrameType) -> str | None:
    """The current stack of a job's thread."""
    below = takewhile(lambda it: _module(it[0]) != _CALLER, walk_stack(frame))
    summary = StackSummary.extract(below, limit=_FRAMES)
    summary.reverse()
    return _clean_lines(summary.format())


def _traceback_of(error: BaseException) -> str | None:
    try:
        if len(found := members(error)) > _TRACED:
            error = found[0]
        frames = _below_the_caller(error.__traceback__)
        if frames is None and not isinstance(error, BaseExceptionGroup):
            return None
        whole = TracebackException(type(error), error, frames, limit=-_FRAMES, compact=True)
        return _clean_lines(list(whole.format()))
    except BaseException as broken:  # noqa: BLE001 - formatting runs code of foreign classes
        return f"(the traceback cannot be shown: {name_of(broken)})"


def _below_the_caller(frames: TracebackType | None) -> TracebackType | None:
    while frames is not None and _module(frames.tb_frame) == _CALLER:
        frames = frames.tb_next
    return frames


def _module(frame: FrameType) -> object:
    return frame.f_globals.get("__name__")


def _text_of(error: BaseException) -> str:
    try:
        return str.__str__(str(error))  # without the methods of a subclass of `str`
    except BaseException as broken:  # noqa: BLE001 - a job's own class may raise anything
        return f"(no message: its `__str__` raised {name_of(broken)})"


def _clean(text: str, limit: int) -> str:
    return head(storable(redact(head(text, 4 * limit))), limit)


def _clean_lines(entries: list[str]) -> str | None:
    text = "".join(head(entry, _LINE_LIMIT).rstrip("\n") + "\n" for entry in entries)
    return tail(storable(redact(tail(text, 4 * TRACEBACK_LIMIT))), TRACEBACK_LIMIT) or None
