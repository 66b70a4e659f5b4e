"""`gapless wallet add` and `gapless wallet sync`: store the whole history of wallets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from gapless.chains import Level
from gapless.cli import render_wallet
from gapless.cli.metrics import metrics_option, metrics_page
from gapless.cli.options import commands, common, complain, hint, note, opened, warn
from gapless.cli.output import print_json
from gapless.cli.suggestions import same_command
from gapless.cli.wallet_observer import WalletForeground
from gapless.config import Config, load
from gapless.core.errors import SourceError, Unavailable, UsageError
from gapless.ledger import redacted
from gapless.ledger.syncs import Sync, SyncState
from gapless.providers import Providers
from gapless.runtime.process_control import leave_if_stuck
from gapless.runtime.signals import INTERRUPTED
from gapless.telemetry.lines import log_to_nobody
from gapless.views.wallets import pass_view, search_views, sync_view
from gapless.wallets.adding import Added, Unreached
from gapless.wallets.adding import add as add_all
from gapless.wallets.continuing import build_continued, chosen_syncs
from gapless.wallets.finding import opened_wallets, searches
from gapless.wallets.naming import name_tokens
from gapless.wallets.preview import preview
from gapless.wallets.reading import syncs_of
from gapless.wallets.request import DEFAULT_GROUP, WalletOptions, WalletsRequest, build_wallets
from gapless.wallets.running import run_wallets

_LEVELS = [level.value for level in Level]

_rpc_option = click.option(
    "--rpc",
    "rpcs",
    multiple=True,
    metavar="[NETWORK=]URL",
    help="Node to ask. Repeat for failover, or for several networks.",
)
_detach_option = click.option("--detach", is_flag=True, help="Leave the work to workers.")
_quiet_option = click.option(
    "-q", "--quiet", is_flag=True, help="Print only errors and the result."
)


@click.command()
@click.argument("addresses", nargs=-1, required=True, metavar="ADDRESS…")
@click.option(
    "--network",
    "networks",
    multiple=True,
    required=True,
    metavar="NAME",
    help="Network of the wallets. Repeatable.",
)
@_rpc_option
@click.option("--to", "target", metavar="PATH", help="Sink: `x.db` (SQLite) or `postgresql://…`.")
@click.option(
    "--group",
    default=DEFAULT_GROUP,
    show_default=True,
    help="Group whose wallets belong to one owner.",
)
@click.option("--label", help="Name of the wallets.")
@click.option(
    "--from-block",
    "start",
    metavar="HEIGHT|DATE",
    help="First block of the history.  [default: the first block of the chain]",
)
@click.option("--scan", is_flag=True, help="Fetch every block that is not stored.")
@click.option(
    "--traces",
    is_flag=True,
    help="Also trace every block, to find coins that contracts sent. Needs a node that traces.",
)
@click.option(
    "--verify", type=click.Choice(_LEVELS), help="Level of verification.  [default: auto]"
)
@click.option("--workers", type=int, help="Concurrent requests to each node.  [default: 8]")
@click.option("--max-concurrent", type=int, help="Concurrent segments.  [default: 4]")
@click.option(
    "--rps", type=click.FloatRange(0, min_open=True), help="Maximum calls per second to each node."
)
@click.option("--dry-run", is_flag=True, help="Print the plan and what it costs, then exit.")
@_detach_option
@_quiet_option
@metrics_option
@common
async def add(
    ledger_url: str,
    as_json: bool,
    addresses: tuple[str, ...],
    networks: tuple[str, ...],
    rpcs: tuple[str, ...],
    target: str | None,
    dry_run: bool,
    detach: bool,
    quiet: bool,
    metrics_port: int | None,
    **options: Any,
) -> int:
    """Add wallets and store their whole history.

    Movements are read from stored blocks if the sink holds all their tables. Elsewhere, nodes are
    asked for events of the addresses, and blocks that have some are fetched and verified. Coins
    that moved without an event are found in stored tables, with --scan, or where the node is an
    archive and the wallet is an account that signs. Only --traces shows which contract sent coins.

    Wallets that are added together share one pass over the blocks. Run the same command again to
    resume. Ctrl-C or SIGTERM stores what was found so far and exits with 130.
    """
    wanted = WalletOptions(**options)  # type: ignore[typeddict-item]
    request, config = _built(load(), addresses, networks, rpcs, target, wanted, detach=detach)
    log_to_nobody()
    if dry_run:
        passes = await preview(request, config, ledger_url)
        shown = [pass_view(each) for each in passes]
        if as_json:
            print_json(shown)
        note(render_wallet.plan(shown, may_scan=not request.way.reads_all))
        return 0
    return await _run([request], config, ledger_url, metrics_port, detach, quiet, as_json)


def _built(
    config: Config,
    addresses: Sequence[str],
    networks: Sequence[str],
    rpcs: Sequence[str],
    target: str | None,
    wanted: WalletOptions,
    *,
    detach: bool,
) -> tuple[WalletsRequest, Config]:
    request, resolving = build_wallets(config, addresses, networks, rpcs, target, wanted)
    if detach and not request.shared:
        raise UsageError(
            "`--detach` needs endpoints and a sink that workers can look up by name",
            hint="name them in `gapless.toml`, or give `env:VARIABLE`; URLs are never stored",
        )
    return request, resolving


@click.command()
@click.argument("addresses", nargs=-1, metavar="[ADDRESS…]")
@click.option("--group", default=DEFAULT_GROUP, show_default=True, help="Group of the wallets.")
@click.option("--network", "networks", multiple=True, metavar="NAME", help="Only this network.")
@_rpc_option
@click.option("--sink", metavar="PATH", help="Sink, if the wallets were added with a URL.")
@_detach_option
@_quiet_option
@metrics_option
@common
async def sync(
    ledger_url: str,
    as_json: bool,
    addresses: tuple[str, ...],
    group: str,
    networks: tuple[str, ...],
    rpcs: tuple[str, ...],
    sink: str | None,
    detach: bool,
    quiet: bool,
    metrics_port: int | None,
) -> int:
    """Continue wallets to the latest final block.

    Without addresses, continue all wallets of the group. Segments that wait for a retry run now,
    and abandoned ones are retried.
    """
    config = load()
    async with opened(ledger_url) as ledger:
        wanted = await chosen_syncs(ledger, group, addresses, networks)
        requests, resolving = await build_continued(
            ledger, wanted, config, rpcs, sink, detached=detach
        )
    log_to_nobody()
    return await _run(requests, resolving, ledger_url, metrics_port, detach, quiet, as_json)


async def _run(
    requests: Sequence[WalletsRequest],
    config: Config,
    ledger_url: str,
    metrics_port: int | None,
    detach: bool,
    quiet: bool,
    as_json: bool,
) -> int:
    """Adds or continues wallets; runs them here unless workers do."""
    found: list[Sync] = []
    unreached: list[Unreached] = []
    async with metrics_page(metrics_port, works=not detach) as page:
        observer = WalletForeground(page, quiet=quiet)
        for request in requests:
            async with Providers(request.networks[0].blocks.numbers.workers) as providers:
                try:
                    added = await add_all(
                        request, config, ledger_url, shared=providers, detached=detach
                    )
                except Unavailable as error:
                    unreached += (Unreached(it.network.name, error) for it in request.networks)
                    continue
                unreached += added.unreached
                for absent in added.absent:
                    warn(f"{absent}. {absent.hint}" if absent.hint else f"{absent}")
                if not quiet:
                    note(render_wallet.opening([sync_view(each) for each in added.syncs]))
                async with opened(ledger_url) as ledger:
                    if detach:
                        found += await syncs_of(ledger, added.keys)
                        continue
                    found += await run_wallets(added, config, ledger, providers, observer)
                if observer.is_interrupted:
                    break
                await _name_tokens(added, config, ledger_url, providers)
    if unreached and not found:
        raise unreached[0].error
    shown = [sync_view(each) for each in found]
    if as_json:
        print_json(shown)
    else:
        click.echo(render_wallet.sync_table(shown))
    if unreached:
        return _conclude_unreached(unreached)
    if detach:
        hint(f"run them with {commands()('worker')}")
        return 0
    if not quiet:
        await _summarize(found, config, ledger_url)
    code = _conclude(found, requests[0], interrupted=observer.is_interrupted)
    if observer.engine is not None:
        leave_if_stuck(observer.engine, code)
    return code


async def _name_tokens(added: Added, config: Config, ledger_url: str, providers: Providers) -> None:
    """Looks up the names of tokens; a history without them is complete all the same."""
    try:
        await name_tokens(added, config, ledger_url, providers)
    except SourceError as error:
        warn(f"the names of some tokens are unknown: {error}")


async def _summarize(syncs: Sequence[Sync], config: Config, ledger_url: str) -> None:
    """Says where was searched, what is proven of that, and what stays unknown."""
    for sink in dict.fromkeys(each.sink for each in syncs):
        its = [each for each in syncs if each.sink == sink]
        async with opened_wallets(config, sink) as store:
            searched = search_views(its, await searches(store, its))
        for line in render_wallet.searches(searched):
            note(f"searched: {line}")
    note(f"ledger: {redacted(ledger_url)}")


def _conclude_unreached(unreached: Sequence[Unreached]) -> int:
    """Says which networks were left out; the exit code says the same."""
    for network, error in unreached:
        complain(f"`{network}` was left out: {error}")
    hint(f"when the nodes are back, run `{same_command()}`")
    return 1


def _conclude(syncs: Sequence[Sync], request: WalletsRequest, *, interrupted: bool) -> int:
    """Says what to do next; the exit code says the same."""
    left = [each for each in syncs if each.state is not SyncState.COMPLETE]
    if interrupted and left:
        hint(f"resume with `{same_command()}`")
        return INTERRUPTED
    if left:
        complain(
            render_wallet.failure([sync_view(each) for each in left]),
            f"retry with `{same_command()}`",
        )
        return 1
    group = () if request.group == DEFAULT_GROUP else ("--group", request.group)
    shown = commands()("wallet", "show", request.addresses[0], *group)
    hint(f"{shown} shows what was found")
    return 0
