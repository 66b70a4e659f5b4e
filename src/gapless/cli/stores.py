"""The options that select a stored chain; see `runtime.stores`."""

from __future__ import annotations

import click

sink_argument = click.argument("target", metavar="SINK|BACKFILL")
network_option = click.option(
    "--network", "network_name", metavar="NAME", help="Network to select if the sink holds several."
)
blocks_option = click.option(
    "--blocks",
    "blocks_text",
    metavar="A:B",
    help="Range of blocks, both ends included.  [default: all requested blocks]",
)
