"""What a command says beside its data: on stderr, for people or for programs.

People read plain text: `warning: …`, `error: …`, and a hint after a blank line. With `--json` every
line is a JSON object of the shape that log lines have, so that one program can read them all:

    {"timestamp":"2026-01-31T12:00:00.000000Z","level":"warning","message":"…"}
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Any, Literal

import click

Level = Literal["info", "warning", "error"]


def wants_json() -> bool:
    """Whether the command line asks for JSON, even if the rest of it makes no sense."""
    return "--json" in sys.argv


def say(message: str, level: Level = "info") -> None:
    """Says something that is not data."""
    click.echo(spoken(message, level), err=True)


def suggest(hint: str) -> None:
    """Says what the person may want to do next."""
    click.echo(json_line("info", hint=hint) if wants_json() else f"\nhint: {hint}", err=True)


def spoken(message: str, level: Level = "info") -> str:
    """A message as it goes to stderr; what is a line of JSON already stays as it is."""
    if not wants_json():
        return message if level == "info" else f"{level}: {message}"
    return message if message.startswith("{") else json_line(level, message=message)


def json_line(level: Level, **fields: Any) -> str:
    import msgspec  # which help does without

    now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    return msgspec.json.encode({"timestamp": now, "level": level, **fields}).decode()
