"""The stored chain that a command is about.

It is named by its sink (a path, a name or a variable) and a network, or by the backfill that has
filled it: then the blocks in question are those that the backfill was asked for.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import click

from gapless.cli.options import opened
from gapless.config import Config, load
from gapless.core.errors import BadSelector, UsageError
from gapless.core.heights import Heights
from gapless.core.ranges import Span
from gapless.core.redaction import redact
from gapless.ledger.records import Backfill
from gapless.networks import CUSTOM, Network, find_network, network_of_chain
from gapless.sinks import Access, Sink, open_sink

sink_argument = click.argument("target", metavar="SINK|BACKFILL")
_BACKFILL = re.compile(r"bf_[a-z2-7]{10}(-\d+)?")
network_option = click.option(
    "--network", "network_name", metavar="NAME", help="Which chain, if there are several."
)
blocks_option = click.option(
    "--blocks",
    "blocks_text",
    metavar="A:B",
    help="From A to B, both included; from the lowest to the highest stored block by default.",
)


@dataclass(frozen=True)
class Store:
    """An open sink, and the chain in it that was asked for."""

    sink: Sink
    shown: str  # the sink as the person may write it again
    chain_id: int
    span: Span | None  # the blocks in question; None: from the lowest to the highest

    @property
    def network(self) -> str:
        return _name(self.chain_id)


@asynccontextmanager
async def opened_store(
    ledger_url: str, target: str, network_name: str | None, blocks_text: str | None
) -> AsyncIterator[Store]:
    """The sink, which must be there; a name of `gapless.toml` comes before a path."""
    config, span = load(), span_of(blocks_text)
    wanted = None if network_name is None else find_network(network_name)
    if target not in config.sinks and _BACKFILL.fullmatch(target):
        async with opened(ledger_url) as ledger:
            backfill = await ledger.backfill(target)
        target, wanted, asked = _filled_by(backfill)
        span = span or asked
    async with await open_sink(_place(config, target), Access.READ) as sink:
        shown = redact(target)
        yield Store(sink, shown, _chosen(shown, await sink.chains(), wanted), span)


def _place(config: Config, target: str) -> str:
    named = target in config.sinks or target.startswith("env:")
    return config.sink(target) if named else target


def _filled_by(backfill: Backfill) -> tuple[str, Network, Span]:
    """The sink, the network and the blocks of a backfill."""
    if backfill.job != "blocks":
        raise UsageError(
            f"backfill `{backfill.id}` runs `{backfill.job}`, and fills no sink",
            hint=f"`gapless backfill show {backfill.id}` tells about it",
        )
    network = network_of_chain(int(backfill.spec["chain_id"]))
    asked = Span(int(backfill.selector["start"]), int(backfill.selector["end"]))
    return str(backfill.spec["sink"]), network, asked


def span_of(text: str | None) -> Span | None:
    """The range of `--blocks`. There is no head here to count from, only what is stored."""
    if text is None:
        return None
    heights = Heights.parse(text)
    if not isinstance(heights.last, int):
        raise BadSelector(f"`{text}` has no end", hint="write `18M:18.005M` or `18000000:+5000`")
    return Span(heights.first, heights.last)


def _chosen(shown: str, chains: list[int], wanted: Network | None) -> int:
    if wanted is not None and wanted.chain_id is not None:
        return wanted.chain_id
    if len(chains) == 1:
        return chains[0]
    if not chains:
        raise UsageError(f"`{shown}` holds no blocks", hint="`gapless fetch` brings some")
    raise UsageError(
        f"`{shown}` holds several chains: {', '.join(map(_name, chains))}",
        hint="choose one with `--network NAME`",
    )


def _name(chain_id: int) -> str:
    """The network's name, or its chain id, as commands take it."""
    name = network_of_chain(chain_id).name
    return str(chain_id) if name == CUSTOM.name else name
