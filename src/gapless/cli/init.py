"""`gapless init`: create a configuration file."""

from __future__ import annotations

import re
from pathlib import Path

import click

from gapless.chains import find_network
from gapless.cli.options import note
from gapless.config import FILE, parse
from gapless.core.errors import UsageError
from gapless.core.redaction import Secrets

_TEXT = """\
# Settings for `gapless` in this folder and all folders below it. An environment variable overrides
# this file, and a flag overrides both. An unknown key is an error.

# Ledger: a SQLite file, or postgresql://… for several machines.
ledger = "sqlite:///.gapless/ledger.db"

# Endpoints by name. URLs contain API keys, so refer to the environment: `export {variable}=…`.
# A second endpoint of a network gives failover, and a second opinion on answers that fail a check.
[endpoints.{network}]
url = "env:{variable}"
network = "{network}"
# rps = 25              # calls per second that your plan allows

# Sinks by name: `x.db` is SQLite, `x/` is a folder of Parquet files.
[sinks.chain]
url = "{target}"

[fetch]
workers = 8             # concurrent requests to each endpoint
batch_size = 100        # blocks per write
chunk_size = 1000       # blocks per chunk
verify = "auto"         # off, links, auto or roots
retry = "backoff"       # backoff, unbounded, schedule or halt

# [retry]
# base = "2m"           # first delay of backoff and unbounded; doubles up to max_delay
# limit = 5             # retries of backoff before a chunk is abandoned

# [worker]
# slots = {{default = 4}} # concurrent chunks of `gapless worker`, by queue
"""


@click.command()
@click.option("--network", default="ethereum", show_default=True, help="Network to configure.")
@click.option("--to", "target", metavar="PATH", help="Sink to configure.  [default: NETWORK.db]")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
def init(network: str, target: str | None, force: bool) -> None:
    """Create a gapless.toml in the current folder."""
    name = find_network(network).name
    variable = re.sub(r"\W", "_", name).upper() + "_RPC"
    where = target or f"{name}.db"
    if '"' in where or "\\" in where:
        raise UsageError(f"`{where}` cannot be written to the file")
    if Secrets([where]):
        raise UsageError(
            "`--to` is a URL with a secret, which would be written to the file",
            hint="give `--to env:VARIABLE` and set that variable",
        )
    text = _TEXT.format(network=name, variable=variable, target=where)
    parse(text)
    file = Path(FILE)
    try:
        with file.open("w" if force else "x") as opened:
            opened.write(text)
    except FileExistsError:
        raise UsageError(f"`{FILE}` already exists", hint="`--force` overwrites it") from None
    except OSError as error:
        raise UsageError(
            f"cannot write `{FILE}`: {error.strerror}",
            hint="run it in a folder that you may write to",
        ) from None
    click.echo(FILE)
    note(f"next: run `export {variable}=https://…`, then `gapless doctor --rpc {name}`,")
    note(f"then `gapless fetch {name} 18M:+1000`")
