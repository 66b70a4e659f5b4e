"""Reading the wallets and syncs of a ledger, all of a group at once."""

from __future__ import annotations

from collections.abc import Iterable

from gapless.chains import find_network
from gapless.core.errors import UsageError
from gapless.core.similar import known_names
from gapless.ledger import Ledger
from gapless.ledger.syncs import Sync, SyncFilter, SyncKey, SyncState, Wallet

_PAGE = 1000


async def syncs_of(ledger: Ledger, keys: Iterable[SyncKey]) -> list[Sync]:
    """Returns some syncs as they are now, in the order of their keys."""
    wanted = {*keys}
    groups = sorted({key.group for key in wanted})
    return [it for group in groups for it in await group_syncs(ledger, group) if it.key in wanted]


async def group_syncs(ledger: Ledger, group: str) -> list[Sync]:
    """Returns all syncs of a group, in the order of their keys."""
    return await all_syncs(ledger, SyncFilter(group=group))


async def all_syncs(ledger: Ledger, wanted: SyncFilter) -> list[Sync]:
    """Returns all syncs that a filter matches, in the order of their keys."""
    found = list[Sync]()
    page = await ledger.syncs(wanted, limit=_PAGE)
    while page:
        found += page
        page = await ledger.syncs(wanted, after=page[-1].key, limit=_PAGE)
    return found


def sync_filter(group: str | None, network: str | None, state: str | None) -> SyncFilter:
    """Which syncs are meant by a group, the name of a network and that of a state."""
    if state is not None and state.upper() not in SyncState.__members__:
        names = [each.value.lower() for each in SyncState]
        raise UsageError(f"`{state}` is not a state", hint=known_names(state, names))
    return SyncFilter(
        group=group,
        network=None if network is None else find_network(network).name,
        state=None if state is None else SyncState(state.upper()),
    )


async def all_wallets(ledger: Ledger, group: str | None) -> list[Wallet]:
    """Returns all wallets of a group, or of all groups, in the order of their keys."""
    found = list[Wallet]()
    page = await ledger.wallets(group, limit=_PAGE)
    while page:
        found += page
        page = await ledger.wallets(group, after=page[-1].key, limit=_PAGE)
    return found
