"""`gapless follow`: follow the head of a chain, in the foreground or left to workers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import click

from gapless.blocks import job as blocks
from gapless.blocks.job import PROVIDERS
from gapless.blocks.request import FetchOptions
from gapless.chains import Level
from gapless.cli import render_follow
from gapless.cli.app import LazyGroup
from gapless.cli.display import ProgressDisplay
from gapless.cli.metrics import metrics_option, metrics_page
from gapless.cli.options import anchor_option, commands, common, hint, note, opened, warn
from gapless.cli.output import print_json
from gapless.config import Config, load
from gapless.core.errors import LedgerUnreachable, NotFound, UsageError
from gapless.following import control, job
from gapless.following.creation import Created, FollowRequest, create
from gapless.following.request import build_follow, configured
from gapless.following.service import Followers, following
from gapless.following.spec import FOREGROUND_SLOTS, SLOTS
from gapless.following.spool import spool_of
from gapless.following.status import (
    FollowStatus,
    all_follows,
    follow_if_readable,
    follow_status,
)
from gapless.ledger import Ledger
from gapless.providers import Providers
from gapless.publishers.publication import Publication
from gapless.publishers.service import RunningPublishers, publishing
from gapless.runtime.engine import Engine
from gapless.runtime.process_control import leave_if_stuck, stdout_kept_for_data, working
from gapless.runtime.signals import INTERRUPTED
from gapless.runtime.supervisor import supervised
from gapless.runtime.worker import WorkerOptions
from gapless.telemetry.lines import log_to_nobody, log_to_stderr
from gapless.views.follows import UnreadableFollowView, follow_view, listed_view

_LEVELS = [level.value for level in Level]
_LOOK_EVERY = 0.5  # seconds


class _FollowGroup(LazyGroup):
    """A group whose command is `start`, unless its first argument names another one."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        helps = ctx.help_option_names
        if not args or (args[0] not in self.commands and args[0] not in helps):
            args = ["start", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_FollowGroup, lazy={})
def follow() -> None:
    """Follow the head of a chain: `gapless follow NETWORK --rpc URL --to SINK`.

    Without a network, follow every chain that gapless.toml names in [follow.NAME].
    """


@follow.command()
@click.argument("network", required=False)
@click.option(
    "--rpc", "rpcs", multiple=True, metavar="URL", help="Node to follow. Repeat for failover."
)
@click.option(
    "--to",
    "target",
    metavar="PATH",
    help="Sink: `x.db` (SQLite), `x.duckdb`, `x/` (Parquet), a URL, or a stream: `redis://…`.",
)
@click.option(
    "--from",
    "start",
    metavar="HEIGHT|DATE",
    help="First block to store.  [default: after what is stored, else the next block]",
)
@click.option("--name", help="Name of the follow.  [default: from the network and the sink]")
@click.option(
    "--datasets",
    metavar="D,D,…",
    help="Tables: blocks,transactions,logs,withdrawals, and transfers if you list it.",
)
@click.option("--workers", type=int, help="Concurrent requests to each node.  [default: 8]")
@click.option("--chunk-size", type=int, help="Blocks per chunk of history.  [default: 1000]")
@click.option(
    "--verify", type=click.Choice(_LEVELS), help="Level of verification.  [default: auto]"
)
@anchor_option
@click.option(
    "--rps", type=click.FloatRange(0, min_open=True), help="Maximum calls per second to each node."
)
@click.option("--detach", is_flag=True, help="Create the follow and leave it to workers.")
@click.option("-q", "--quiet", is_flag=True, help="Print only errors and warnings.")
@metrics_option
@common
async def start(
    ledger_url: str,
    as_json: bool,
    network: str | None,
    rpcs: tuple[str, ...],
    target: str | None,
    start: str | None,
    name: str | None,
    detach: bool,
    quiet: bool,
    metrics_port: int | None,
    **options: Any,
) -> int:
    """Follow the head of a chain, and backfill its history.

    New blocks come first, however much history is left. When the chain is reorganised, the blocks
    that left it are replaced. Run the same command again to resume. A second process with the same
    ledger stands by, and takes over when the first one stops.

    Ctrl-C or SIGTERM stops it and exits with 0. With --json, each line on stderr is a JSON object.
    """
    config, spool = load(), None
    if network is None:
        if any((rpcs, target, start, name, *options.values())):
            raise UsageError(
                "no network given",
                hint="write `gapless follow NETWORK …`; follows of `gapless.toml` take no options",
            )
        requests, shared = _configured(config), True
    else:
        wanted = FetchOptions(**options)  # type: ignore[typeddict-item]
        if spool := spool_of(network, target, ledger_url):
            target, name = spool.path, name or spool.name
        request, targets = build_follow(config, network, rpcs, target, start, wanted, name)
        if spool:
            spool.require_tables(request.blocks.datasets)
        requests, config, shared = [request], targets.config, targets.shared
    if detach and not shared:
        raise UsageError(
            "`--detach` needs endpoints and a sink that workers can look up by name",
            hint="name them in `gapless.toml`, or give `env:VARIABLE`; URLs are never stored",
        )
    log_to_nobody()
    created = [await _created(each, config, ledger_url, quiet=quiet) for each in requests]
    if detach:
        return await _leave_to_workers(created, ledger_url, as_json=as_json)
    slots = SLOTS if shared else FOREGROUND_SLOTS
    names = [each.spec.name for each in created]
    providers = Providers(max(each.blocks.numbers.workers for each in requests))
    more = [] if spool is None else [spool.publication(created[0].spec, config)]
    return await _run(
        config, ledger_url, providers, slots, names, more, metrics_port, quiet, as_json
    )


async def _created(
    request: FollowRequest, config: Config, ledger_url: str, *, quiet: bool
) -> Created:
    found = await create(request, config, ledger_url)
    for absent in found.absent:
        warn(f"{absent}. {absent.hint}" if absent.hint else f"{absent}")
    if not quiet:
        note(render_follow.opening(found))
    return found


def _configured(config: Config) -> list[FollowRequest]:
    if not config.follow:
        raise UsageError(
            "no network given, and no `[follow.NAME]` in the configuration",
            hint="write `gapless follow NETWORK --rpc URL --to SINK`",
        )
    return [configured(config, name, each) for name, each in config.follow.items()]


async def _leave_to_workers(created: Sequence[Created], ledger_url: str, *, as_json: bool) -> int:
    async with opened(ledger_url) as ledger:
        shown = [follow_view(await follow_status(ledger, each.spec.name)) for each in created]
    if as_json:
        print_json(shown)
    else:
        for each in shown:
            click.echo(each.name)
    slots = ",".join(f"{queue}={count}" for queue, count in SLOTS.items())
    hint(f"run it with {commands()('worker', f'--slots {slots}')}")
    return 0


async def _run(
    config: Config,
    ledger_url: str,
    providers: Providers,
    slots: dict[str, int],
    names: Sequence[str],
    more: Sequence[Publication],
    metrics_port: int | None,
    quiet: bool,
    as_json: bool,
) -> int:
    """Follows until it is stopped, or until all follows are removed."""
    only = names[0] if len(names) == 1 else None
    engine = Engine(
        ledger_url,
        slots=slots,
        jobs=[job.job(), blocks.job()],
        options=WorkerOptions(only=only),
        shared={PROVIDERS: providers},
        config=config,
    )
    line = render_follow.FollowLine()
    with ProgressDisplay(line, quiet=quiet) as display, stdout_kept_for_data():
        log_to_stderr(logging.WARNING, as_json=as_json, say=display.write_line)
        async with (
            metrics_page(metrics_port) as page,
            providers,
            working(engine) as stopped,
            supervised(engine) as supervisor,
            following(engine, names) as followers,
            publishing(config, more) as publishers,
        ):
            with page.of(engine):
                beside = followers, publishers
                await _show_until(stopped, engine, beside, display, line, names)
            supervisor.stopping()
            followers.stop()
            publishers.stop()
            display.show_finishing(first=True)
            await engine.drain()
    if as_json:
        async with opened(ledger_url) as ledger:
            print_json([follow_view(each) for each in await _statuses(ledger, names)])
    assert engine.worker is not None
    code = INTERRUPTED if engine.worker.left_behind else 0
    leave_if_stuck(engine, code)
    return code


async def _show_until(
    stopped: asyncio.Event,
    engine: Engine,
    beside: tuple[Followers, RunningPublishers],
    display: ProgressDisplay,
    line: render_follow.FollowLine,
    names: Sequence[str],
) -> None:
    while not stopped.is_set():
        with suppress(LedgerUnreachable):  # the worker says so, and keeps trying
            statuses = await _statuses(engine.ledger, names)
            if not statuses:
                display.say(f"removed: {', '.join(f'`{name}`' for name in names)}")
                return
            followers, publishers = beside
            line.update(statuses, followers.running, publishers.loops)
            display.show(statuses[0].backfill)
        with suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_EVERY):
                await stopped.wait()


async def _statuses(ledger: Ledger, names: Sequence[str]) -> list[FollowStatus]:
    """The follows of these names, without those that somebody has removed."""
    found = []
    for name in names:
        with suppress(NotFound):
            found.append(await follow_status(ledger, name))
    return found


@follow.command()
@common
async def ls(ledger_url: str, as_json: bool) -> None:
    """List follows."""
    async with opened(ledger_url) as ledger:
        shown = [listed_view(each) for each in await all_follows(ledger)]
    if as_json:
        print_json(shown)
    elif shown:
        click.echo(render_follow.table_of(shown))
        for each in shown:
            if isinstance(each, UnreadableFollowView):
                removal = commands()("follow", "rm", each.name)
                warn(f"`{each.name}` is damaged: {each.problem}. {removal} forgets it")
    else:
        note(f"there are no follows yet in {ledger.url}")
        hint("`gapless follow NETWORK --rpc URL --to SINK` creates one")


@follow.command()
@click.argument("name")
@common
async def show(ledger_url: str, as_json: bool, name: str) -> None:
    """Show a follow: its phase, its lag and its gaps."""
    async with opened(ledger_url) as ledger:
        shown = follow_view(await follow_status(ledger, name))
    if as_json:
        print_json(shown)
    else:
        click.echo(render_follow.page(shown))
        hint(render_follow.next_step(shown))


@follow.command()
@click.argument("name")
@common
async def pause(ledger_url: str, as_json: bool, name: str) -> None:
    """Pause a follow.

    Nothing new is started, and blocks that are being stored finish.
    """
    async with opened(ledger_url) as ledger:
        await control.pause(ledger, name)
        shown = listed_view(await follow_if_readable(ledger, name))
    if as_json:
        print_json(shown)
    else:
        note(f"`{name}` is paused")


@follow.command()
@click.argument("name")
@common
async def resume(ledger_url: str, as_json: bool, name: str) -> None:
    """Resume a paused follow."""
    async with opened(ledger_url) as ledger:
        await control.resume(ledger, name)
        shown = listed_view(await follow_if_readable(ledger, name))
    if as_json:
        print_json(shown)
    else:
        note(f"`{name}` is resumed")


@follow.command()
@click.argument("name")
@common
async def rm(ledger_url: str, as_json: bool, name: str) -> None:
    """Remove a follow; what it has stored stays."""
    async with opened(ledger_url) as ledger:
        found = await follow_if_readable(ledger, name)
        await control.remove(ledger, name)
    if as_json:
        print_json(listed_view(found))
    else:
        sink = found.backfill.spec.get("sink", "its sink")
        note(f"`{name}` is removed; its blocks stay in `{sink}`")
