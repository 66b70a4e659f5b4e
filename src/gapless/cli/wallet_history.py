"""`gapless wallet history`: what a wallet received and sent, as a table or for other tools."""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import suppress

import click

from gapless.chains.movements import NOBODY, MovementKind
from gapless.cli import render_wallet
from gapless.cli.options import commands, common, hint, note, opened
from gapless.cli.output import print_json
from gapless.cli.wallet import wallet_options
from gapless.config import load
from gapless.core.errors import UsageError
from gapless.core.heights import Moment
from gapless.views.wallets import HistoryView, item_views
from gapless.wallets.categories import Category
from gapless.wallets.finding import (
    FoundWallet,
    WalletChoice,
    WalletReader,
    find_wallet,
    opened_wallet,
)
from gapless.wallets.forms import FORMS, write_csv
from gapless.wallets.places import page_text, parse_page
from gapless.wallets.records import HistoryFilter, HistoryItem, Page
from gapless.wallets.request import rules_of

_ON_A_PAGE = 50
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
    help=f"Maximum number of entries.  [default: {_ON_A_PAGE}; all in a CSV file]",
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
    page = Page(
        limit=limit or _ON_A_PAGE,
        after=None if after is None else parse_page(after),
        newest_first=not oldest_first,
    )
    choice = WalletChoice(address, group, network_name, sink)
    async with opened(ledger_url) as ledger:
        found = await find_wallet(ledger, choice)
    wanted = HistoryFilter(
        since=None if since is None else Moment.parse(since).begins,
        until=None if until is None else Moment.parse(until).ends - 1,
        tokens=tuple(_token(found, text) for text in tokens),
        kinds=tuple(map(MovementKind, kinds)),
        counterparties=tuple(_party(found, text) for text in counterparties),
        categories=categories,
    )
    if format_name in FORMS and len(found.chains) > 1:
        raise UsageError(
            f"`{format_name}` has a column for one coin, and the wallet is on several networks",
            hint="choose one with `--network NAME`",
        )
    async with opened_wallet(load(), found, sink) as reader:
        if format_name in ("table", "json"):
            await _print_page(reader, wanted, page, as_json=format_name == "json")
        else:
            await _print_file(reader, wanted, limit, format_name)
    return 0


def _token(wallet: FoundWallet, text: str) -> bytes:
    """A token as people name it: the symbol of the coin, a contract, or the id of an asset."""
    networks = [wallet.network(chain_id) for chain_id in wallet.chains]
    coins = {rules_of(each).coin(each).symbol.casefold() for each in networks}
    if text.casefold() in coins:
        return NOBODY
    if text.isdecimal():
        return text.encode()
    try:
        return _party(wallet, text)
    except UsageError as error:
        raise UsageError(
            f"{error}; several tokens may have one symbol, so `--token` takes the contract",
            hint=f"{commands()('wallet', 'balances', wallet.key.address)} lists the contracts",
        ) from error


def _party(wallet: FoundWallet, text: str) -> bytes:
    return rules_of(wallet.network(wallet.chains[0])).parse_address(text)


async def _print_page(
    reader: WalletReader, wanted: HistoryFilter, page: Page, *, as_json: bool
) -> None:
    items = await reader.history(wanted, page)
    names = await reader.names(it.movement for it in items)
    shown = item_views(reader.wallet, items, names)
    following = page_text(items[-1].place) if len(items) == page.limit else None
    if as_json:
        print_json(HistoryView(items=tuple(shown), next=following))
        return
    if not shown:
        note("no entries")
        return
    click.echo(render_wallet.history_table(shown))
    if following is not None:
        hint(f"`--after {following}` shows the next page")


async def _print_file(
    reader: WalletReader, wanted: HistoryFilter, limit: int | None, format_name: str
) -> None:
    items = await _all(reader, wanted, limit)
    names = await reader.names(it.movement for it in items)
    with suppress(BrokenPipeError):  # whoever reads has enough
        if format_name == "csv":
            for line in render_wallet.history_csv(item_views(reader.wallet, items, names)):
                click.echo(line)
        else:
            file = io.StringIO(newline="")
            write_csv(FORMS[format_name], items, names[reader.wallet.chains[0]], file)
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
