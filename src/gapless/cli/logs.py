"""The log of a process in the foreground: lines on stderr, for people or as JSON."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import msgspec

from gapless.cli.figures import plain
from gapless.cli.options import note


class _Lines(logging.Handler):
    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__()
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._say(self.format(record))
        except Exception:  # noqa: BLE001 - a log that cannot be written must not end a run
            self.handleError(record)


class _Text(logging.Formatter):
    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the library's name
        return f"{self.formatTime(record)} {record.levelname} {plain(record.getMessage())}"


class _Json(logging.Formatter):
    """The fields of an action as JSON; what they hold beside plain values is told as text."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {"at": record.created, "level": record.levelname.lower()}
        if hasattr(record, "action"):
            line |= {"action": record.action, **getattr(record, "fields", {})}
        else:
            line |= {"logger": record.name, "message": record.getMessage()}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line, enc_hook=str).decode()


def log_to_stderr(
    level: int,
    *,
    as_json: bool = False,
    verbose: bool = False,
    say: Callable[[str], None] = note,
) -> None:
    """Sends logs to stderr through `say`, unless a job's module has set up its own."""
    if verbose:
        logging.getLogger("gapless").setLevel(logging.DEBUG)
    root = logging.getLogger()
    if root.handlers:
        return
    handler = _Lines(say)
    handler.setFormatter(_Json() if as_json else _Text())
    root.addHandler(handler)
    root.setLevel(level)
