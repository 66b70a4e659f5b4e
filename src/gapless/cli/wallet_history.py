"""`gapless wallet history`: what a wallet received and sent, as a table or for other tools."""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import suppress

import click

from gapless.chains.movements import MovementKind
from gapless.cli import render_wallet
from gapless.cli.options import common, hint, note, opened
from gapless.cli.output import print_json
from gapless.cli.wallet import wallet_options
from gapless.config import load
from gapless.core.errors import UsageError
from gapless.operations.wallets import ON_A_PAGE, wallet_history
from gapless.views.wallets import item_views
from gapless.wallets.categories import Category
from gapless.wallets.filters import Filters, history_filter
from gapless.wallets.finding import WalletChoice, WalletReader, find_wallet, opened_wallet
from gapless.wallets.forms import FORMS, write_csv
from gapless.wallets.records import HistoryFilter, HistoryItem, Page

_AT_ONCE = 5_000  # entries of a file that are read together
_FORMATS = ["table", "csv", "json", *FORMS]


@click.command()
@wallet_options
@click.option("--since", metavar="DATE", help="First day or second, in UTC.")
@click.option("--until", metavar="DATE", help="Last day or second, in UTC.")
@click.option("--token", "tokens", multiple=True, metavar="ADDRESS|COIN", help="Only this token.")
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice([each.value for each in MovementKind]),
    help="Only movements of this kind. Repeatable.",
)
@click.option(
    "--category",
    "categories",
    multiple=True,
    type=click.Choice([each.value for each in Category]),
    help="Only entries of this category. Repeatable.",
)
@click.option(
    "--counterparty",
    "counterparties",
    multiple=True,
    metavar="ADDRESS",
    help="Only what was sent to or received from this address. Repeatable.",
)
@click.option(
    "--format",
    "format_name",
    type=click.Choice(_FORMATS),
    default="table",
    show_default=True,
    help="Output format; `koinly` and `etherscan-…` are CSV files for other tools.",
)
@click.option(
    "--limit",
    type=click.IntRange(1, 1_000_000),
    help=f"Maximum number of entries.  [default: {ON_A_PAGE}; all in a CSV file]",
)
@click.option("--after", metavar="PAGE", help="Continue after a page: its `next`.")
@click.option("--oldest-first", is_flag=True, help="Show the oldest entries first.")
@common
async def history(
    ledger_url: str,
    as_json: bool,
    address: str,
    group: str | None,
    network_name: str | None,
    sink: str | None,
    since: str | None,
    until: str | None,
    tokens: tuple[str, ...],
    kinds: tuple[str, ...],
    categories: tuple[str, ...],
    counterparties: tuple[str, ...],
    format_name: str,
    limit: int | None,
    after: str | None,
    oldest_first: bool,
) -> int:
    """Show what a wallet received and sent.

    CSV files contain all matching entries, the oldest first. A file for another tool has entries of
    one network.
    """
    format_name = "json" if as_json else format_name
    filters = Filters(
        since=since,
        until=until,
        tokens=tokens,
        kinds=kinds,
        categories=categories,
        counterparties=counterparties,
    )
    if format_name not in ("table", "json"):
        choice = WalletChoice(address, group, network_name, sink)
        await _print_file(ledger_url, choice, filters, limit, format_name)
        return 0
    page = await wallet_history(
        address,
        group=group,
        network=network_name,
        limit=limit or ON_A_PAGE,
        after=after,
        oldest_first=oldest_first,
        to=sink,
        ledger=ledger_url,
        **filters,
    )
    if format_name == "json":
        print_json(page)
    elif page.items:
        click.echo(render_wallet.history_table(page.items))
    else:
        note("no entries")
    if page.next is not None and format_name == "table":
        hint(f"`--after {page.next}` shows the next page")
    return 0


async def _print_file(
    ledger_url: str, choice: WalletChoice, filters: Filters, limit: int | None, format_name: str
) -> None:
    async with opened(ledger_url) as ledger:
        found = await find_wallet(ledger, choice)
    wanted = history_filter(found, filters)
    if format_name in FORMS and len(found.chains) > 1:
        raise UsageError(
            f"`{format_name}` has a column for one coin, and the wallet is on several networks",
            hint="choose one with `--network NAME`",
        )
    async with opened_wallet(load(), found, choice.sink) as reader:
        items = await _all(reader, wanted, limit)
        names = await reader.names(it.movement for it in items)
    with suppress(BrokenPipeError):  # whoever reads has enough
        if format_name == "csv":
            for line in render_wallet.history_csv(item_views(found, items, names)):
                click.echo(line)
        else:
            file = io.StringIO(newline="")
            write_csv(FORMS[format_name], items, names[found.chains[0]], file)
            click.echo(file.getvalue(), nl=False)


async def _all(
    reader: WalletReader, wanted: HistoryFilter, limit: int | None
) -> Sequence[HistoryItem]:
    """All matching entries, or the first ones, as they happened."""
    found: list[HistoryItem] = []
    while limit is None or len(found) < limit:
        size = _AT_ONCE if limit is None else min(limit - len(found), _AT_ONCE)
        after = found[-1].place if found else None
        more = await reader.history(wanted, Page(size, after, newest_first=False))
        found += more
        if len(more) < size:
            break
    return found
