"""`gapless backfill …`: start, inspect and control backfills."""

from __future__ import annotations

import asyncio
import time

import click

from gapless.cli import render
from gapless.cli.app import LazyGroup
from gapless.cli.display import ChunkLine, ProgressDisplay
from gapless.cli.options import Duration, commands, common, hint, limit_option, note, opened
from gapless.cli.output import print_json
from gapless.cli.report import exit_code, report
from gapless.core.backfill import State
from gapless.core.chunk import Status
from gapless.ledger import Ledger
from gapless.ledger.records import Backfill
from gapless.runtime.controller import Controller
from gapless.views.backfills import backfill_details, backfill_view, explanation_view
from gapless.views.chunks import chunk_view
from gapless.views.figures import counted

LOOK_EVERY = 0.25


@click.group(
    cls=LazyGroup,
    lazy={"start": ("gapless.cli.start", "Start a backfill here, or leave it to workers.")},
)
def backfill() -> None:
    """Start, inspect and control backfills."""


@backfill.command()
@click.option(
    "--state",
    type=click.Choice([state.value for state in State], case_sensitive=False),
    help="List only backfills in this state.",
)
@click.option(
    "--all", "everything", is_flag=True, help="Also list group hooks that have not failed."
)
@limit_option(50, "Maximum number to list.")
@common
async def ls(
    ledger_url: str, as_json: bool, state: str | None, everything: bool, limit: int
) -> None:
    """List backfills, newest first."""
    async with opened(ledger_url) as ledger:
        found = await ledger.backfills(state=state, hooks=everything, limit=limit + 1)
    shown = [backfill_view(each) for each in found[:limit]]
    if as_json:
        print_json(shown)
    elif shown:
        click.echo(render.backfill_table(shown))
    elif state is not None:
        note(f"there are no backfills in state {state}")
    else:
        note(f"there are no backfills yet in {ledger.url}")
        hint("`gapless fetch` and `gapless backfill start` create them")
    if len(found) > limit:
        hint(f"there are more than these {limit}: raise `--limit`")


@backfill.command()
@click.argument("backfill_id")
@click.option(
    "--chunk", "chunk_index", type=int, help="Explain only this chunk and list its failed runs."
)
@limit_option(10, "Number of chunks to explain.")
@common
async def show(
    ledger_url: str, as_json: bool, backfill_id: str, chunk_index: int | None, limit: int
) -> None:
    """Show a backfill and explain why its chunks are not running."""
    async with opened(ledger_url) as ledger:
        found = await ledger.backfill(backfill_id)
        explained = await Controller(ledger).explain(
            backfill_id, limit=limit, chunk_index=chunk_index
        )
        attempts = None if chunk_index is None else await ledger.attempts(backfill_id, chunk_index)
    shown = backfill_details(found, explained, attempts)
    if as_json:
        print_json(shown)
    else:
        listed = sum(each.chunk_index is not None for each in explained)
        unended = found.chunks.running + found.chunks.failed + found.chunks.pending
        hidden = unended - listed if chunk_index is None else 0
        click.echo(render.backfill_page(shown, found.now, hidden=max(hidden, 0)))
        if shown.attempts:
            click.echo(f"\n{render.attempts(shown.attempts)}")
        hint(render.next_step(shown, shown.waiting, commands()))


@backfill.command()
@click.argument("backfill_id")
@click.option(
    "--status",
    "statuses",
    type=click.Choice([status.value for status in Status], case_sensitive=False),
    multiple=True,
    help="List only chunks with this status. Repeatable.",
)
@limit_option(100, "Maximum number to list.")
@common
async def chunks(
    ledger_url: str, as_json: bool, backfill_id: str, statuses: tuple[str, ...], limit: int
) -> None:
    """List the chunks of a backfill.

    Chunks are sorted by index; with --status, running chunks are sorted by the end of their lease
    and failed chunks by the time of their retry.
    """
    wanted = [Status(each) for each in statuses]
    async with opened(ledger_url) as ledger:
        found = await ledger.backfill(backfill_id)
        selection = await ledger.selection(found.selection)
        if wanted:
            listed = await ledger.chunks_with(backfill_id, wanted, limit + 1)
        else:
            listed = await ledger.chunks(backfill_id, limit=limit + 1)
    shown = [chunk_view(each, selection, backfill_id) for each in listed[:limit]]
    if as_json:
        print_json(shown)
    elif shown:
        click.echo(render.chunk_table(shown, found.now))
    elif statuses:
        note(f"there are no chunks with status {' or '.join(statuses)}")
    unplanned = found.chunks.total - found.chunks.planned
    if len(listed) > limit:
        hint(f"there are more than these {limit}: raise `--limit`")
    elif unplanned and not statuses:
        note(f"not planned yet: {counted(unplanned, 'chunk')}")


@backfill.command()
@click.argument("backfill_id")
@click.option(
    "--timeout", "patience", type=Duration(), help="Stop waiting after this time and exit with 1."
)
@common
async def wait(ledger_url: str, as_json: bool, backfill_id: str, patience: float | None) -> int:
    """Wait until a backfill has ended.

    Exits with 0 if it succeeded, and with 1 otherwise.
    """
    started = time.monotonic()
    async with opened(ledger_url) as ledger:
        line = ChunkLine()
        with ProgressDisplay(line) as display:
            while not (found := await ledger.backfill(backfill_id)).state.ended:
                if patience is not None and time.monotonic() - started >= patience:
                    break
                line.why = await _standstill(ledger, found)
                display.show(found)
                await asyncio.sleep(LOOK_EVERY)
                await ledger.settle([backfill_id])  # in case no worker is left that would
    if as_json:
        print_json(backfill_view(found))
    else:
        click.echo(render.outcome(found))
    report(found, ledger.url)
    return exit_code(found)


async def _standstill(ledger: Ledger, found: Backfill) -> str:
    """Why nothing of a backfill runs; nothing, if something does."""
    if found.chunks.running:
        return ""
    explained = await Controller(ledger).explain(found.id, limit=1)
    return explained[0].reason.replace("_", " ") if explained else ""


@backfill.command()
@click.argument("backfill_id")
@common
async def pause(ledger_url: str, as_json: bool, backfill_id: str) -> None:
    """Start no new chunks; let running ones finish."""
    async with opened(ledger_url) as ledger:
        await _echo(ledger, await ledger.pause(backfill_id), as_json)


@backfill.command()
@click.argument("backfill_id")
@common
async def resume(ledger_url: str, as_json: bool, backfill_id: str) -> None:
    """Resume a paused backfill."""
    async with opened(ledger_url) as ledger:
        await _echo(ledger, await ledger.resume(backfill_id), as_json)


@backfill.command()
@click.argument("backfill_id")
@click.option(
    "--force", is_flag=True, help="End the leases of running chunks instead of waiting for them."
)
@common
async def cancel(ledger_url: str, as_json: bool, backfill_id: str, force: bool) -> None:
    """Cancel a backfill and stop its running chunks.

    A running chunk stops when it next reports progress, or is interrupted after ten seconds.
    """
    async with opened(ledger_url) as ledger:
        await _echo(ledger, await ledger.cancel(backfill_id, force=force), as_json)


@backfill.command("retry-failed")
@click.argument("backfill_id")
@click.option(
    "--request-id", help="Your own id for this request; reusing it returns the same backfill."
)
@common
async def retry_failed(
    ledger_url: str, as_json: bool, backfill_id: str, request_id: str | None
) -> None:
    """Retry what an ended backfill did not complete.

    Starts a new backfill; running the command again returns the same one.
    """
    async with opened(ledger_url) as ledger:
        await _echo(ledger, await Controller(ledger).retry_failed(backfill_id, request_id), as_json)


async def _echo(ledger: Ledger, found: Backfill, as_json: bool) -> None:
    shown = backfill_view(found)
    if as_json:
        print_json(shown)
    else:
        click.echo(render.backfill_table([shown]))
        explained = await Controller(ledger).explain(found.id, limit=1)
        waiting = [explanation_view(each) for each in explained]
        hint(render.next_step(shown, waiting, commands()))
