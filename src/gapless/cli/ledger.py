"""`gapless ledger …`: upkeep of the ledger itself."""

from __future__ import annotations

import click

from gapless.cli import render
from gapless.cli.options import common, opened


@click.group()
def ledger() -> None:
    """Check, migrate and compact the ledger."""


@ledger.command()
@common
async def check(ledger_url: str, as_json: bool) -> int:
    """Fold the events of every backfill and compare them with the tables; exit 1 if they differ."""
    async with opened(ledger_url) as found:
        problems = await found.check()
        count = len(await found.backfills(limit=2**53))
    if as_json:
        click.echo(render.to_json({"backfills": count, "problems": problems}))
    else:
        for problem in problems:
            click.echo(problem)
        verdict = f"{len(problems)} problems" if problems else "events and tables agree"
        click.echo(f"{count} backfills checked: {verdict}", err=bool(problems))
    return 1 if problems else 0


@ledger.command()
@common
async def migrate(ledger_url: str, as_json: bool) -> None:
    """Bring the ledger's schema up to date, or create it."""
    async with opened(ledger_url, create=True, migrating=True) as found:
        before, after = await found.migrate()
    if as_json:
        click.echo(render.to_json({"from": before, "to": after}))
    else:
        click.echo(f"schema {after}" if before == after else f"schema {before} -> {after}")


@ledger.command()
@common
async def compact(ledger_url: str, as_json: bool) -> None:
    """Replace the chunk events of ended backfills by one snapshot each."""
    async with opened(ledger_url) as found:
        gone = await found.compact()
    click.echo(render.to_json({"events": gone}) if as_json else f"{gone} events compacted")
