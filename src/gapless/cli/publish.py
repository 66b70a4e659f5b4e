"""`gapless publish …`: list, show and replay the publishers of the configuration."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec

import click

from gapless.blocks.stores import span_of
from gapless.cli import render_publish
from gapless.cli.options import hint, json_option, note
from gapless.cli.output import print_json
from gapless.cli.queues import ListingGroup
from gapless.config import load
from gapless.publishers.publication import publication
from gapless.publishers.status import publication_status, unregister
from gapless.publishers.status import replay as replay_blocks
from gapless.views.publishers import publisher_view

P = ParamSpec("P")


def _reporting(command: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Adds `--json` and runs the async command, which needs no ledger."""

    @wraps(command)
    def run(*arguments: P.args, **named: P.kwargs) -> None:
        asyncio.run(command(*arguments, **named))

    return json_option(run)


@click.group(cls=ListingGroup)
def publish() -> None:
    """List, show and replay publishers. Without a command, list them.

    Name them in gapless.toml, in [publish.NAME]. Workers and `gapless follow` run them.
    """


@publish.command()
@_reporting
async def ls(as_json: bool) -> None:
    """List publishers."""
    config = load()
    found = [publication_status(publication(config, name)) for name in config.publish]
    shown = [publisher_view(each) for each in await asyncio.gather(*found)]
    if as_json:
        print_json(shown)
    elif shown:
        click.echo(render_publish.table_of(shown))
    else:
        note("there are no publishers in the configuration")
        hint(
            "name one in `gapless.toml`: `[publish.NAME]`; `gapless follow --to redis://…` shows"
            " its own stream while it runs"
        )


@publish.command()
@click.argument("name")
@_reporting
async def show(as_json: bool, name: str) -> None:
    """Show a publisher: how far it is, and who leads."""
    shown = publisher_view(await publication_status(publication(load(), name)))
    if as_json:
        print_json(shown)
    else:
        click.echo(render_publish.page(shown))
        hint(render_publish.next_step(shown))


@publish.command()
@click.argument("name")
@click.argument("blocks_text", metavar="A:B")
@_reporting
async def replay(as_json: bool, name: str, blocks_text: str) -> None:
    """Publish blocks again.

    Each block that was published is retracted on the stream; the running publisher then publishes
    it again. Use it when consumers have lost entries. The sink must still have the rows.
    """
    span = span_of(blocks_text)
    assert span is not None
    wanted = publication(load(), name)
    count = await replay_blocks(wanted, span)
    if as_json:
        print_json(publisher_view(await publication_status(wanted)))
    else:
        note(f"retracted {count:,} blocks on `{wanted.stream}`; they will be published again")


@publish.command()
@click.argument("name")
@_reporting
async def rm(as_json: bool, name: str) -> None:
    """Remove a publisher from its sink.

    The sink then records no more changes for it. Run it before you delete a publisher from
    gapless.toml. The stream stays as it is.
    """
    wanted = publication(load(), name)
    await unregister(wanted)
    if as_json:
        print_json(publisher_view(await publication_status(wanted)))
    else:
        note(f"`{wanted.sink}` records no more changes for `{name}`; the stream stays as it is")
        hint(f"delete `[publish.{name}]` from `gapless.toml` and restart the workers")
