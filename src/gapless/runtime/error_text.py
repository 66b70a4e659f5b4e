"""How an exception becomes words, for the ledger, the log and whoever reads them.

A job may raise anything: a text of megabytes, characters that no database takes, a URL with its
API key, an object whose `__str__` raises in turn. What comes out of here is short, can be stored
anywhere and holds no URL beyond its host; and something always comes out.

Texts are cut before they are redacted, because that takes time in proportion to the text, and
again afterwards.
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

_LINE_LIMIT = 1_000  # of one entry of a traceback
_FRAMES = 30  # of one exception, the innermost
_MEMBERS = 5  # of a group that are named
_TRACED = 1_000  # members of a group; of a larger one, only the first is
_CALLER = "gapless.runtime.calls"  # the frames above the job's function


@dataclass(frozen=True)
class ErrorText:
    """An exception in words."""

    name: str
    message: str
    traceback: str | None = None


def describe(error: BaseException) -> ErrorText:
    """The class of an error, what it says, and where it was raised."""
    return ErrorText(name_of(error), message_of(error), _traceback_of(error))


def name_of(error: BaseException) -> str:
    try:
        return _clean(type(error).__name__, CLASS_LIMIT)
    except BaseException:  # noqa: BLE001 - a metaclass may raise anything
        return "Exception"


def message_of(error: BaseException) -> str:
    """What an error says; a group says what its members do."""
    if not isinstance(error, BaseExceptionGroup):
        return _clean(_text_of(error), MESSAGE_LIMIT) or "(no message)"
    found = members(error)
    said = [f"{name_of(each)}: {message_of(each)}" for each in found[:_MEMBERS]]
    if len(found) > _MEMBERS:
        said.append(f"and {len(found) - _MEMBERS} more")
    share = MESSAGE_LIMIT // len(said)
    return head("; ".join(head(each, share) for each in said), MESSAGE_LIMIT)


def stack_of(frame: FrameType) -> str | None:
    """Where the thread of a job is now."""
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
    except BaseException as broken:  # noqa: BLE001 - foreign classes are asked for their names
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
