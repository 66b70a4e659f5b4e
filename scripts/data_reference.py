"""Writes the references of tables and networks from their definitions: `make docs`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gapless.networks import ALIASES, FULL, NETWORKS, Check, Network
from gapless.schema.reference import reference

FOLDER = Path(__file__).resolve().parents[1] / "docs/reference"
_WRITTEN = "Written by `make docs` from the definitions themselves; do not edit it.\n"
_TABLES = f"""# Tables

{_WRITTEN}
A block is stored with all its rows, or not at all. Bytes are stored as bytes; databases have a view
`<table>_hex` of each table, for people. How to [query them](../how-to/query.md). PostgreSQL has
[types of its own](sinks.md#postgresql), and no columns `<name>_f64`.
"""
_NETWORKS = f"""# Networks

{_WRITTEN}
A network is named by its name, an alias, or its chain id. One that is not listed is `custom`: its
chain id is whatever the node says, and it is held against all checks.

**Final** is what the node calls `finalized`; where it tells nothing, the depth counts. **Not
proven** are the checks that honest blocks of this network cannot pass, or were not seen to: what is
stored says so. What each check means is in [What is proven](../concepts/proof.md#the-checks).
**Known blocks** are heights whose hash Gapless knows: endpoints and stored blocks are compared with
them. See [the right chain](../concepts/proof.md#the-right-chain).
"""


def tables_page() -> str:
    return f"{_TABLES}\n{reference().rstrip()}\n"


def networks_page() -> str:
    return "\n".join([_NETWORKS, *_lines()]) + "\n"


def _lines() -> Iterator[str]:
    yield "| network | chain id | aliases | final | not proven | known blocks |"
    yield "|---|---|---|---|---|---|"
    yield from map(_row, NETWORKS.values())


def _row(network: Network) -> str:
    chain = "any" if network.chain_id is None else str(network.chain_id)
    aliases = ", ".join(f"`{alias}`" for alias, name in ALIASES.items() if name == network.name)
    depth = network.finality.depth
    final = f"`{network.finality.tag}`, or {depth}" if network.finality.tag else f"{depth}"
    blocks = "block" if depth == 1 else "blocks"
    cells = (f"`{network.name}`", chain, aliases, f"{final} {blocks} deep", _not_proven(network))
    known = ", ".join(f"{each.height:,}" for each in network.anchors) or "—"
    return f"| {' | '.join((*cells, known))} |"


def _not_proven(network: Network) -> str:
    """What the latest blocks lack, and what earlier ones did."""
    *earlier, latest = network.eras
    parts = [_listed(FULL - latest.checks)]
    if network.byzantium:
        parts.append(f"below {network.byzantium:,} `receipts_root`, if the node lacks `root`")
    if network.sprint:
        parts.append(f"`state_sync` in every {network.sprint}th block")
    for era, behind in zip(earlier, network.eras[1:], strict=True):
        parts.append(f"below {behind.start:,} {_listed(FULL - era.checks)}")
    return "; ".join(filter(None, parts)) or "—"


def _listed(checks: frozenset[Check]) -> str:
    few = checks if len(checks) <= len(FULL) // 2 else FULL - checks
    names = ", ".join(f"`{check}`" for check in Check if check in few)
    return names if few is checks else f"all but {names}"


if __name__ == "__main__":
    (FOLDER / "tables.md").write_text(tables_page())
    (FOLDER / "networks.md").write_text(networks_page())
