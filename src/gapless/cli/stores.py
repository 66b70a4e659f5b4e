"""How a command is told which stored chain it is about; see `runtime.stores`."""

from __future__ import annotations

import click

sink_argument = click.argument("target", metavar="SINK|BACKFILL")
network_option = click.option(
    "--network", "network_name", metavar="NAME", help="Which chain, if there are several."
)
blocks_option = click.option(
    "--blocks",
    "blocks_text",
    metavar="A:B",
    help="From A to B, both included. Default: all blocks that were asked for.",
)
