"""The command tree. A command's module is imported when the command is used, not before."""

from __future__ import annotations

import importlib
import sys

import click

from gapless.core.errors import GaplessError


class LazyGroup(click.Group):
    """A group whose commands live in modules of their own."""

    def __init__(self, *args: object, lazy: dict[str, tuple[str, str]], **named: object) -> None:
        super().__init__(*args, **named)  # type: ignore[arg-type]
        self._lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._lazy:
            return None
        module = importlib.import_module(self._lazy[cmd_name][0])
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in self._lazy.items()])


@click.command(
    cls=LazyGroup,
    lazy={
        "backfill": ("gapless.cli.backfill", "Start, watch and steer backfills."),
        "worker": ("gapless.cli.worker", "Run chunks of whatever the ledger has."),
        "dead": ("gapless.cli.dead", "List, retry and purge dead letters."),
        "ledger": ("gapless.cli.ledger", "Check, migrate and compact the ledger."),
    },
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="gapless")
def gapless() -> None:
    """A durable backfill engine: every partition once, and proof that none is missing.

    Data goes to stdout, everything else to stderr. Exit codes: 0 done, 1 finished with failures
    or gaps, 2 wrong usage or unusable ledger, 130 interrupted and resumable.
    """


def main() -> None:
    """Runs the command line, and turns errors into messages with a hint."""
    try:
        code = gapless(standalone_mode=False)
    except (click.exceptions.Abort, KeyboardInterrupt):
        sys.exit(130)
    except click.exceptions.Exit as wanted:
        sys.exit(wanted.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except GaplessError as error:
        click.echo(f"error: {error}", err=True)
        if error.hint:
            click.echo(f"\nhint: {error.hint}", err=True)
        sys.exit(2)
    sys.exit(code if isinstance(code, int) else 0)
