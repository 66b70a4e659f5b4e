"""`gapless dead …`: list, show, retry and purge abandoned chunks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeVar

import click

from gapless.cli import render
from gapless.cli.options import commands, common, hint, limit_option, note, opened
from gapless.cli.output import print_json
from gapless.core.errors import UsageError
from gapless.ledger import Ledger
from gapless.ledger.records import DeadLetter
from gapless.ledger.views import EVERYTHING
from gapless.runtime.controller import Controller
from gapless.views.backfills import attempt_view, backfill_view
from gapless.views.chunks import PurgeView, dead_letter_details, dead_letter_view
from gapless.views.figures import counted

P = ParamSpec("P")
T = TypeVar("T")


@click.group()
def dead() -> None:
    """List, show, retry and purge dead letters: chunks that were abandoned."""


@dead.command()
@click.argument("backfill_id", required=False)
@limit_option(100, "Maximum number to list.")
@common
async def ls(ledger_url: str, as_json: bool, backfill_id: str | None, limit: int) -> None:
    """List the dead letters of one backfill or of all."""
    async with opened(ledger_url) as ledger:
        if backfill_id is not None:
            await ledger.backfill(backfill_id)  # which complains if there is none
        letters = await ledger.dead(backfill_id, limit + 1)
    _echo(letters[:limit], as_json)
    if len(letters) > limit:
        hint(f"there are more than these {limit}: raise `--limit`")


@dead.command()
@click.argument("chunk_id", metavar="CHUNK")
@common
async def show(ledger_url: str, as_json: bool, chunk_id: str) -> None:
    """Show a dead letter and its failed runs.

    Shows the latest ten runs and the traceback of the last one.
    """
    async with opened(ledger_url) as ledger:
        (letter,) = await _chosen(ledger, [chunk_id], everything=False)
        attempts = await ledger.attempts(letter.backfill_id, letter.chunk_index)
    if as_json:
        print_json(dead_letter_details(letter, attempts))
        return
    click.echo(render.dead_page(dead_letter_view(letter)))
    if attempts:
        click.echo(f"\n{render.attempts([attempt_view(each) for each in attempts])}")


def _choice(command: Callable[P, T]) -> Callable[P, T]:
    """The arguments of commands that work on chosen dead letters."""
    for decorate in (
        click.option(
            "--dry-run",
            is_flag=True,
            help="List the dead letters that would be changed, then exit.",
        ),
        click.option("--all", "everything", is_flag=True, help="Select all dead letters."),
        click.argument("chunk_ids", nargs=-1, metavar="[CHUNK]..."),
    ):
        command = decorate(command)
    return command


@dead.command()
@_choice
@common
async def retry(
    ledger_url: str, as_json: bool, chunk_ids: tuple[str, ...], everything: bool, dry_run: bool
) -> None:
    """Retry the missing partitions of dead letters.

    Starts one new backfill for each backfill that the dead letters belong to.
    """
    async with opened(ledger_url) as ledger:
        letters = await _chosen(ledger, chunk_ids, everything)
        if dry_run:
            _echo(letters, as_json)
            return
        children = [
            backfill_view(await Controller(ledger).retry_dead(parent, indices))
            for parent, indices in _by_backfill(letters).items()
        ]
    if as_json:
        print_json(children)
    elif children:
        click.echo(render.backfill_table(children))
    else:
        note("there are no dead letters")


@dead.command()
@_choice
@common
async def purge(
    ledger_url: str, as_json: bool, chunk_ids: tuple[str, ...], everything: bool, dry_run: bool
) -> None:
    """Remove dead letters from the list.

    Their partitions stay missing, and `gapless backfill show` still reports them.
    """
    async with opened(ledger_url) as ledger:
        letters = await _chosen(ledger, chunk_ids, everything)
        if dry_run:
            _echo(letters, as_json)
            return
        purged = 0
        for parent, indices in _by_backfill(letters).items():
            purged += await ledger.purge(parent, indices)
    if as_json:
        print_json(PurgeView(purged))
    else:
        click.echo(f"{counted(purged, 'dead letter')} purged")


async def _chosen(ledger: Ledger, chunk_ids: Sequence[str], everything: bool) -> list[DeadLetter]:
    if bool(chunk_ids) == everything:
        raise UsageError(
            "name dead letters, or give `--all`", hint=f"{commands()('dead', 'ls')} lists them"
        )
    letters = {letter.chunk_id: letter for letter in await ledger.dead(limit=EVERYTHING)}
    if unknown := [chunk_id for chunk_id in chunk_ids if chunk_id not in letters]:
        raise UsageError(
            f"`{unknown[0]}` is not a dead letter", hint=f"{commands()('dead', 'ls')} lists them"
        )
    return [letters[chunk_id] for chunk_id in chunk_ids] if chunk_ids else list(letters.values())


def _by_backfill(letters: Sequence[DeadLetter]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for letter in letters:
        found.setdefault(letter.backfill_id, []).append(letter.chunk_index)
    return found


def _echo(letters: Sequence[DeadLetter], as_json: bool) -> None:
    shown = [dead_letter_view(each) for each in letters]
    if as_json:
        print_json(shown)
    elif shown:
        click.echo(render.dead_table(shown))
    else:
        note("there are no dead letters")
