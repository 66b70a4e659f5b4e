"""Writes the references of tables and networks from their definitions: `make docs`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from gapless.chains import Network, families, networks
from gapless.cli.networks import finality, not_proven
from gapless.schema.reference import reference
from gapless.views.networks import network_view

_CHECKS = [check for family in families() for check in family.checks]
_NAMES = re.compile(rf"\b({'|'.join(_CHECKS)}|root)\b")
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
`gapless networks` prints the same. A network is named by its name, an alias, or its chain id. One
that is not listed is `custom`: its chain id is whatever the node says, and it is held against all
checks.

**Final** is what the node calls `finalized`; where it tells nothing, the depth counts. **Not
proven** are the checks that honest blocks of this network cannot pass, or were not seen to: what is
stored says so. What each check means is in [What is proven](../concepts/proof.md#the-checks).
**Known blocks** are heights whose hash Gapless knows: endpoints and stored blocks are compared with
them. See [the right chain](../concepts/proof.md#the-right-chain).
"""


def tables_page() -> str:
    return f"{_TABLES}\n{reference(it for family in families() for it in family.tables).rstrip()}\n"


def networks_page() -> str:
    return "\n".join([_NETWORKS, *_lines()]) + "\n"


def _lines() -> Iterator[str]:
    yield "| network | chain id | aliases | final | not proven | known blocks |"
    yield "|---|---|---|---|---|---|"
    yield from map(_row, networks())


def _row(network: Network) -> str:
    shown = network_view(network)
    cells = (
        f"`{shown.name}`",
        "any" if shown.chain_id is None else str(shown.chain_id),
        ", ".join(f"`{alias}`" for alias in shown.aliases),
        finality(shown.finality).replace("finalized", "`finalized`"),
        _NAMES.sub(r"`\1`", "; ".join(not_proven(network))) or "—",
        ", ".join(f"{each.height:,}" for each in shown.known_blocks) or "—",
    )
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    (FOLDER / "tables.md").write_text(tables_page())
    (FOLDER / "networks.md").write_text(networks_page())
