"""What was learned of endpoints: limits, methods, earliest blocks, whatever their source keeps.

A profile belongs to an endpoint of a network by its name; its URL, which may hold a key, is never
kept. The last one who tells is believed: profiles are experience, and no promise rests on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from gapless.ledger.database import Transaction


async def profiles(tx: Transaction, network: str) -> dict[str, Any]:
    """The profiles of a network's endpoints by name."""
    rows = await tx.fetch("profiles", network=network)
    return {name: msgspec.json.decode(profile) for name, profile in rows}


async def keep(tx: Transaction, network: str, learned: Mapping[str, Any]) -> None:
    """Replaces the profiles of these endpoints, in one order everywhere: writers never cross."""
    items = [[name, msgspec.json.encode(learned[name]).decode()] for name in sorted(learned)]
    await tx.fetch("keep_profiles", network=network, items=items)
