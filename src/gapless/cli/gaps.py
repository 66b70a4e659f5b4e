"""`gapless gaps`: the blocks that are missing, as other commands take them."""

from __future__ import annotations

import asyncio

import click

from gapless.cli import data, verifying
from gapless.cli.options import json_option
from gapless.cli.stores import blocks_option, network_option, opened_store, sink_argument, span_of
from gapless.core.ranges import Span
from gapless.verify import missing


@click.command()
@sink_argument
@network_option
@blocks_option
@json_option
def gaps(target: str, network_name: str | None, blocks_text: str | None, as_json: bool) -> int:
    """List the blocks that are missing, a range A:B on each line.

    A block is missing if any of the stored tables lacks it. Exit code 1: there are some.
    """
    return asyncio.run(_gaps(target, network_name, span_of(blocks_text), as_json))


async def _gaps(target: str, network_name: str | None, span: Span | None, as_json: bool) -> int:
    async with opened_store(target, network_name) as store:
        found = await missing(store.sink, store.chain_id, span)
    if as_json:
        click.echo(data.to_json(verifying.gaps_json(found, store.network, store.chain_id)))
    else:
        for first, last in found.spans:
            click.echo(f"{first}:{last}")
    return 1 if found else 0
