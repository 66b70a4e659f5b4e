"""`gapless queues …`: list, pause and resume queues."""

from __future__ import annotations

import click

from gapless.cli.options import commands, common, hint, note, opened
from gapless.cli.output import print_json
from gapless.cli.render_queues import queue_table
from gapless.ledger import Ledger
from gapless.ledger.records import Queue
from gapless.views.queues import queue_view


class ListingGroup(click.Group):
    """A group that lists if no command is given."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        listing = not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names)
        return super().parse_args(ctx, ["ls", *args] if listing else args)


@click.group(cls=ListingGroup)
def queues() -> None:
    """List, pause and resume queues. Without a command, list them."""


@queues.command()
@common
async def ls(ledger_url: str, as_json: bool) -> None:
    """List queues with their chunks and slots.

    A queue is listed if a backfill or a live worker uses it, or if it is paused.
    """
    async with opened(ledger_url) as ledger:
        shown = [queue_view(each) for each in await ledger.queues()]
    if as_json:
        print_json(shown)
    elif shown:
        click.echo(queue_table(shown))
    else:
        note(f"there are no queues yet in {ledger.url}")
        hint("backfills and workers create them")
    if paused := [queue.name for queue in shown if queue.paused]:
        hint(_resuming(paused[0] if len(paused) == 1 else "NAME"))


@queues.command()
@click.argument("name")
@common
async def pause(ledger_url: str, as_json: bool, name: str) -> None:
    """Pause a queue: start none of its chunks.

    No worker claims from the queue until it is resumed, even after a restart. Running chunks
    finish.
    """
    async with opened(ledger_url) as ledger:
        if not await ledger.pause_queue(name):
            note(f"queue `{name}` is already paused")
        await _echo(ledger, name, as_json)
    hint(_resuming(name))


@queues.command()
@click.argument("name")
@common
async def resume(ledger_url: str, as_json: bool, name: str) -> None:
    """Resume a paused queue."""
    async with opened(ledger_url) as ledger:
        if not await ledger.resume_queue(name):
            note(f"queue `{name}` is not paused")
        await _echo(ledger, name, as_json)


def _resuming(name: str) -> str:
    return f"{commands()('queues', 'resume', name)} resumes it"


async def _echo(ledger: Ledger, name: str, as_json: bool) -> None:
    unused = Queue(name=name)  # without a backfill and a worker, only a pause keeps a queue known
    found = next((each for each in await ledger.queues() if each.name == name), unused)
    if as_json:
        print_json(queue_view(found))
    else:
        click.echo(queue_table([queue_view(found)]))
