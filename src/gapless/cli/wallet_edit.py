"""`gapless wallet label`, `override` and `rm`: what a person decides about wallets."""

from __future__ import annotations

from dataclasses import replace

import click

from gapless.chains.movements import MovementKey
from gapless.cli.options import commands, common, hint, note, opened
from gapless.cli.output import print_json
from gapless.cli.wallet import wallet_options
from gapless.config import load
from gapless.core.errors import NotFound, UsageError
from gapless.core.ranges import Span
from gapless.ledger import Ledger
from gapless.ledger.syncs import Override, Wallet, WalletKey, WalletPlan
from gapless.views.wallets import OverrideView, override_view, sync_view
from gapless.wallets.categories import Category
from gapless.wallets.continuing import chosen_syncs
from gapless.wallets.finding import FoundWallet, WalletChoice, find_wallet, opened_wallet
from gapless.wallets.functions import remove_wallets
from gapless.wallets.places import parse_movement
from gapless.wallets.request import DEFAULT_GROUP, checked_label


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
    choice = WalletChoice(address, group, network_name, sink)
    async with opened(ledger_url) as ledger:
        found = await find_wallet(ledger, choice)
        named = Wallet(*found.key, label=checked_label(text))
        await ledger.add_wallets([named], lambda _: WalletPlan(), str)
        renamed = replace(choice, address=found.key.address)  # it may have been given by its label
        found = await find_wallet(ledger, renamed)
    if as_json:
        print_json([sync_view(each) for each in found.syncs])
    else:
        note(f"`{found.key.address}` is now `{text}`")


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
    async with opened(ledger_url) as ledger:
        choice = WalletChoice(address, group, network_name, sink)
        found = await find_wallet(ledger, choice)
        if movement is not None:
            key = _movement(found, movement)
            if remove:
                await _remove(ledger, found, key, movement)
            else:
                await _refuse_unknown(found, key, movement, sink)
                await _set(ledger, found, key, category, why)
        shown = await _overrides(ledger, found.key)
    if as_json:
        print_json(shown)
    else:
        for each in shown:
            click.echo("  ".join(filter(None, (each.movement, each.category, each.note))))
    if movement is not None:
        hint(f"{commands()('wallet', 'sync', found.key.address)} or a worker applies it")


def _movement(wallet: FoundWallet, text: str) -> MovementKey:
    if len(wallet.chains) > 1:
        raise UsageError(
            "a movement is on one network, and the wallet is on several",
            hint="choose one with `--network NAME`",
        )
    return parse_movement(wallet.chains[0], text)


async def _refuse_unknown(
    wallet: FoundWallet, key: MovementKey, text: str, sink: str | None
) -> None:
    """Raise `NotFound` if the wallet has no such movement: it would never have an effect."""
    async with opened_wallet(load(), wallet, sink) as reader:
        block = Span(key.block_number, key.block_number)
        found = reader.store.stream(key.chain_id, [wallet.address], block)
        if not any(it.key == key for page in [page async for page in found] for it in page):
            raise NotFound(
                f"`{wallet.key.address}` has no movement `{text}`",
                hint="take the `id` of an entry from `gapless wallet history`",
            )


async def _remove(ledger: Ledger, wallet: FoundWallet, key: MovementKey, text: str) -> None:
    if not await ledger.remove_overrides(wallet.key, [_place(key)]):
        raise NotFound(f"`{text}` has no override", hint="leave it out to list those there are")


async def _set(
    ledger: Ledger, wallet: FoundWallet, key: MovementKey, category: str | None, why: str | None
) -> None:
    if category is None:
        raise UsageError("no category given", hint=f"give one of {', '.join(Category)}")
    said = Override(
        group=wallet.key.group,
        address=wallet.key.address,
        movement=_place(key),
        category=category,
        note=why,
    )
    await ledger.set_overrides([said])


def _place(key: MovementKey) -> tuple[int, int, str, int, int, int]:
    return (*key[:2], key.kind.value, *key[3:])


async def _overrides(ledger: Ledger, key: WalletKey) -> list[OverrideView]:
    return [override_view(each) for each in await ledger.overrides(key.group, key.address)]
