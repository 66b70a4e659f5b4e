"""The log of a process in the foreground: lines on stderr, for people or as JSON.

structlog renders the records of the standard library: those of `gapless`, which have an action and
fields, and those of other loggers. This module sets up logging for Gapless's own processes; a
program that uses Gapless as a library keeps its own setup.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping, MutableMapping
from contextlib import suppress
from typing import Any

import msgspec

from gapless.core.redaction import redact
from gapless.core.text import plain

Line = MutableMapping[str, Any]


class _Lines(logging.Handler):
    def __init__(self, say: Callable[[str], None], *, as_json: bool) -> None:
        super().__init__()
        self._say = say
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        if self.formatter is None:  # created lazily: most fetches log nothing
            self.setFormatter(formatter(as_json=self._as_json))
        return super().format(record)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._say(self.format(record))
        except Exception:  # noqa: BLE001 - a logging failure must not end a run
            with suppress(ValueError):  # a job has closed `sys.stderr`
                self.handleError(record)


def log_to_nobody() -> None:
    """Discards logs until `log_to_stderr`; Python would write warnings to stderr by default."""
    logging.getLogger("gapless").addHandler(logging.NullHandler())


def log_to_stderr(
    level: int,
    *,
    as_json: bool = False,
    verbose: bool = False,
    say: Callable[[str], None] | None = None,
) -> None:
    """Sends logs to stderr through `say`, unless a job's module has set up logging."""
    if verbose:
        logging.getLogger("gapless").setLevel(logging.DEBUG)
    root = logging.getLogger()
    if root.handlers:
        return
    root.addHandler(_Lines(say or _to_stderr, as_json=as_json))
    root.setLevel(level)


def _to_stderr(line: str) -> None:
    sys.stderr.write(line + "\n")  # in one piece: a job may print at the same time
    sys.stderr.flush()


def formatter(*, as_json: bool) -> logging.Formatter:
    """Formats records as lines without secrets."""
    from structlog.processors import JSONRenderer, TimeStamper, format_exc_info
    from structlog.stdlib import ProcessorFormatter, add_log_level

    when = TimeStamper(fmt="iso" if as_json else "%Y-%m-%dT%H:%M:%SZ", utc=True)
    render = JSONRenderer(serializer=_json) if as_json else _text
    return ProcessorFormatter(
        processors=[when, add_log_level, format_exc_info, _told, _redacted, render]
    )


def _told(_logger: Any, _method: str, line: Line) -> Line:
    """The content of a record: an action and its fields, or another logger's message."""
    record: logging.LogRecord = line.pop("_record")
    message = line.pop("event")
    del line["_from_structlog"]
    if hasattr(record, "action"):
        reported = {"action": record.action, **getattr(record, "fields", {})}
    else:
        reported = {"logger": record.name, "message": message}
    trace = {"exception": line.pop("exception")} if "exception" in line else {}
    return {**line, **reported, **trace}


def _redacted(_logger: Any, _method: str, line: Line) -> Line:
    """Redacts URLs as a last line of defence: no field should contain one."""
    return {name: _without_secrets(value) for name, value in line.items()}


def _without_secrets(value: Any) -> Any:
    """Keeps plain values, converts others to text, and reduces URLs to scheme and host."""
    match value:
        case None | bool() | int() | float():
            return value
        case Mapping():
            return {redact(str(key)): _without_secrets(each) for key, each in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_without_secrets(each) for each in value]
        case _:
            return redact(str(value))


def _json(line: Line, **_: Any) -> str:
    return msgspec.json.encode(line).decode()


def _text(_logger: Any, _method: str, line: Line) -> str:
    when, level, trace = line.pop("timestamp"), line.pop("level"), line.pop("exception", "")
    said = line.pop("action", None) or line.pop("message")
    line.pop("logger", None)
    fields = "".join(f" {name}={value}" for name, value in line.items())
    text = f"{when} {level.upper()} {plain(said + fields)}"
    return f"{text}\n{trace}" if trace else text
