"""`gapless doctor`: what endpoints are good for, and what that means for a fetch."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import click
import msgspec

from gapless.cli.data import to_json
from gapless.cli.figures import counted, duration, short
from gapless.cli.logs import log_to_nobody
from gapless.cli.options import anchor_option, complain, json_option
from gapless.cli.render import table
from gapless.config import Config, load
from gapless.core.anchors import Anchor
from gapless.core.errors import GaplessError, UsageError
from gapless.networks import Network, find_network, network_of_chain
from gapless.runtime.places import host_of, usual_endpoints
from gapless.sources.evm.probe import Findings, probe
from gapless.sources.rpc import EndpointSpec

_MANY = 1_000_000  # blocks


class Failure(NamedTuple):
    """An endpoint that cannot be used."""

    endpoint: str
    error: GaplessError

    @property
    def hint(self) -> str:
        told = self.error.hint if isinstance(self.error, UsageError) else None
        return told or "is this the URL of a JSON-RPC node, and does its key still hold?"


@click.command()
@click.option(
    "--rpc",
    "rpcs",
    multiple=True,
    metavar="URL",
    help="A node, or the name of an endpoint; repeat it for more.",
)
@click.option("--network", "name", metavar="NAME", help="The network that it should be of.")
@anchor_option
@json_option
def doctor(rpcs: tuple[str, ...], name: str | None, anchors: tuple[str, ...], as_json: bool) -> int:
    """Find out what endpoints are good for.

    Asks each one for its chain, history, receipts, limits and speed, and says what that means for
    a fetch. Without --rpc, all endpoints of gapless.toml are asked, or else that of ETH_RPC_URL.
    It costs each some hundred calls and takes some seconds. Exit code 1: some cannot be used; 2:
    none can.
    """
    network = None if name is None else find_network(name)
    specs = [*_specs(load(), rpcs, network)]
    if not specs:
        raise UsageError("there is no endpoint to ask", hint="give one with `--rpc URL`")
    log_to_nobody()  # whatever is wrong with an endpoint is among its outcome
    outcomes = asyncio.run(_examined(specs, network, dict(map(Anchor.parse, anchors))))
    found = [each for each in outcomes if isinstance(each, Findings)]
    if as_json:
        click.echo(to_json([_json(each) for each in outcomes]))
    elif found:
        click.echo(_page(found))
    for each in outcomes:
        if isinstance(each, Failure):
            complain(str(each.error), each.hint)
    if _are_apart(found):
        complain("these endpoints are on different chains: no fetch can use them together")
        return 1
    return 0 if len(found) == len(outcomes) else 1 if found else 2


def _specs(config: Config, rpcs: Sequence[str], network: Network | None) -> Iterator[EndpointSpec]:
    """The endpoints that were given, or all that the configuration has for the network."""
    configured = [
        name
        for name, each in config.endpoints.items()
        if network is None or each.network in (None, network.name)
    ]
    taken: set[str] = set()
    for text in rpcs or configured or usual_endpoints(network or find_network("ethereum")):
        if "://" in text:
            name = host_of(text)
            while name in taken:
                name += "'"
            yield EndpointSpec(name, text)
        else:
            known = config.endpoint(text)
            name = text
            yield EndpointSpec(name, known.url, known.rps)
        taken.add(name)


def _are_apart(found: Sequence[Findings]) -> bool:
    """Whether some differ in chain id, or in their first block although that is the same."""
    genesis = {each.genesis for each in found if each.genesis is not None}
    return len({each.chain_id for each in found}) > 1 or len(genesis) > 1


async def _examined(
    specs: Sequence[EndpointSpec], network: Network | None, anchors: Mapping[int, bytes]
) -> list[Findings | Failure]:
    async def examine(spec: EndpointSpec) -> Findings | Failure:
        try:
            return await probe(spec, network, anchors)
        except GaplessError as error:
            return Failure(spec.name, error)

    return await asyncio.gather(*map(examine, specs))


def _json(outcome: Findings | Failure) -> dict[str, Any]:
    if isinstance(outcome, Failure):
        error = {"error": str(outcome.error), "hint": outcome.hint}
        return {"endpoint": outcome.endpoint, "usable": False, **error}
    found: dict[str, Any] = msgspec.to_builtins(outcome)
    return {**found, "usable": True, "meaning": [*meaning(outcome)]}


def _page(found: Sequence[Findings]) -> str:
    """A column for each endpoint, and below what it means."""
    facts = [_facts(each) for each in found]
    rows = [(name, *(each[name] for each in facts)) for name in facts[0]]
    lines = [table(rows)]
    for each in found:
        lines += ["", f"{each.endpoint} for a fetch:", *(f"  - {it}" for it in meaning(each))]
    return "\n".join(lines)


def _facts(found: Findings) -> dict[str, str]:
    rate = found.rate
    return {
        "endpoint": found.endpoint,
        "chain": f"{found.network} ({found.chain_id})",
        "client": found.client or "does not say",
        "known block": _known(found),
        "head": f"{found.head:,}",
        "finalized": "not known" if found.finalized is None else f"{found.finalized:,}",
        "earliest block": f"{found.earliest_block:,}",
        "receipts by block": _yes(found.receipts_by_block),
        "receipts by transaction": _yes(found.receipts_by_transaction),
        "calls in a request": f"{found.batch_calls}",
        "blocks in eth_getLogs": "none" if found.logs_range is None else f"{found.logs_range:,}",
        "speed": "not measured" if rate is None else f"{short(rate.calls_per_second)} calls/s",
        "calls for this": f"{found.calls:,}",
    }


def _known(found: Findings) -> str:
    """Whether it has the block whose hash is known beforehand; another one is an error."""
    return "none" if found.known_block is None else f"{found.known_block:,} is the same"


def _yes(has: bool | None) -> str:
    return "not tried" if has is None else "yes" if has else "no"


def meaning(found: Findings) -> Iterator[str]:
    """What the findings mean for a fetch, in sentences."""
    if found.earliest_block:
        yield f"history begins at {found.earliest_block:,}: older blocks need an archive endpoint"
    else:
        yield "the whole history is there"
    if found.receipts_by_block:
        yield "a block with its receipts costs 2 calls"
    elif found.receipts_by_transaction:
        yield "a block costs 1 call and 1 more for each of its transactions"
    elif found.logs_range:
        yield "receipts cannot be had: logs come by range, and nothing proves them"
    else:
        yield "neither receipts nor logs can be had: only blocks can be fetched"
    if found.finalized is None:
        depth = network_of_chain(found.chain_id).finality.depth
        yield f"finality is not told: what is {counted(depth, 'block')} deep counts as final"
    if found.rate is not None and found.rate.blocks_per_second:
        pace = found.rate.blocks_per_second
        yield f"about {short(pace)} blocks/s: a million blocks in {duration(_MANY / pace)}"
        if found.rate.limited:
            yield "it limits the rate: a fetch slows down by itself, `--rps` spares the refusals"
