"""`gapless networks`: the networks that Gapless knows, and what can be proven of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import click

from gapless.chains import Network, family_of
from gapless.chains import networks as known_networks
from gapless.cli.data import to_json
from gapless.cli.figures import counted
from gapless.cli.options import json_option
from gapless.cli.render import table


@click.command()
@json_option
def networks(as_json: bool) -> None:
    """List the networks that Gapless knows.

    Each with its chain id, how its blocks become final, the known blocks that endpoints are
    compared with, and the checks that its blocks cannot pass. `custom` takes any other EVM chain.
    """
    if as_json:
        click.echo(to_json([network_json(each) for each in known_networks()]))
    else:
        click.echo(table([HEAD, *map(_row, known_networks())]))


HEAD = ("network", "chain id", "aliases", "block time", "final", "known blocks", "not proven")


def _row(network: Network) -> tuple[str, ...]:
    return (
        network.name,
        "any" if network.chain_id is None else str(network.chain_id),
        ", ".join(network.aliases),
        f"{network.block_time:g}s",
        finality(network),
        _known_blocks(network),
        "; ".join(not_proven(network)),
    )


def network_json(network: Network) -> dict[str, Any]:
    checks = family_of(network).checks
    return {
        "name": network.name,
        "chain_id": network.chain_id,
        "aliases": [*network.aliases],
        "block_time": network.block_time,
        "finality": {"tag": network.finality.tag, "depth": network.finality.depth},
        "checks": [
            {"from": era.start, "checks": [it for it in checks if it in era.checks]}
            for era in network.eras
        ],
        "known_blocks": [
            {"height": each.height, "hash": f"0x{each.hash.hex()}"} for each in network.anchors
        ],
    }


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
    every = [it for it in family_of(network).checks if _is_common(network, it)]
    if lacking := [it for it in every if it not in network.eras[-1].checks]:
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
