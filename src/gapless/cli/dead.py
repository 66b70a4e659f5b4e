"""`gapless dead …`: chunks that were given up."""

from __future__ import annotations

from collections.abc import Sequence

import click

from gapless.cli import render
from gapless.cli.options import common, opened
from gapless.core.errors import UsageError
from gapless.ledger import Ledger
from gapless.ledger.records import DeadLetter
from gapless.runtime.controller import Controller


@click.group()
def dead() -> None:
    """List, retry and purge dead letters: chunks that were given up."""


@dead.command()
@click.argument("backfill_id", required=False)
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True)
@common
async def ls(ledger_url: str, as_json: bool, backfill_id: str | None, limit: int) -> None:
    """List dead letters, of one backfill or of all."""
    async with opened(ledger_url) as ledger:
        letters = await ledger.dead(backfill_id, limit)
    _echo(letters, as_json)


@dead.command()
@click.argument("chunk_ids", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All of them.")
@click.option("--dry-run", is_flag=True, help="Only show which.")
@common
async def retry(
    ledger_url: str, as_json: bool, chunk_ids: tuple[str, ...], everything: bool, dry_run: bool
) -> None:
    """Make a new backfill, one a parent, of what these chunks lack."""
    async with opened(ledger_url) as ledger:
        letters = await _chosen(ledger, chunk_ids, everything)
        if dry_run:
            _echo(letters, as_json)
            return
        children = [
            await Controller(ledger).retry_dead(parent, indices)
            for parent, indices in _by_backfill(letters).items()
        ]
    if as_json:
        click.echo(render.to_json([render.backfill_json(child) for child in children]))
    elif children:
        click.echo(render.backfill_table(children))


@dead.command()
@click.argument("chunk_ids", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All of them.")
@click.option("--dry-run", is_flag=True, help="Only show which.")
@common
async def purge(
    ledger_url: str, as_json: bool, chunk_ids: tuple[str, ...], everything: bool, dry_run: bool
) -> None:
    """Take dead letters off the list. Their partitions stay missing, and `show` says so."""
    async with opened(ledger_url) as ledger:
        letters = await _chosen(ledger, chunk_ids, everything)
        if dry_run:
            _echo(letters, as_json)
            return
        purged = 0
        for parent, indices in _by_backfill(letters).items():
            purged += await ledger.purge(parent, indices)
    click.echo(render.to_json({"purged": purged}) if as_json else f"{purged} purged")


async def _chosen(ledger: Ledger, chunk_ids: Sequence[str], everything: bool) -> list[DeadLetter]:
    if bool(chunk_ids) == everything:
        raise UsageError("name dead letters, or give `--all`", hint="`gapless dead ls` lists them")
    letters = {letter.chunk_id: letter for letter in await ledger.dead()}
    if unknown := [chunk_id for chunk_id in chunk_ids if chunk_id not in letters]:
        raise UsageError(f"`{unknown[0]}` is no dead letter", hint="`gapless dead ls` lists them")
    return [letters[chunk_id] for chunk_id in chunk_ids] if chunk_ids else list(letters.values())


def _by_backfill(letters: Sequence[DeadLetter]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for letter in letters:
        found.setdefault(letter.backfill_id, []).append(letter.chunk_index)
    return found


def _echo(letters: Sequence[DeadLetter], as_json: bool) -> None:
    if as_json:
        click.echo(render.to_json([render.dead_json(letter) for letter in letters]))
    elif letters:
        click.echo(render.dead_table(letters))
    else:
        click.echo("no dead letters", err=True)
