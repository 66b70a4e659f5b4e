"""Writes the reference of the command line from the commands themselves: `make docs`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from gapless.cli.app import gapless

PAGE = Path(__file__).resolve().parents[1] / "docs/reference/cli.md"
INTRODUCTION = """# Command line

Written by `make docs` from the commands themselves; do not edit it.
"""


def commands(
    command: click.Command, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """A command and its subcommands, each with its path."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from commands(found, (*path, name))


def section(path: tuple[str, ...], command: click.Command) -> str:
    """The output of `--help` under a heading."""
    name = " ".join(path)
    settings = gapless.context_settings
    context = click.Context(command, info_name=name, terminal_width=96, **settings)
    return f"{'#' * min(len(path) + 1, 3)} `{name}`\n\n```text\n{command.get_help(context)}\n```\n"


def page() -> str:
    sections = [section(path, command) for path, command in commands(gapless, ("gapless",))]
    return "\n".join([INTRODUCTION, *sections])


if __name__ == "__main__":
    PAGE.write_text(page())
