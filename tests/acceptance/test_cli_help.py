"""Every command and every option is explained."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from gapless.cli.app import gapless as command_line
from tests.acceptance.commands import Commands

COMMANDS = {  # those that work on a ledger
    "backfill start", "backfill ls", "backfill show", "backfill chunks", "backfill wait",
    "backfill pause", "backfill resume", "backfill cancel", "backfill retry-failed", "worker",
    "dead ls", "dead retry", "dead purge", "queues ls", "queues pause", "queues resume",
    "ledger check", "ledger migrate", "ledger compact",
}  # fmt: skip


def commands(
    group: click.Command = command_line, path: tuple[str, ...] = ()
) -> Iterator[tuple[str, click.Command]]:
    """Every command that is not a group, with the words to call it."""
    if not isinstance(group, click.Group):
        yield " ".join(path), group
        return
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield from commands(command, (*path, name))


def test_all_commands_exist() -> None:
    assert {path for path, _ in commands()} >= COMMANDS


@pytest.mark.parametrize(("path", "command"), [*commands()], ids=str)
def test_every_command_and_option_is_documented(path: str, command: click.Command) -> None:
    assert command.help
    assert "..." not in command.get_short_help_str(60), "too long for the list of commands"
    options = [each for each in command.params if isinstance(each, click.Option)]
    if path in COMMANDS:
        assert {"ledger_url", "as_json"} <= {option.name for option in options}
    for option in options:
        assert option.help, option.name


def test_help_renders(sqlite_gapless: Commands) -> None:
    for path in ("", "backfill", "dead", "ledger", "worker", "backfill start"):
        shown = sqlite_gapless(*path.split(), "--help")
        assert shown.stdout.startswith(f"Usage: gapless {path}".rstrip())
        assert "Options:" in shown.stdout
        assert shown.stderr == ""
    assert sqlite_gapless("dead", "purge", "-h").stdout.startswith("Usage: gapless dead purge")


def test_calling_without_a_command_shows_help_but_is_an_error(sqlite_gapless: Commands) -> None:
    for group in ((), ("backfill",)):
        nothing = sqlite_gapless(*group, code=2)
        assert nothing.stdout == ""
        assert "Commands:" in nothing.stderr


def test_version(sqlite_gapless: Commands) -> None:
    assert sqlite_gapless("--version").stdout.startswith("gapless, version 0.")
