"""`gapless export`: stored rows as files that other tools read."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import click

from gapless.blocks.stores import Store, opened_store
from gapless.cli import render_export
from gapless.cli.options import common, note
from gapless.cli.output import print_json
from gapless.cli.stores import blocks_option, network_option, sink_argument
from gapless.config import load
from gapless.core.errors import Damaged, Incomplete, UsageError
from gapless.core.ranges import Span
from gapless.core.remedies import FetchBlocks, RepairBlocks
from gapless.export import (
    FORMATS,
    NATIVE,
    Export,
    expired,
    find_layout,
    lacking,
    layout_sets,
    range_of,
)
from gapless.export.output import new_file, refuse_unwritable, stdout
from gapless.schema.layout import Layout
from gapless.views.export import export_view
from gapless.views.figures import spans_text

_STDOUT = "-"
_SCHEMAS = layout_sets()
_TABLES = [*dict.fromkeys(table for each in _SCHEMAS.values() for table in each.tables)]
_VERSIONS = [f"{name} {each.version}" for name, each in _SCHEMAS.items() if each.version]


@click.command()
@sink_argument
@click.option(
    "--table", "table_name", type=click.Choice(_TABLES), required=True, help="Table to export."
)
@click.option(
    "--schema",
    type=click.Choice([*_SCHEMAS]),
    default=NATIVE,
    show_default=True,
    help=f"Column layout: native or {', '.join(_VERSIONS)}.",
)
@click.option(
    "--format",
    "format_name",
    type=click.Choice([*FORMATS]),
    default="csv",
    show_default=True,
    help="File format; json writes one object per line.",
)
@click.option(
    "--output", default=_STDOUT, metavar="FILE", help="File to create; `-` is stdout.  [default: -]"
)
@network_option
@blocks_option
@common
async def export(
    ledger_url: str,
    as_json: bool,
    target: str,
    table_name: str,
    schema: str,
    format_name: str,
    output: str,
    network_name: str | None,
    blocks_text: str | None,
) -> int:
    """Export stored rows to a file.

    Exports all rows of the range or none: if blocks are missing or damaged, nothing is written and
    the exit code is 1. The file appears under its name only when it is complete.
    """
    layout = find_layout(schema, table_name)
    _refuse_output(output, format_name, as_json=as_json)
    async with opened_store(load(), ledger_url, target, network_name, blocks_text) as store:
        try:
            span = await _span(store, layout)
            job = Export(store.sink, store.chain_id, layout, span)
            with _opened(output) as file:
                rows = await job.write_to(FORMATS[format_name](layout, file))
        except Damaged as damaged:
            damaged.remedy = RepairBlocks(store.shown, store.has_endpoint)
            raise
        except BrokenPipeError:  # whoever reads has enough
            return 1
    shown = export_view(store.network, span, rows, schema, output)
    if as_json:
        print_json(shown)
    else:
        note(render_export.summary(shown, table_name))
    return 0


async def _span(store: Store, layout: Layout) -> Span:
    """The blocks to export, all of which are there."""
    span = store.span or await range_of(store.sink, store.chain_id, layout)
    if span is None:
        raise Incomplete(
            f"`{store.shown}` holds no {layout.table.name} of {store.network}",
            remedy=FetchBlocks(store.network, store.shown, store.has_endpoint),
        )
    if gone := await expired(store.sink, store.chain_id, layout, span):
        raise Incomplete(
            f"blocks {spans_text(gone.spans)} have expired: their rows were deleted after they were"
            " published",
            hint="export other blocks with `--blocks A:B`, or fetch these into another sink",
        )
    if gaps := await lacking(store.sink, store.chain_id, layout, span):
        raise Incomplete(
            render_export.gaps_text(gaps, store.anchor.name),
            hint=render_export.repair(
                gaps,
                store.anchor.name,
                store.network,
                store.shown,
                has_endpoint=store.has_endpoint,
            ),
        )
    return span


def _refuse_output(output: str, format_name: str, *, as_json: bool) -> None:
    if output != _STDOUT:
        refuse_unwritable(Path(output))
    elif format_name == "parquet":
        raise UsageError(
            "Parquet cannot be written to stdout", hint="name a file with `--output FILE`"
        )
    elif as_json:
        raise UsageError(
            "stdout cannot hold both the data and the summary",
            hint="give `--format json` for rows as JSON, or name a file with `--output FILE`",
        )


@contextmanager
def _opened(output: str) -> Iterator[BinaryIO]:
    if output != _STDOUT:
        with new_file(Path(output)) as file:
            yield file
    else:
        yield stdout(sys.stdout.fileno())
