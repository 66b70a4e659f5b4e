"""`gapless ledger …`: upkeep of the ledger itself."""

from __future__ import annotations

import click

from gapless.cli.options import common, complain, opened
from gapless.cli.output import print_json
from gapless.ledger.views import EVERYTHING
from gapless.views.figures import counted
from gapless.views.ledger import CompactionView, LedgerCheckView, MigrationView


@click.group()
def ledger() -> None:
    """Check, migrate and compact the ledger."""


@ledger.command()
@common
async def check(ledger_url: str, as_json: bool) -> int:
    """Check that the events of every backfill match its tables.

    Exit code 1: they differ.
    """
    async with opened(ledger_url) as found:
        problems = await found.check()
        count = len(await found.backfills(limit=EVERYTHING))
    if as_json:
        print_json(LedgerCheckView(backfills=count, problems=tuple(problems)))
    elif problems:
        click.echo("\n".join(problems))
    else:
        click.echo(f"{counted(count, 'backfill')} checked: events and tables match")
    if problems:
        complain(
            f"{counted(len(problems), 'problem')} in {counted(count, 'backfill')}",
            "stop the workers and copy the ledger before you do anything else",
        )
    return 1 if problems else 0


@ledger.command()
@common
async def migrate(ledger_url: str, as_json: bool) -> None:
    """Create the ledger or upgrade its schema."""
    async with opened(ledger_url, create=True, migrating=True) as found:
        before, after = await found.migrate()
    async with opened(ledger_url):
        pass  # a schema that is newer than ours cannot be migrated: this says so
    if as_json:
        print_json(MigrationView(before=before, after=after))
    else:
        click.echo(f"schema {after}" if before == after else f"schema {before} -> {after}")


@ledger.command()
@common
async def compact(ledger_url: str, as_json: bool) -> None:
    """Replace the chunk events of ended backfills with snapshots."""
    async with opened(ledger_url) as found:
        gone = await found.compact()
    if as_json:
        print_json(CompactionView(events=gone))
    else:
        click.echo(f"{counted(gone, 'event')} compacted")
