"""What a command prints as data: one JSON document on stdout."""

from __future__ import annotations

from collections.abc import Sequence

import click
import msgspec


def print_json(shown: msgspec.Struct | Sequence[msgspec.Struct]) -> None:
    """Prints a view, or a list of them."""
    click.echo(to_json(shown))


def to_json(shown: msgspec.Struct | Sequence[msgspec.Struct]) -> str:
    return msgspec.json.format(msgspec.json.encode(shown), indent=2).decode()
