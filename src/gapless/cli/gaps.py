"""`gapless gaps`: the blocks that are missing, as other commands take them."""

from __future__ import annotations

import shlex

import click

from gapless.cli import data, verifying
from gapless.cli.options import common, note
from gapless.cli.stores import blocks_option, network_option, opened_store, sink_argument
from gapless.verify import missing


@click.command()
@sink_argument
@network_option
@blocks_option
@common
async def gaps(
    ledger_url: str,
    as_json: bool,
    target: str,
    network_name: str | None,
    blocks_text: str | None,
) -> int:
    """List the blocks that are missing, a range A:B on each line.

    A block is missing if it was asked for and any table that was asked for has no record of it, or
    if a file that should hold it is missing or cut. Reads records, not rows, and changes nothing.
    Exit code 1: blocks are missing.
    """
    async with opened_store(ledger_url, target, network_name, blocks_text) as store:
        found = await missing(store.sink, store.chain_id, store.span)
    if as_json:
        click.echo(data.to_json(verifying.gaps_json(found, store.network, store.chain_id)))
    else:
        for first, last in (found.gaps | found.damaged).spans:
            click.echo(f"{first}:{last}")
    if found.damaged:
        note(f"damaged: {verifying.spans_text(found.damaged)} cannot be read")
        note(f"\nhint: fetch them again: `gapless repair {shlex.quote(store.shown)}`")
    return 1 if found else 0
