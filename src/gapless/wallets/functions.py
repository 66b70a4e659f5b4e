"""The package's functions to add wallets and to keep them in sync.

syncs = await gapless.add_wallets("0xAb58…", "ethereum", rpc="https://…", to="eth.db")
syncs = await gapless.sync_wallets(rpc="https://…")
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Unpack

from gapless.ledger.syncs import Sync
from gapless.providers import Providers
from gapless.wallets.request import DEFAULT_GROUP, WalletOptions


async def add_wallets(
    addresses: str | Sequence[str],
    networks: str | Sequence[str],
    *,
    rpc: str | Sequence[str] = (),
    to: str | Path | None = None,
    ledger: str | None = None,
    detach: bool = False,
    providers: Providers | None = None,
    **options: Unpack[WalletOptions],
) -> list[Sync]:
    """Adds wallets and waits until their history is stored, classified and summed.

    Returns the syncs of all wallets and networks. Adding wallets again continues where they are.
    With `detach`, workers do the work, and the syncs are returned as they were planned.
    """
    raise NotImplementedError


async def sync_wallets(
    addresses: str | Sequence[str] = (),
    *,
    group: str = DEFAULT_GROUP,
    networks: str | Sequence[str] = (),
    rpc: str | Sequence[str] = (),
    ledger: str | None = None,
    detach: bool = False,
    providers: Providers | None = None,
) -> list[Sync]:
    """Continues wallets of a group up to the latest final block; by default, all of them.

    Endpoints that were given as URLs when the wallets were added must be given again.
    """
    raise NotImplementedError


async def remove_wallets(
    addresses: str | Sequence[str],
    *,
    group: str = DEFAULT_GROUP,
    ledger: str | None = None,
    purge: bool = False,
) -> None:
    """Removes wallets from a group; with `purge`, deletes what is stored of them only."""
    raise NotImplementedError
