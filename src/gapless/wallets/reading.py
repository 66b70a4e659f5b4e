"""Reading the wallets and syncs of a ledger, all of a group at once."""

from __future__ import annotations

from collections.abc import Iterable

from gapless.ledger import Ledger
from gapless.ledger.syncs import Sync, SyncFilter, SyncKey, Wallet

_PAGE = 1000


async def syncs_of(ledger: Ledger, keys: Iterable[SyncKey]) -> list[Sync]:
    """Returns some syncs as they are now, in the order of their keys."""
    wanted = {*keys}
    groups = sorted({key.group for key in wanted})
    return [it for group in groups for it in await group_syncs(ledger, group) if it.key in wanted]


async def group_syncs(ledger: Ledger, group: str) -> list[Sync]:
    """Returns all syncs of a group, in the order of their keys."""
    wanted, found = SyncFilter(group=group), list[Sync]()
    page = await ledger.syncs(wanted, limit=_PAGE)
    while page:
        found += page
        page = await ledger.syncs(wanted, after=page[-1].key, limit=_PAGE)
    return found


async def all_wallets(ledger: Ledger, group: str | None) -> list[Wallet]:
    """Returns all wallets of a group, or of all groups, in the order of their keys."""
    found = list[Wallet]()
    page = await ledger.wallets(group, limit=_PAGE)
    while page:
        found += page
        page = await ledger.wallets(group, after=page[-1].key, limit=_PAGE)
    return found
