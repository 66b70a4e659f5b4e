"""`gapless wallet …`: add wallets, and see their history and balances.

What lists them is here. The other commands are in `wallet_add`, `wallet_history`,
`wallet_balances` and `wallet_edit`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from gapless.cli import render_wallet
from gapless.cli.app import LazyGroup
from gapless.cli.options import common, hint, limit_option, note, opened
from gapless.cli.output import print_json
from gapless.ledger.syncs import SyncState
from gapless.views.wallets import matrix_row, sync_view
from gapless.wallets.finding import wallets_of
from gapless.wallets.reading import sync_filter

F = TypeVar("F", bound=Callable[..., Any])

_STATES = [state.value.lower() for state in SyncState]


def wallet_options(command: F) -> F:
    """The argument and the options that select one wallet."""
    for option in (
        click.option("--sink", metavar="PATH", help="Sink, if the wallet was added with a URL."),
        click.option("--network", "network_name", metavar="NAME", help="Only this network."),
        click.option("--group", help="Group of the wallet, if it is in several."),
        click.argument("address", metavar="ADDRESS|LABEL"),
    ):
        command = option(command)
    return command


@click.group(
    cls=LazyGroup,
    lazy={
        "add": ("gapless.cli.wallet_add", "Add wallets and store their whole history."),
        "sync": ("gapless.cli.wallet_add", "Continue wallets to the latest final block."),
        "show": (
            "gapless.cli.wallet_balances",
            "Show a wallet: how far its history is, and what it holds.",
        ),
        "history": ("gapless.cli.wallet_history", "Show what a wallet received and sent."),
        "balances": ("gapless.cli.wallet_balances", "Show what a wallet holds."),
        "rm": ("gapless.cli.wallet_edit", "Remove wallets; what is stored of them stays."),
        "label": ("gapless.cli.wallet_edit", "Name a wallet."),
        "override": ("gapless.cli.wallet_edit", "Set the category of a movement."),
    },
)
def wallet() -> None:
    """Add wallets, and show their history and balances."""


@wallet.command()
@click.option("--group", help="Only wallets of this group.")
@click.option("--network", "network_name", metavar="NAME", help="Only this network.")
@click.option("--state", type=click.Choice(_STATES), help="Only syncs in this state.")
@click.option("--matrix", is_flag=True, help="One row for each wallet, one column per network.")
@limit_option(100, "Maximum number of syncs to list.")
@common
async def ls(
    ledger_url: str,
    as_json: bool,
    group: str | None,
    network_name: str | None,
    state: str | None,
    matrix: bool,
    limit: int,
) -> None:
    """List wallets, and how far their history is on each network."""
    wanted = sync_filter(group, network_name, state)
    async with opened(ledger_url) as ledger:
        found = await ledger.syncs(wanted, limit=limit)
    if matrix:
        rows = [matrix_row(key, row) for key, row in wallets_of(found).items()]
        if as_json:
            print_json(rows)
        elif rows:
            click.echo(render_wallet.matrix(rows))
    elif as_json:
        print_json([sync_view(each) for each in found])
    elif found:
        click.echo(render_wallet.sync_table([sync_view(each) for each in found]))
    if not found:
        note(f"no such wallets in {ledger.url}")
        hint("`gapless wallet add ADDRESS --network NETWORK --rpc URL --to SINK` adds one")
    elif len(found) == limit:
        hint(f"these are the first {limit:,}; raise `--limit` to list more")
