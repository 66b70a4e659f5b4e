"""The command tree. A command's module is imported when the command is used, not before."""

from __future__ import annotations

import gc
import importlib
import os
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

import click

from gapless.cli import speech
from gapless.core.errors import GaplessError
from gapless.core.redaction import Secrets, urls_in
from gapless.core.similar import did_you_mean
from gapless.runtime.signals import INTERRUPTED, sigterm_as_ctrl_c

_OURS = ("GAPLESS_", "BACKFILL_", "ETH_RPC_URL")


def _print_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    """Prints the version, and what decodes blocks, which may be a core of another version."""
    if not wanted or context.resilient_parsing:
        return
    from importlib.metadata import version

    from gapless.chains import families

    click.echo(f"gapless, version {version('gapless')}")
    for family in families():
        click.echo(f"decoder of {family.name}: {family.decoder}")
    context.exit()


class LazyGroup(click.Group):
    """A group some of whose commands live in modules of their own, and come first."""

    def __init__(self, *args: object, lazy: dict[str, tuple[str, str]], **named: object) -> None:
        super().__init__(*args, **named)  # type: ignore[arg-type]
        self._lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self._lazy, *self.commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._lazy:
            return super().get_command(ctx, cmd_name)
        with _without_collection():
            module = importlib.import_module(self._lazy[cmd_name][0])
        command: click.Command = getattr(module, cmd_name)
        return command

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:  # which Click would answer with an empty line of its own
            raise click.Abort from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        about = {name: text for name, (_, text) in self._lazy.items()}
        about |= {name: each.get_short_help_str(60) for name, each in self.commands.items()}
        with formatter.section("Commands"):
            formatter.write_dl(list(about.items()))


@click.command(
    cls=LazyGroup,
    lazy={
        "fetch": ("gapless.cli.fetch", "Fetch, verify and store blocks of a network."),
        "follow": ("gapless.cli.follow", "Follow the head of a chain."),
        "wallet": ("gapless.cli.wallet", "Add wallets; show their history and balances."),
        "publish": ("gapless.cli.publish", "List, show and replay publishers."),
        "verify": ("gapless.cli.verify", "Check that stored blocks are complete and correct."),
        "gaps": ("gapless.cli.gaps", "List missing blocks."),
        "repair": ("gapless.cli.repair", "Fetch missing blocks and replace damaged ones."),
        "export": ("gapless.cli.export", "Export stored rows to a file."),
        "backfill": ("gapless.cli.backfill", "Start, inspect and control backfills."),
        "worker": ("gapless.cli.worker", "Run the backfills of a ledger."),
        "dead": ("gapless.cli.dead", "List, show, retry and purge dead letters."),
        "queues": ("gapless.cli.queues", "List, pause and resume queues."),
        "ledger": ("gapless.cli.ledger", "Check, migrate and compact the ledger."),
        "networks": ("gapless.cli.networks", "List the known networks."),
        "init": ("gapless.cli.init", "Create a gapless.toml."),
        "doctor": ("gapless.cli.doctor", "Examine endpoints: chain, history, limits, speed."),
        "devnode": ("gapless.cli.devnode", "Run a test node with a simulated or recorded chain."),
    },
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)
def gapless() -> None:
    """Backfill blockchains: every block once, and proof that none is missing.

    Data goes to stdout, everything else to stderr. Exit codes: 0 success, 1 finished with failures
    or gaps, 2 wrong usage or unusable ledger, 130 interrupted by Ctrl-C or SIGTERM and resumable.
    """


@contextmanager
def _without_collection() -> Iterator[None]:
    """Imports without looking for garbage: what modules create is kept, now and later."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def main() -> None:
    """Runs the command line, and turns errors into messages with a hint."""
    try:
        with sigterm_as_ctrl_c():
            code = gapless(standalone_mode=False)
    except (click.Abort, KeyboardInterrupt):
        speech.say("interrupted")
        _print_error("interrupted", "run the same command again", "interrupted")
        sys.exit(INTERRUPTED)
    except click.exceptions.Exit as wanted:
        sys.exit(wanted.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(2)
    except click.ClickException as error:
        _say(*translate_error(error), "usage_error")
        sys.exit(2)
    except GaplessError as error:
        from gapless.cli.remedies import hint_of
        from gapless.cli.suggestions import Commands

        _say(str(error), hint_of(error, Commands()), error.code)
        sys.exit(error.exit_code)
    except Exception as error:  # noqa: BLE001 - a fault of ours: say where, as Python would
        if reason := _why_stdout_fails(error):
            speech.say(reason, "error")
            speech.suggest("make room, or send the output elsewhere")
            _leave_without_flushing(1)
        speech.say(_known_secrets().struck(traceback.format_exc()))
        _print_error(_known_secrets().struck(f"{type(error).__name__}: {error}"), None, "internal")
        sys.exit(1)
    sys.exit(code if isinstance(code, int) else 0)


def _why_stdout_fails(error: Exception) -> str | None:
    """What is wrong with stdout, if printing to it is what has failed.

    Closing it afterwards fails as well, so the first error counts.
    """
    first: BaseException = error
    while first.__context__ is not None:
        first = first.__context__
    where = traceback.extract_tb(first.__traceback__)[-1]
    if not isinstance(first, OSError) or where.name != click.echo.__name__:
        return None
    return f"`stdout` cannot be written: {(first.strerror or str(first)).lower()}"


def _leave_without_flushing(code: int) -> NoReturn:
    """Leaves at once: Python would try again to write what is left, and complain itself."""
    sys.stderr.flush()
    os._exit(code)


def translate_error(error: click.ClickException) -> tuple[str, str | None]:
    """An error of Click in the style of all other messages, and a hint."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    complaint, similar = error.format_message(), None
    if isinstance(error, click.NoSuchOption):
        complaint = error.message
        similar = did_you_mean(error.option_name, error.possibilities or ())
    elif isinstance(error, click.exceptions.NoSuchCommand) and context is not None:
        assert isinstance(context.command, click.Group)
        complaint = error.message
        similar = did_you_mean(error.command_name, context.command.list_commands(context))
    complaint = re.sub(r"'([^']*)'", r"`\1`", " ".join(complaint.split())).rstrip(".")
    hint = f"see `{context.command_path} --help`" if context else None
    return complaint[:1].lower() + complaint[1:], similar or hint


def _say(error: str, hint: str | None, code: str) -> None:
    """Says why the command ends, on stderr and, to programs, on stdout as well."""
    secrets = _known_secrets()
    error, hint = secrets.struck_alone(error), hint and secrets.struck_alone(hint)
    speech.say(error, "error")
    if hint:
        speech.suggest(hint)
    _print_error(error, hint, code)


def _print_error(error: str, hint: str | None, code: str) -> None:
    if speech.wants_json():
        from gapless.cli.output import print_json
        from gapless.views.errors import ErrorFacts, ErrorView

        with suppress(OSError):  # stderr has it as well
            print_json(ErrorView(ErrorFacts(code=code, message=error, hint=hint)))


def _known_secrets() -> Secrets:
    """Those of all URLs and headers that this command may know: an error may repeat a part of one.

    That happens above all to a URL in the wrong place, which nobody has taken for one.
    """
    names = {each.removeprefix("env:") for each in sys.argv if each.startswith("env:")}
    known = [value for name, value in os.environ.items() if name.startswith(_OURS) or name in names]
    headers: list[str] = []
    with suppress(GaplessError):
        from gapless.config import load

        config = load()
        known += config.urls()
        headers = config.header_values()
    return Secrets(urls_in([*sys.argv[1:], *known]), headers)
