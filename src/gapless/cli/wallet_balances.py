"""`gapless wallet show` and `wallet balances`: what a wallet holds, compared with the chain."""

from __future__ import annotations

import time
from collections.abc import Sequence

import click

from gapless.cli import render_wallet
from gapless.cli.options import commands, common, hint, note, opened
from gapless.cli.output import print_json
from gapless.cli.wallet import wallet_options
from gapless.config import load
from gapless.core.errors import BadSelector, UsageError
from gapless.core.heights import Heights, Moment
from gapless.following.status import followed_chains
from gapless.telemetry.lines import log_to_nobody
from gapless.views.wallets import (
    BalanceView,
    balance_views,
    item_views,
    search_views,
    wallet_details,
)
from gapless.wallets.finding import (
    WalletChoice,
    find_wallet,
    opened_wallet,
    searches,
)
from gapless.wallets.holdings import Comparison, holdings
from gapless.wallets.records import HistoryFilter, Page

_rpc_option = click.option(
    "--rpc",
    "rpcs",
    multiple=True,
    metavar="[NETWORK=]URL",
    help="Node to compare with. Repeat for failover, or for several networks.",
)


@click.command()
@wallet_options
@_rpc_option
@common
async def show(
    ledger_url: str,
    as_json: bool,
    address: str,
    group: str | None,
    network_name: str | None,
    sink: str | None,
    rpcs: tuple[str, ...],
) -> None:
    """Show a wallet: how far its history is, and what it holds.

    With --rpc, its balances are compared with those on the chain.
    """
    log_to_nobody()
    config = load()
    async with opened(ledger_url) as ledger:
        found = await find_wallet(ledger, WalletChoice(address, group, network_name, sink))
        followed = await followed_chains(ledger)
        async with opened_wallet(config, found, sink) as reader:
            searched = await searches(reader.store, found.syncs)
            newest = await reader.history(HistoryFilter(), Page(limit=1))
            held = await holdings(reader, Comparison(config, ledger_url, rpcs, every_network=False))
            names = await reader.names([*held.balances, *(it.movement for it in newest)])
    last = next(iter(item_views(found, newest, names)), None)
    balances = _with_amount(balance_views(found, held.balances, names, held.on_chain))
    shown = wallet_details(found, searched, balances, last, held.known_to, followed)
    if as_json:
        print_json(shown)
    else:
        click.echo(render_wallet.page(shown, time.time(), is_asked=bool(rpcs)))
        hint(render_wallet.next_step(shown, commands()))


@click.command()
@wallet_options
@click.option("--at", "at_text", metavar="DATE|BLOCK", help="After a block, or a day in UTC.")
@_rpc_option
@click.option("--all", "show_all", is_flag=True, help="Also show tokens of which nothing is left.")
@common
async def balances(
    ledger_url: str,
    as_json: bool,
    address: str,
    group: str | None,
    network_name: str | None,
    sink: str | None,
    at_text: str | None,
    rpcs: tuple[str, ...],
    show_all: bool,
) -> int:
    """Show what a wallet holds.

    `computed` is the sum of all known movements, `on-chain` is what a node reports for the same
    block, and `unexplained` is the difference. Without a node, `on-chain` is unknown.
    """
    log_to_nobody()
    config, at = load(), _moment(at_text)
    async with opened(ledger_url) as ledger:
        found = await find_wallet(ledger, WalletChoice(address, group, network_name, sink))
    if len(found.chains) > 1 and isinstance(at, int):
        raise UsageError(
            "a block in `--at` is of one network, and the wallet is on several",
            hint="choose one with `--network NAME`",
        )
    async with opened_wallet(config, found, sink) as reader:
        searched = search_views(found.syncs, await searches(reader.store, found.syncs))
        held = await holdings(reader, Comparison(config, ledger_url, rpcs, at))
        names = await reader.names(held.balances)
    shown = balance_views(found, held.balances, names, held.on_chain)
    if not show_all:
        shown = _with_amount(shown)
    if as_json:
        print_json(shown)
    elif shown:
        click.echo(render_wallet.balance_table(shown, is_asked=bool(rpcs)))
    else:
        note("no balances")
    if not as_json and (finding := render_wallet.what_is_unknown(shown, searched)):
        note(f"\n{finding}")
    if any(each.on_chain is None for each in shown) and not rpcs:
        hint("give a node with `--rpc URL` to compare the balances with the chain")
    return 0


def _with_amount(balances: Sequence[BalanceView]) -> list[BalanceView]:
    """Balances of which something is left, by the movements or by the chain."""
    return [it for it in balances if it.computed_raw != "0" or it.on_chain_raw not in (None, "0")]


def _moment(text: str | None) -> int | Moment | None:
    if text is None:
        return None
    found = Heights.parse(text)
    if found.first != found.last:
        raise BadSelector(f"`{text}` is a range", hint="give one block or day")
    return found.first
