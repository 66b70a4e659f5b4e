"""`gapless networks`: the networks that Gapless knows, and what can be proven of each."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import click

from gapless.cli.options import json_option
from gapless.cli.output import print_json
from gapless.cli.render import table
from gapless.networks import FULL, NETWORKS, Check, Network
from gapless.views.figures import counted
from gapless.views.networks import FinalityView, NetworkView, network_view


@click.command()
@json_option
def networks(as_json: bool) -> None:
    """List the known networks.

    Shows the chain id of each, the rule for final blocks, the known blocks that endpoints are
    compared with, and the checks that cannot be made. Use `custom` for any other EVM chain.
    """
    if as_json:
        print_json([network_view(each) for each in NETWORKS.values()])
    else:
        click.echo(table([HEAD, *map(_row, NETWORKS.values())]))


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
    if lacking := FULL - network.eras[-1].checks:
        yield _listed(lacking)
    if network.byzantium:
        yield f"below {network.byzantium:,} receipts_root, if the node lacks root"
    if network.sprint:
        yield f"state_sync in every {network.sprint}th block"
    for era, following in pairwise(network.eras):
        yield f"below {following.start:,} {_listed(FULL - era.checks)}"


def _listed(checks: frozenset[Check]) -> str:
    few = checks if len(checks) <= len(FULL) // 2 else FULL - checks
    names = ", ".join(check for check in Check if check in few)
    return names if few is checks else f"all but {names}"
