"""`gapless wallet show` and `wallet balances`: what a wallet holds, compared with the chain."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import click

from gapless.blocks.request import FetchOptions, build_request
from gapless.blocks.session import open_chain, undated
from gapless.blocks.targets import has_endpoint
from gapless.chains import Network
from gapless.cli import render_wallet
from gapless.cli.options import commands, common, hint, note, opened
from gapless.cli.output import print_json
from gapless.cli.wallet import followed_to, wallet_options
from gapless.config import Config, load
from gapless.core.errors import BadSelector, UsageError
from gapless.core.heights import Heights, Moment
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
    WalletReader,
    find_wallet,
    opened_wallet,
    searches,
)
from gapless.wallets.holdings import ChainWallet, Holdings
from gapless.wallets.records import HistoryFilter, Page
from gapless.wallets.request import endpoints_by_network

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
    config = load()
    async with opened(ledger_url) as ledger:
        found = await find_wallet(ledger, WalletChoice(address, group, network_name, sink))
        followed = await followed_to(ledger, found)
        async with opened_wallet(config, found, sink) as reader:
            searched = await searches(reader.store, found.syncs)
            newest = await reader.history(HistoryFilter(), Page(limit=1))
            asked = _Asked(config, ledger_url, rpcs, None, every_network=False)
            held = await _holdings(asked, reader, followed)
            names = await reader.names([*held.balances, *(it.movement for it in newest)])
    last = next(iter(item_views(found, newest, names)), None)
    balances = _with_amount(balance_views(found, held.balances, names, held.on_chain))
    shown = wallet_details(found, searched, balances, last, followed)
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
    config, at = load(), _moment(at_text)
    async with opened(ledger_url) as ledger:
        found = await find_wallet(ledger, WalletChoice(address, group, network_name, sink))
        followed = await followed_to(ledger, found)
    if len(found.chains) > 1 and isinstance(at, int):
        raise UsageError(
            "a block in `--at` is of one network, and the wallet is on several",
            hint="choose one with `--network NAME`",
        )
    async with opened_wallet(config, found, sink) as reader:
        searched = search_views(found.syncs, await searches(reader.store, found.syncs))
        asked = _Asked(config, ledger_url, rpcs, at, every_network=True)
        held = await _holdings(asked, reader, followed)
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


@dataclass(frozen=True)
class _Asked:
    """Which balances to compare with which nodes."""

    config: Config
    ledger_url: str
    rpcs: tuple[str, ...]
    at: int | Moment | None
    every_network: bool  # whether configured endpoints are asked where none was given

    def endpoints(self, networks: Sequence[Network]) -> Mapping[str, tuple[str, ...]]:
        return endpoints_by_network(self.config, networks, self.rpcs)


async def _holdings(asked: _Asked, reader: WalletReader, followed: Mapping[int, int]) -> Holdings:
    """The balances on all networks of a wallet, compared with the chain where a node is asked."""
    log_to_nobody()
    wallet, held = reader.wallet, Holdings()
    members = await reader.members()
    networks = {chain_id: wallet.network(chain_id) for chain_id in wallet.chains}
    given = asked.endpoints([*networks.values()])
    for chain_id, network in networks.items():
        member = members.get(chain_id)
        known = (-1 if member is None else member.as_of, followed.get(chain_id, -1))
        chain = ChainWallet(reader, chain_id, member, max(known))
        more = await _held(asked, chain, network, given[network.name])
        held.balances.extend(more.balances)
        held.on_chain.update(more.on_chain)
    return held


async def _held(
    asked: _Asked, wallet: ChainWallet, network: Network, rpcs: tuple[str, ...]
) -> Holdings:
    """The balances on a network, compared with the chain if there is an endpoint."""
    config, at = asked.config, asked.at
    is_asked = rpcs or (asked.every_network and has_endpoint(config, network))
    if not is_asked or (at is None and wallet.known_to < 0):
        return Holdings(await wallet.computed(at))
    target = wallet.reader.wallet.sink
    heights = f"0:{at}" if isinstance(at, Moment) else "0:finalized"
    request, targets = build_request(config, network.name, heights, rpcs, target, FetchOptions())
    request = replace(request, network=network)
    async with open_chain(request, targets.config, asked.ledger_url) as chain:
        if isinstance(at, Moment):
            last = (await undated(request, targets.config, chain)).last
            assert isinstance(last, int)
            at = last
        return await wallet.compared(chain, wallet.known_to if at is None else at)
