"""`gapless wallet balances`: what a wallet holds, compared with the chain."""

from __future__ import annotations

from dataclasses import replace

import click

from gapless.blocks.request import FetchOptions, build_request
from gapless.blocks.session import open_chain, undated
from gapless.blocks.targets import has_endpoint
from gapless.chains import Network
from gapless.cli import render_wallet
from gapless.cli.options import common, hint, note, opened
from gapless.cli.output import print_json
from gapless.cli.wallet import followed_to, wallet_options
from gapless.config import Config, load
from gapless.core.errors import BadSelector, UsageError
from gapless.core.heights import Heights, Moment
from gapless.telemetry.lines import log_to_nobody
from gapless.views.wallets import balance_views, search_views
from gapless.wallets.finding import WalletChoice, find_wallet, opened_wallet, searches
from gapless.wallets.holdings import ChainWallet, Holdings


@click.command()
@wallet_options
@click.option("--at", "at_text", metavar="DATE|BLOCK", help="After a block, or a day in UTC.")
@click.option(
    "--rpc", "rpcs", multiple=True, metavar="URL", help="Node to compare with. Repeat for failover."
)
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
        async with opened_wallet(config, found, sink) as reader:
            searched = search_views(found.syncs, await searches(reader.store, found.syncs))
    if len(found.chains) > 1 and (rpcs or isinstance(at, int)):
        given = "`--rpc`" if rpcs else "a block in `--at`"
        raise UsageError(
            f"{given} is of one network, and the wallet is on several",
            hint="choose one with `--network NAME`",
        )
    log_to_nobody()
    held = Holdings()
    async with opened_wallet(config, found, sink) as reader:
        members = await reader.members()
        for chain_id in found.chains:
            member, network = members.get(chain_id), found.network(chain_id)
            known = (-1 if member is None else member.as_of, followed.get(chain_id, -1))
            chain = ChainWallet(reader, chain_id, member, max(known))
            more = await _held(config, ledger_url, chain, network, rpcs, at)
            held.balances.extend(more.balances)
            held.on_chain.update(more.on_chain)
        names = await reader.names(held.balances)
    shown = balance_views(found, held.balances, names, held.on_chain)
    if not show_all:
        shown = [each for each in shown if each.computed_raw != "0" or each.on_chain_raw != "0"]
    if as_json:
        print_json(shown)
    elif shown:
        click.echo(render_wallet.balance_table(shown))
    else:
        note("no balances")
    if not as_json and (finding := render_wallet.what_is_unknown(shown, searched)):
        note(f"\n{finding}")
    if any(each.on_chain is None for each in shown) and not rpcs:
        hint("give a node with `--rpc URL` to compare the balances with the chain")
    return 0


def _moment(text: str | None) -> int | Moment | None:
    if text is None:
        return None
    found = Heights.parse(text)
    if found.first != found.last:
        raise BadSelector(f"`{text}` is a range", hint="give one block or day")
    return found.first


async def _held(
    config: Config,
    ledger_url: str,
    wallet: ChainWallet,
    network: Network,
    rpcs: tuple[str, ...],
    at: int | Moment | None,
) -> Holdings:
    """The balances on a network, compared with the chain if there is an endpoint."""
    if not (rpcs or has_endpoint(config, network)) or (at is None and wallet.known_to < 0):
        return Holdings(await wallet.computed(at))
    target = wallet.reader.wallet.sink
    heights = f"0:{at}" if isinstance(at, Moment) else "0:finalized"
    request, targets = build_request(config, network.name, heights, rpcs, target, FetchOptions())
    request = replace(request, network=network)
    async with open_chain(request, targets.config, ledger_url) as chain:
        if isinstance(at, Moment):
            last = (await undated(request, targets.config, chain)).last
            assert isinstance(last, int)
            at = last
        return await wallet.compared(chain, wallet.known_to if at is None else at)
