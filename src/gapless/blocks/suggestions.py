"""Commands that are suggested to a person: they work as printed, and hold no secret."""

from __future__ import annotations

import shlex
import sys

from gapless.blocks.targets import places_of
from gapless.chains import Network
from gapless.config import Config
from gapless.core.errors import UsageError
from gapless.core.redaction import redact
from gapless.ledger import redacted

_FILES = ("sqlite:", "duckdb:", "parquet:")  # nothing in a path is a secret


def same_command() -> str:
    """The command that is running, to be run again; a secret URL in it is shown as `…`."""
    return " ".join(["gapless", *map(_word, sys.argv[1:])])


def fetch_command(network: str, heights: str, sink: str, rpc: str, *options: str) -> str:
    """A fetch; `rpc` is what it needs to be told of its endpoint."""
    words = ["gapless", "fetch", network, heights, rpc, "--to", shlex.quote(sink), *options]
    return " ".join(filter(None, words))


def repair_command(sink: str, rpc: str, *options: str) -> str:
    return " ".join(filter(None, ["gapless", "repair", shlex.quote(sink), *options, rpc]))


def rpc_option(config: Config, network: Network) -> str:
    """What a command must be told of its endpoint: nothing, if the configuration has one."""
    try:
        places_of(config, network, (), "any.db", None)
    except UsageError:
        return "--rpc …"
    return ""


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
