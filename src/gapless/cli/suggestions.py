"""Commands that are suggested to a person: they work as printed, and hold no secret."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass

from gapless.core.redaction import redact
from gapless.ledger import redacted

_FILES = ("sqlite:", "duckdb:", "parquet:")  # nothing in a path is a secret
_SOME_ENDPOINT = "--rpc …"


@dataclass(frozen=True)
class Commands:
    """Commands about a ledger, as this person must type them."""

    ledger: str | None = None  # its URL, if they gave it on the command line

    def __call__(self, *words: str) -> str:
        """A command in backticks: `gapless backfill ls --ledger x.db`."""
        ledger = () if self.ledger is None else ("--ledger", shlex.quote(redacted(self.ledger)))
        return f"`{' '.join(('gapless', *words, *ledger))}`"


def same_command() -> str:
    """The command that is running, to be run again; a secret URL in it is shown as `…`."""
    return " ".join(["gapless", *map(_word, sys.argv[1:])])


def fetch_command(
    network: str, heights: str, sink: str, *options: str, has_endpoint: bool = True
) -> str:
    """A fetch; without an endpoint in the configuration it has to be given one."""
    words = ["gapless", "fetch", network, heights, *_endpoint(has_endpoint=has_endpoint)]
    return " ".join([*words, "--to", shlex.quote(sink), *options])


def repair_command(sink: str, *options: str, has_endpoint: bool = True) -> str:
    words = ["gapless", "repair", shlex.quote(sink), *options]
    return " ".join([*words, *_endpoint(has_endpoint=has_endpoint)])


def _endpoint(*, has_endpoint: bool) -> list[str]:
    return [] if has_endpoint else [_SOME_ENDPOINT]


def _word(argument: str) -> str:
    """A word of a command line; of a URL with a secret, the person knows the rest."""
    option, equals, value = argument.partition("=")
    if not (equals and option.startswith("--")):
        option, equals, value = "", "", argument
    if value.startswith(("postgres:", "postgresql:")):
        value = redacted(value)
    elif not value.startswith(_FILES) and redact(value) != value:
        return f"{option}{equals}…"
    return shlex.quote(f"{option}{equals}{value}")
