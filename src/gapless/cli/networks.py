"""`gapless networks`: the networks that Gapless knows, and what can be proven of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import click

from gapless.chains import Network, family_of
from gapless.chains import networks as known_networks
from gapless.cli.options import json_option
from gapless.cli.output import print_json
from gapless.cli.render import table
from gapless.core.heights import HIGHEST
from gapless.views.figures import counted
from gapless.views.networks import FinalityView, NetworkView, network_view


@click.command()
@json_option
def networks(as_json: bool) -> None:
    """List the known networks.

    Shows the chain id of each, the rule for final blocks, the known blocks that endpoints are
    compared with, and the checks that cannot be made. A network whose chain id is `any` stands
    for every other chain of its kind.
    """
    if as_json:
        print_json([network_view(each) for each in known_networks()])
    else:
        click.echo(table([HEAD, *map(_row, known_networks())]))


HEAD = ("network", "chain id", "aliases", "block time", "final", "known blocks", "not proven")


def _row(network: Network) -> tuple[str, ...]:
    shown = network_view(network)
    return (
        shown.name,
        "any" if shown.chain_id is None else str(shown.chain_id),
        ", ".join(shown.aliases),
        f"{shown.block_time:g}s",
        finality(shown.finality),
        _known_blocks(shown),
        "; ".join(not_proven(network)),
    )


def finality(rule: FinalityView) -> str:
    """Which blocks of a network are final."""
    depth = f"{counted(rule.depth, 'block')} deep"
    return f"{rule.tag}, or {depth}" if rule.tag else depth


def _known_blocks(network: NetworkView) -> str:
    match [each.height for each in network.known_blocks]:
        case []:
            return ""
        case [0]:
            return "genesis"
        case [*heights]:
            return f"{len(heights)}, up to {heights[-1]:,}"


def not_proven(network: Network) -> Iterator[str]:
    """What the latest blocks lack, and what earlier ones did."""
    every = [it for it in family_of(network).checks if _is_common(network, it)]
    if lacking := [it for it in every if it not in network.checks_at(HIGHEST)]:
        yield _listed(lacking, every)
    yield from network.caveats
    for era, following in pairwise(network.eras):
        lacking = [it for it in every if it not in era.checks]
        yield f"below {following.start:,} {_listed(lacking, every)}"


def _is_common(network: Network, check: str) -> bool:
    """Whether the blocks of any network of its kind pass the check."""
    every = family_of(network).networks
    return any(check in era.checks for each in every for era in each.eras)


def _listed(checks: Sequence[str], every: Sequence[str]) -> str:
    if len(checks) <= len(every) // 2:
        return ", ".join(checks)
    return f"all but {', '.join(it for it in every if it not in checks)}"
