"""`gapless doctor`: examine endpoints, and say what that means for a fetch."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import click

from gapless.blocks.targets import host_of, usual_endpoints
from gapless.chains import Network, families, family_of, find_network, networks
from gapless.chains.findings import Findings
from gapless.cli.options import anchor_option, complain, json_option
from gapless.cli.output import print_json
from gapless.cli.remedies import hint_of
from gapless.cli.render import table
from gapless.cli.suggestions import Commands
from gapless.config import Config, load
from gapless.core.anchors import Anchor
from gapless.core.errors import GaplessError, SourceError, Unavailable, UsageError
from gapless.providers import EndpointSpec, Refused
from gapless.telemetry.lines import log_to_nobody
from gapless.views.endpoints import (
    UnusableEndpoint,
    UsableEndpoint,
    unusable_endpoint,
    usable_endpoint,
)
from gapless.views.figures import short


class ProbeFailure(NamedTuple):
    """An endpoint that cannot be used."""

    endpoint: str
    error: GaplessError

    @property
    def hint(self) -> str:
        hint = hint_of(self.error, Commands()) if isinstance(self.error, UsageError) else None
        return hint or "Is this the URL of a node, and is the API key still valid?"


@click.command()
@click.option(
    "--rpc",
    "rpcs",
    multiple=True,
    metavar="URL",
    help="Node or named endpoint to examine. Repeatable.",
)
@click.option(
    "--network", "name", metavar="NAME", help="Network that the endpoints must belong to."
)
@anchor_option
@json_option
def doctor(rpcs: tuple[str, ...], name: str | None, anchors: tuple[str, ...], as_json: bool) -> int:
    """Examine endpoints: chain, history, limits, speed.

    Says what the answers mean for a fetch. Without --rpc, examines all endpoints of gapless.toml,
    or that of ETH_RPC_URL. Takes some seconds and a few hundred calls to each endpoint. Exit code
    1: some endpoints cannot be used; 2: none can be used.
    """
    network = None if name is None else find_network(name)
    specs = [*_specs(load(), rpcs, network)]
    if not specs:
        raise UsageError("there is no endpoint to examine", hint="give one with `--rpc URL`")
    log_to_nobody()  # whatever is wrong with an endpoint is among its outcome
    outcomes = asyncio.run(_examined(specs, network, dict(map(Anchor.parse, anchors))))
    found = [each for each in outcomes if isinstance(each, Findings)]
    if as_json:
        print_json([_view(each) for each in outcomes])
    elif found:
        click.echo(_page([usable_endpoint(each) for each in found]))
    for each in outcomes:
        if isinstance(each, ProbeFailure):
            complain(str(each.error), each.hint)
    if _are_apart(found):
        complain("these endpoints are on different chains, so no fetch can use them together")
        return 1
    return 0 if len(found) == len(outcomes) else 1 if found else 2


def _specs(config: Config, rpcs: Sequence[str], network: Network | None) -> Iterator[EndpointSpec]:
    """The endpoints that were given, or all that the configuration has for the network."""
    configured = [
        name
        for name, each in config.endpoints.items()
        if network is None or each.network in (None, network.name)
    ]
    asked = networks() if network is None else (network,)
    usual = [name for each in asked for name in usual_endpoints(each)]
    taken: set[str] = set()
    for text in rpcs or configured or usual:
        if "://" in text:
            name = host_of(text)
            while name in taken:
                name += "'"
            yield EndpointSpec(name, text)
        else:
            known = config.endpoint(text)
            name = text
            yield EndpointSpec(name, known.url, known.rps, headers=known.headers)
        taken.add(name)


def _are_apart(found: Sequence[Findings]) -> bool:
    """Whether some differ in chain id, or in their first block although that is the same."""
    genesis = {each.genesis for each in found if each.genesis is not None}
    return len({each.chain_id for each in found}) > 1 or len(genesis) > 1


async def _examined(
    specs: Sequence[EndpointSpec], network: Network | None, anchors: Mapping[int, bytes]
) -> list[Findings | ProbeFailure]:
    async def examine(spec: EndpointSpec) -> Findings | ProbeFailure:
        try:
            return await _probed(spec, network, anchors)
        except GaplessError as error:
            return ProbeFailure(spec.name, error)

    return await asyncio.gather(*map(examine, specs))


async def _probed(
    spec: EndpointSpec, network: Network | None, anchors: Mapping[int, bytes]
) -> Findings:
    """What the family finds out; if no network is named, the first one that the node answers.

    A node of another family refuses the calls, or has no such path. If no family is answered, the
    refusal says more than that nothing came.
    """
    failures: list[SourceError] = []
    for family in families() if network is None else (family_of(network),):
        try:
            return await family.probe(spec, network, anchors)
        except (Refused, Unavailable) as error:
            failures.append(error)
    raise next((each for each in failures if isinstance(each, Refused)), failures[0])


def _view(outcome: Findings | ProbeFailure) -> UsableEndpoint | UnusableEndpoint:
    if isinstance(outcome, ProbeFailure):
        return unusable_endpoint(outcome.endpoint, str(outcome.error), outcome.hint)
    return usable_endpoint(outcome)


def _page(found: Sequence[UsableEndpoint]) -> str:
    """A column for each endpoint, and below what it means."""
    facts = [_facts(each) for each in found]
    names = dict.fromkeys(name for each in facts for name in each)
    rows = [(name, *(each.get(name, "") for each in facts)) for name in names]
    lines = [table(rows)]
    for each in found:
        lines += ["", f"{each.endpoint} for a fetch:", *(f"  - {it}" for it in each.meaning)]
    return "\n".join(lines)


def _facts(found: UsableEndpoint) -> dict[str, str]:
    rate = found.rate
    receipts = {
        "receipts by block": _yes(found.receipts_by_block),
        "receipts by transaction": _yes(found.receipts_by_transaction),
    }
    logs = {"blocks in eth_getLogs": f"{found.logs_range:,}" if found.logs_range else "none"}
    has_receipts = found.receipts_by_block is not None
    return {
        "endpoint": found.endpoint,
        "chain": f"{found.network} ({found.chain_id})",
        "client": found.client or "does not say",
        "known block": _known(found),
        "head": f"{found.head:,}",
        "finalized": "not known" if found.finalized is None else f"{found.finalized:,}",
        "earliest block": f"{found.earliest_block:,}",
        **(receipts if has_receipts else {}),
        **{name: _yes(has) for name, has in found.offers.items()},
        "calls in a request": f"{found.batch_calls}",
        **(logs if has_receipts else {}),
        "speed": "not measured" if rate is None else f"{short(rate.calls_per_second)} calls/s",
        "calls for this": f"{found.calls:,}",
        "decoder": found.decoder,
    }


def _known(found: UsableEndpoint) -> str:
    """Whether it has the block whose hash is known beforehand; another one is an error."""
    return "none" if found.known_block is None else f"{found.known_block:,} is the same"


def _yes(has: bool | None) -> str:
    return "not tried" if has is None else "yes" if has else "no"
