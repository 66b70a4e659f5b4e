"""Options that many commands share, and the values that they take."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import click

from gapless.ledger import Ledger, open_ledger
from gapless.runtime.engine import DEFAULT_LEDGER, actor

P = ParamSpec("P")
T = TypeVar("T")

ledger_option = click.option(
    "--ledger",
    "ledger_url",
    envvar="GAPLESS_LEDGER",
    default=DEFAULT_LEDGER,
    show_default=True,
    metavar="URL",
    help="`sqlite:///path` or `postgresql://…`; also GAPLESS_LEDGER.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def common(command: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """Adds `--ledger` and `--json`, and runs the async command."""

    @wraps(command)
    def run(*arguments: P.args, **named: P.kwargs) -> T:
        return asyncio.run(command(*arguments, **named))

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


_UNITS = {"": 1, "ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}


class Duration(click.ParamType[float]):
    """Seconds, or a number with a unit: `90`, `2m`, `1.5h`."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if isinstance(value, int | float):
            return float(value)
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|)", value.strip())
        if match is None:
            self.fail(f"`{value}` is no duration: write `90`, `2m` or `1.5h`", param, ctx)
        return float(match[1]) * _UNITS[match[2]]
