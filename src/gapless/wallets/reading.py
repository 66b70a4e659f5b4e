"""Reading the syncs of a ledger, all of a group at once."""

from __future__ import annotations

from collections.abc import Iterable

from gapless.ledger import Ledger
from gapless.ledger.syncs import Sync, SyncFilter, SyncKey

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
