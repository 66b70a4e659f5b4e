"""`gapless wallet label`, `override` and `rm`: what a person decides about wallets."""

from __future__ import annotations

from typing import Any

import click

from gapless.cli.options import commands, common, hint, note, opened
from gapless.cli.output import print_json
from gapless.cli.wallet import wallet_options
from gapless.core.errors import UsageError
from gapless.operations.wallets import label_wallet, override_movement, wallet_overrides
from gapless.views.wallets import sync_view
from gapless.wallets.categories import Category
from gapless.wallets.continuing import chosen_syncs
from gapless.wallets.finding import WalletChoice, find_wallet
from gapless.wallets.functions import remove_wallets
from gapless.wallets.request import DEFAULT_GROUP


@click.command()
@wallet_options
@click.argument("text")
@common
async def label(
    ledger_url: str,
    as_json: bool,
    address: str,
    group: str | None,
    network_name: str | None,
    sink: str | None,
    text: str,
) -> None:
    """Name a wallet."""
    shown = await label_wallet(
        address, text, group=group, network=network_name, to=sink, ledger=ledger_url
    )
    if as_json:
        print_json(shown)
    else:
        note(f"`{shown[0].address}` is now `{text}`")


@click.command()
@click.argument("addresses", nargs=-1, required=True, metavar="ADDRESS…")
@click.option("--group", default=DEFAULT_GROUP, show_default=True, help="Group of the wallets.")
@click.option("--sink", metavar="PATH", help="Sink, if the wallets were added with a URL.")
@click.option("--purge", is_flag=True, help="Also delete their rows that no other wallet needs.")
@common
async def rm(
    ledger_url: str,
    as_json: bool,
    addresses: tuple[str, ...],
    group: str,
    sink: str | None,
    purge: bool,
) -> None:
    """Remove wallets from a group. What is stored of them stays, unless --purge is given.

    New blocks are no longer watched for them, and unfinished work for them is cancelled.
    """
    async with opened(ledger_url) as ledger:
        shown = [sync_view(each) for each in await chosen_syncs(ledger, group, addresses, ())]
    await remove_wallets(addresses, group=group, to=sink, ledger=ledger_url, purge=purge)
    if as_json:
        print_json(shown)
        return
    for address in dict.fromkeys(each.address for each in shown):
        sinks = ", ".join(f"`{each.sink}`" for each in shown if each.address == address)
        rows = f"its rows are deleted from {sinks}" if purge else f"its rows stay in {sinks}"
        note(f"`{address}` is removed from the group `{group}`; {rows}")


@click.command()
@wallet_options
@click.argument("movement", required=False)
@click.argument(
    "category",
    required=False,
    metavar="[CATEGORY]",
    type=click.Choice([each.value for each in Category]),
)
@click.option("--note", "why", help="Why, for yourself.")
@click.option("--remove", is_flag=True, help="Take the override of this movement back.")
@common
async def override(
    ledger_url: str,
    as_json: bool,
    address: str,
    group: str | None,
    network_name: str | None,
    sink: str | None,
    movement: str | None,
    category: str | None,
    why: str | None,
    remove: bool,
) -> None:
    """Set the category of a movement. Without a movement, list what was set.

    MOVEMENT is the `id` of an entry of the history. CATEGORY is in, out, between, mint, burn, swap,
    wrap, fee, approval, spoof, reward or withdrawal. A category that is set by hand wins over the
    rules, and stays when the history is classified again. It does not change any balance.
    """
    which: Any = {"group": group, "network": network_name, "to": sink, "ledger": ledger_url}
    if movement is None:
        shown = await wallet_overrides(address, **which)
    elif category is None and not remove:
        raise UsageError("no category given", hint=f"give one of {', '.join(Category)}")
    else:
        chosen = None if remove else category
        shown = await override_movement(address, movement, chosen, note=why, **which)
    if as_json:
        print_json(shown)
    else:
        for each in shown:
            click.echo("  ".join(filter(None, (each.movement, each.category, each.note))))
    if movement is not None:
        async with opened(ledger_url) as ledger:
            found = await find_wallet(ledger, WalletChoice(address, group, network_name, sink))
        hint(f"{commands()('wallet', 'sync', found.key.address)} or a worker applies it")
