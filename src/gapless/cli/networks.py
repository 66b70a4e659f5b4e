"""`gapless networks`: the networks that Gapless knows, and what can be proven of each."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import click

from gapless.cli.data import to_json
from gapless.cli.options import json_option
from gapless.cli.render import table
from gapless.networks import ALIASES, FULL, NETWORKS, Check, Network
from gapless.views.figures import counted


@click.command()
@json_option
def networks(as_json: bool) -> None:
    """List the networks that Gapless knows.

    Each with its chain id, how its blocks become final, the known blocks that endpoints are
    compared with, and the checks that its blocks cannot pass. `custom` takes any other EVM chain.
    """
    if as_json:
        click.echo(to_json([network_json(each) for each in NETWORKS.values()]))
    else:
        click.echo(table([HEAD, *map(_row, NETWORKS.values())]))


HEAD = ("network", "chain id", "aliases", "block time", "final", "known blocks", "not proven")


def _row(network: Network) -> tuple[str, ...]:
    return (
        network.name,
        "any" if network.chain_id is None else str(network.chain_id),
        ", ".join(aliases(network)),
        f"{network.block_time:g}s",
        finality(network),
        _known_blocks(network),
        "; ".join(not_proven(network)),
    )


def network_json(network: Network) -> dict[str, Any]:
    return {
        "name": network.name,
        "chain_id": network.chain_id,
        "aliases": aliases(network),
        "block_time": network.block_time,
        "finality": {"tag": network.finality.tag, "depth": network.finality.depth},
        "checks": [
            {"from": era.start, "checks": [check for check in Check if check in era.checks]}
            for era in network.eras
        ],
        "known_blocks": [
            {"height": each.height, "hash": f"0x{each.hash.hex()}"} for each in network.anchors
        ],
    }


def aliases(network: Network) -> list[str]:
    return [alias for alias, name in ALIASES.items() if name == network.name]


def finality(network: Network) -> str:
    """Which of its blocks are final."""
    depth = f"{counted(network.finality.depth, 'block')} deep"
    return f"{network.finality.tag}, or {depth}" if network.finality.tag else depth


def _known_blocks(network: Network) -> str:
    match [each.height for each in network.anchors]:
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
