"""What was learned about endpoints: limits, methods, earliest blocks, whatever their source stores.

A profile belongs to an endpoint of a network by name; its URL, which may contain an API key, is
never stored. The last writer wins: profiles only make requests faster, and no guarantee depends on
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from gapless.ledger.database import LedgerTransaction
from gapless.ledger.rows.texts import json_text
from gapless.ledger.rows.worker import StoredProfile


async def profiles(tx: LedgerTransaction, network: str) -> dict[str, Any]:
    """The profiles of a network's endpoints by name."""
    rows = await tx.fetch_as(StoredProfile, "profiles", network=network)
    return {row.name: msgspec.json.decode(row.profile) for row in rows}


async def keep(tx: LedgerTransaction, network: str, learned: Mapping[str, Any]) -> None:
    """Replaces the profiles of these endpoints, sorted by name so that writers cannot deadlock."""
    items = [StoredProfile(name, json_text(learned[name])) for name in sorted(learned)]
    await tx.fetch("keep_profiles", network=network, items=items)
