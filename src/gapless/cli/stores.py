"""The stored chain that a command is about: a sink by its path, name or variable, and a network."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import click

from gapless.config import load
from gapless.core.errors import BadSelector, UsageError
from gapless.core.heights import Heights
from gapless.core.ranges import Span
from gapless.core.redaction import redact
from gapless.networks import CUSTOM, Network, find_network, network_of_chain
from gapless.sinks import Sink, open_sink

sink_argument = click.argument("target", metavar="SINK")
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

    @property
    def network(self) -> str:
        return _name(self.chain_id)


@asynccontextmanager
async def opened_store(target: str, network_name: str | None) -> AsyncIterator[Store]:
    """The sink, which must be there; a name of `gapless.toml` comes before a path."""
    config = load()
    named = target in config.sinks or target.startswith("env:")
    wanted = None if network_name is None else find_network(network_name)
    async with await open_sink(config.sink(target) if named else target, create=False) as sink:
        shown = redact(target)
        yield Store(sink, shown, _chosen(shown, await sink.chains(), wanted))


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
