"""What all commands share: options, an open ledger, and messages.

Data goes to stdout through `output`, everything else to stderr through `speech`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import click
from click.core import ParameterSource

from gapless.cli import speech
from gapless.cli.remedies import hint_of
from gapless.cli.suggestions import Commands
from gapless.config import load
from gapless.core.durations import parse_duration
from gapless.core.errors import GaplessError, UsageError
from gapless.core.redaction import redact
from gapless.ledger import Ledger, open_ledger
from gapless.runtime.process import DEFAULT_LEDGER, actor

P = ParamSpec("P")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

ledger_option = click.option(
    "--ledger",
    "ledger_url",
    envvar="GAPLESS_LEDGER",
    show_default=DEFAULT_LEDGER,
    metavar="URL",
    help="Ledger to use: `sqlite:///path` or `postgresql://…`; also GAPLESS_LEDGER.",
)
anchor_option = click.option(
    "--anchor",
    "anchors",
    multiple=True,
    metavar="HEIGHT:HASH",
    help="Known hash of a block; a different hash is an error. Repeatable.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")

processes_option = click.option(
    "--processes",
    type=click.IntRange(1, 256),
    default=1,
    show_default=True,
    help="Number of processes. Raise it when the node outpaces one CPU core.",
)


def common(command: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """Adds `--ledger` and `--json`, and runs the async command.

    The ledger is that of the flag, the environment or the configuration, in this order.
    """

    @wraps(command)
    def run(*arguments: P.args, **named: P.kwargs) -> T:
        try:
            if named["ledger_url"] is None:
                named["ledger_url"] = load().ledger or DEFAULT_LEDGER
            return asyncio.run(command(*arguments, **named))
        except GaplessError as error:
            error.hint = hint_of(error, commands(), _named_sink()) or _usage_hint()
            error.remedy = None  # the hint has it now, in words for this very command line
            raise

    return ledger_option(json_option(run))


@asynccontextmanager
async def opened(
    url: str, *, create: bool = False, migrating: bool = False
) -> AsyncIterator[Ledger]:
    """The ledger at a URL, which must be there unless it may be created."""
    ledger = await open_ledger(url, actor=actor(), create=create, migrating=migrating)
    try:
        yield ledger
    finally:
        await ledger.close()


def note(text: str) -> None:
    """Says something that is not data."""
    speech.say(text)


def warn(text: str) -> None:
    """Says that something is wrong, although the command continues."""
    speech.say(text, "warning")


def complain(text: str, hint_text: str | None = None) -> None:
    """Says what went wrong, and what the person can do about it."""
    speech.say(text, "error")
    hint(hint_text)


def hint(text: str | None) -> None:
    """Says what the person may want to do next."""
    if text:
        speech.suggest(text)


def commands() -> Commands:
    """Commands about the ledger of this command line, to be suggested to the person."""
    context = click.get_current_context(silent=True)
    if context is None:
        return Commands()
    given = context.get_parameter_source("ledger_url") is ParameterSource.COMMANDLINE
    return Commands(context.params["ledger_url"] if given else None)


def _named_sink() -> str:
    """The sink that the command line names, without what is secret."""
    target = click.get_current_context().params.get("target")
    return redact(target) if isinstance(target, str) else ""


def _usage_hint() -> str:
    return f"see `{click.get_current_context().command_path} --help`"


class Duration(click.ParamType[float]):
    """Seconds, or a number with a unit: `90`, `2m`, `1.5h`."""

    name = "duration"

    def __init__(self, at_least: float = 0.0) -> None:
        self._at_least = at_least

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if isinstance(value, int | float):
            return float(value)
        try:
            return parse_duration(value, self._at_least)
        except UsageError as error:
            self.fail(f"{error}: {error.hint}" if error.hint else str(error), param, ctx)


class Durations(click.ParamType[tuple[float, ...]]):
    """Durations with commas between them."""

    name = "durations"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, ...]:
        return tuple(Duration().convert(part, param, ctx) for part in str(value).split(","))


def limit_option(default: int, what: str) -> Callable[[F], F]:
    """`--limit`, for commands that list things."""
    return click.option(
        "--limit", type=click.IntRange(1, 1_000_000), default=default, show_default=True, help=what
    )
