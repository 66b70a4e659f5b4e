"""`gapless fetch`: blocks of a network into a sink, in the foreground or left to workers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import click
import msgspec

from gapless.cli import data, fetching
from gapless.cli.fetch_run import FetchRun
from gapless.cli.options import common, note, opened
from gapless.cli.places import Places, places_of
from gapless.config import checked, load
from gapless.core.chunk import Order
from gapless.core.errors import LedgerError, UsageError
from gapless.core.heights import Heights
from gapless.core.ranges import RangeSet, Span
from gapless.core.retry import RetryKind, RetryPolicy
from gapless.networks import find_network
from gapless.pipeline.check import Level
from gapless.runtime.fetch import (
    FOREGROUND,
    Wish,
    calls_for,
    covered,
    datasets_of,
    survey,
)
from gapless.runtime.plane import (
    BlocksSpec,
    endpoints_of,
    plane_with,
    profiles_from,
)
from gapless.sinks import Sink
from gapless.sinks.location import open_sink
from gapless.sources.evm.source import EvmSource
from gapless.sources.rpc import Pool, Profile

_LEVELS = [level.value for level in Level]
_POLICIES = [kind.value for kind in RetryKind]
_ORDERS = [order.value for order in Order]


@click.command()
@click.argument("network")
@click.argument("blocks", required=False, metavar="[A:B]")
@click.option("--rpc", "rpcs", multiple=True, metavar="URL", help="A node; repeat it for failover.")
@click.option("--to", "target", metavar="PATH", help="`x.db` is SQLite, `x/` is Parquet.")
@click.option("--datasets", metavar="D,D,…", help="Of blocks,transactions,logs,withdrawals.")
@click.option("--workers", type=int, help="Requests in flight, to each node.  [default: 8]")
@click.option("--batch-size", type=int, help="Blocks in a write.  [default: 100]")
@click.option("--chunk-size", type=int, help="Blocks in a chunk.  [default: 1000]")
@click.option("--max-concurrent", type=int, help="Chunks at once.  [default: 4]")
@click.option("--verify", type=click.Choice(_LEVELS), help="How much to prove.  [default: auto]")
@click.option("--retry", type=click.Choice(_POLICIES), help="What a failed chunk means.")
@click.option("--rps", type=click.FloatRange(0, min_open=True), help="Calls a second, to each.")
@click.option("--max-requests", type=click.IntRange(1), help="Stop after so many calls.")
@click.option("--order", type=click.Choice(_ORDERS), help="Which end to begin at.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done, and its price.")
@click.option("--detach", is_flag=True, help="Only create the backfill; workers run it.")
@common
async def fetch(ledger_url: str, as_json: bool, dry_run: bool, detach: bool, **given: Any) -> int:
    """Fetch blocks A to B of a network, both included, and prove them.

    A:B is written `18M:18.005M`, `18000000:+5000`, `18M:latest` or `:finalized`. The same command
    again goes on where it was, or finds that nothing is left to do.

    A node or a sink may also be named as in gapless.toml, or as `env:VARIABLE`. URLs hold keys:
    they are never stored or shown.
    """
    wish, places = _understood(given)
    if detach and not places.shared:
        raise UsageError(
            "`--detach` needs endpoints and a sink that workers know by name",
            hint="name them in `gapless.toml`, or give `env:VARIABLE`: URLs are never stored",
        )
    profiles = await _known_profiles(ledger_url, wish.network.name)
    async with Pool(
        endpoints_of(places.config, wish.endpoints),
        workers=wish.numbers.workers,
        chain_id=wish.network.chain_id,
        max_calls=given["max_requests"],
        profiles=profiles,
    ) as pool:
        source = EvmSource(pool, wish.network, receipts=False)
        tip = await survey(source, wish.network)
        assert pool.chain_id is not None
        span = tip.pin(wish.heights)
        note(fetching.where(wish.network, pool.chain_id, wish.heights, span, tip))
        target = places.config.sink(wish.sink)
        async with _sink_at(target, create=not dry_run) as sink:
            spec = wish.spec(pool.chain_id, "" if sink is None else sink.id)
            done = RangeSet() if sink is None else await covered(sink, spec, span)
            missing = RangeSet.of(span) - done
            note(fetching.plan(spec, span, missing))
            if dry_run or sink is None:
                _print_dry_run(spec, span, missing, as_json=as_json)
                return 0
            work = FetchRun(ledger_url, wish, spec, span, missing, target)
            if not missing:
                return await work.conclude(sink, None, as_json=as_json)
            if detach:
                return await work.leave_to_workers(as_json=as_json)
            with plane_with(spec, pool, sink, wish.numbers.workers) as plane:
                return await work.here(plane, as_json=as_json)


def _understood(given: dict[str, Any]) -> tuple[Wish, Places]:
    """The wish, with everything that can be wrong about it found before a node is asked."""
    config, network = load(), find_network(given["network"])
    names = ("workers", "batch_size", "chunk_size", "max_concurrent", "verify", "retry")
    said = {name: given[name] for name in names if given[name] is not None}
    numbers = checked(msgspec.structs.replace(config.fetch, **said))
    if numbers.verify not in _LEVELS or numbers.retry not in _POLICIES:
        raise UsageError("`verify` or `retry` of the configuration is not known")
    places = places_of(config, network, given["rpcs"], given["target"], given["rps"])
    wish = Wish(
        network=network,
        heights=_heights(given["blocks"], numbers.start_height, numbers.end_height),
        datasets=datasets_of(given["datasets"]),
        endpoints=places.endpoints,
        sink=places.sink,
        verify=Level(numbers.verify),
        numbers=numbers,
        order=Order(given["order"] or Order.OLDEST),
        retry=RetryPolicy.named(numbers.retry),
        queue="default" if places.shared else FOREGROUND,
    )
    return wish, places


def _heights(text: str | None, start: int | None, end: int | None) -> Heights:
    if text is not None:
        return Heights.parse(text)
    if start is None or end is None:
        raise UsageError("which blocks?", hint="write `18M:+5000` behind the network")
    return Heights.parse(f"{start}:{end}")


async def _known_profiles(ledger_url: str, network: str) -> dict[str, Profile]:
    """What the ledger knows of the endpoints, if there is a ledger."""
    with suppress(LedgerError):
        async with opened(ledger_url) as ledger:
            return profiles_from(await ledger.profiles(network))
    return {}


@asynccontextmanager
async def _sink_at(target: str, *, create: bool) -> AsyncIterator[Sink | None]:
    """The sink; None if it is not there and may not be created."""
    try:
        sink = await open_sink(target, create=create)
    except UsageError:
        if create:
            raise
        yield None
        return
    async with sink:
        yield sink


def _print_dry_run(spec: BlocksSpec, span: Span, missing: RangeSet, *, as_json: bool) -> None:
    if as_json:
        calls = calls_for(len(missing), spec)
        found = {"first": span.first, "last": span.last, "missing": len(missing), "calls": calls}
        click.echo(data.to_json(found))
