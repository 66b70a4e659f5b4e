"""`gapless gaps`: the blocks that are missing, as other commands take them."""

from __future__ import annotations

import click

from gapless.blocks.stores import opened_store
from gapless.cli.options import common, hint, note
from gapless.cli.output import print_json
from gapless.cli.stores import blocks_option, network_option, sink_argument
from gapless.cli.suggestions import repair_command
from gapless.config import load
from gapless.views.figures import spans_text
from gapless.views.verify import gaps_view


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
    """List missing blocks, one range A:B per line.

    A requested block is missing if any requested table lacks it, lacks some of its rows, or cannot
    be read there. Checks what `gapless verify` checks without --deep, and changes nothing. Exit
    code 1: blocks are missing.
    """
    async with opened_store(load(), ledger_url, target, network_name, blocks_text) as store:
        report = await store.report(known_hashes={})
    if as_json:
        print_json(gaps_view(report, store.network))
    else:
        for first, last in (report.gaps | report.damaged).spans:
            click.echo(f"{first}:{last}")
    if report.expired:
        expired = spans_text(report.expired.spans)
        note(f"expired blocks: {expired}; they were stored and count as held")
    if report.damaged:
        damaged = spans_text(report.damaged.spans)
        note(f"damaged blocks: {damaged}; `gapless verify` shows what is wrong")
        hint(
            f"run `{repair_command(store.shown, has_endpoint=store.has_endpoint)}` to replace them"
        )
    return 1 if report.gaps or report.damaged else 0
