"""`gapless init`: a configuration to begin with."""

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
# What `gapless` finds here, or in any folder below. An environment variable wins over this file,
# a flag over both; a key that is not known is an error.

# Where backfills are kept: a SQLite file, or postgresql://… for many machines.
ledger = "sqlite:///.gapless/ledger.db"

# Nodes by name. URLs hold keys, so let the file refer to the environment: `export {variable}=…`.
# Two endpoints of a network give failover, and a second opinion on what does not hold.
[endpoints.{network}]
url = "env:{variable}"
network = "{network}"
# rps = 25              # calls a second that the plan allows

# Where records go, by name: `x.db` is SQLite, `x/` a folder of Parquet files.
[sinks.chain]
url = "{target}"

[fetch]
workers = 8             # requests in flight, to each endpoint
batch_size = 100        # blocks in one write
chunk_size = 1000       # blocks in one chunk
verify = "auto"         # off, links, auto or roots
retry = "backoff"       # backoff, unbounded, schedule or halt

# [retry]
# base = "2m"           # first delay of backoff and unbounded, which doubles up to max_delay
# limit = 5             # retries of backoff before a chunk is abandoned

# [worker]
# slots = {{default = 4}} # chunks that `gapless worker` runs at once, by queue
"""


@click.command()
@click.option("--network", default="ethereum", show_default=True, help="Whose blocks to fetch.")
@click.option("--to", "target", metavar="PATH", help="Where they go.  [default: NETWORK.db]")
@click.option("--force", is_flag=True, help="Write over a file that is there.")
def init(network: str, target: str | None, force: bool) -> None:
    """Write a gapless.toml to begin with, here."""
    name = find_network(network).name
    variable = re.sub(r"\W", "_", name).upper() + "_RPC"
    where = target or f"{name}.db"
    if '"' in where or "\\" in where:
        raise UsageError(f"`{where}` is no path to write into a file")
    if Secrets([where]):
        raise UsageError(
            "`--to` is a URL that holds a secret, and would be written to a file",
            hint="give `--to env:VARIABLE`, and set that variable",
        )
    text = _TEXT.format(network=name, variable=variable, target=where)
    parse(text)
    file = Path(FILE)
    try:
        with file.open("w" if force else "x") as opened:
            opened.write(text)
    except FileExistsError:
        raise UsageError(f"`{FILE}` is there already", hint="`--force` writes over it") from None
    except OSError as error:
        raise UsageError(
            f"cannot write `{FILE}`: {error.strerror}",
            hint="run it in a folder that you may write to",
        ) from None
    click.echo(FILE)
    note(f"next: `export {variable}=https://…`, then `gapless doctor --rpc {name}` and")
    note(f"`gapless fetch {name} 18M:+1000`")
