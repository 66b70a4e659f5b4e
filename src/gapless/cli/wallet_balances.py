"""`gapless wallet show` and `wallet balances`: what a wallet holds, compared with the chain."""

from __future__ import annotations

import time

import click

from gapless.cli import render_wallet
from gapless.cli.options import commands, common, hint, note
from gapless.cli.output import print_json
from gapless.cli.wallet import wallet_options
from gapless.operations.wallets import balances_of, show_wallet
from gapless.telemetry.lines import log_to_nobody
from gapless.wallets.finding import WalletChoice

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
    shown = await show_wallet(
        address, group=group, network=network_name, rpc=rpcs, to=sink, ledger=ledger_url
    )
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
    choice = WalletChoice(address, group, network_name, sink)
    shown, searched = await balances_of(choice, at_text, rpcs, ledger_url, every_token=show_all)
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
