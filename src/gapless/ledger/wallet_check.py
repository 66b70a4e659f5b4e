"""Checking what a ledger says about wallets: that its rows belong together.

Every sync has its wallet, and its passes cover its range of heights, in each way at most once.
Every pass is a backfill that looks for the sync's address, on its chain. What retries a pass is a
pass of the same syncs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from gapless.core.errors import Unreadable
from gapless.core.ranges import RangeSet
from gapless.ledger import sync_views, views
from gapless.ledger.database import LedgerTransaction
from gapless.ledger.rows.wallet import ListedSync, PassCounters, StoredAddressSet, SyncPass
from gapless.ledger.syncs import AddressSet, SyncKey

Problems = Iterator[tuple[SyncKey, str]]


async def check(tx: LedgerTransaction) -> list[str]:
    """The places where the rows of wallets do not fit together."""
    syncs = {row.key: row for row in await tx.fetch_as(ListedSync, "all_syncs")}
    passes = await tx.fetch_as(SyncPass, "all_sync_passes")
    wallets = {each.key for each in await sync_views.wallets(tx, None, None, views.EVERYTHING)}
    ids = sorted({each.backfill_id for each in passes})
    backfills = {row.id: row for row in await tx.fetch_as(PassCounters, "pass_counters", ids=ids)}
    heights = await sync_views.heights_of(tx, [*backfills.values()])
    stored = await tx.fetch_as(StoredAddressSet, "address_sets", id=None)
    sets = {each.id: _readable(each) for each in stored}
    of_sync: dict[SyncKey, list[SyncPass]] = defaultdict(list)
    for each in passes:
        of_sync[each.key].append(each)
    found = [(key, "its wallet is missing") for key in syncs if key.wallet not in wallets]
    found += [(key, "there is no such sync") for key in of_sync if key not in syncs]
    for key, its in of_sync.items():
        found += _misdirected(key, its, backfills, sets)
    for key, row in syncs.items():
        its_own = [
            backfills[each.backfill_id] for each in of_sync[key] if each.backfill_id in backfills
        ]
        found += _misplanned(row, its_own, heights)
    missing = await tx.fetch_as(SyncPass, "missing_sync_passes")
    found += [(each.key, f"the retry `{each.backfill_id}` is not a pass of it") for each in missing]
    return [f"{key.address} on chain {key.chain_id}: {problem}" for key, problem in sorted(found)]


def _misdirected(
    key: SyncKey,
    passes: Iterable[SyncPass],
    backfills: Mapping[str, PassCounters],
    sets: Mapping[str, AddressSet | None],
) -> Problems:
    """Passes that do not exist, or do not look for the address."""
    for each in passes:
        if each.backfill_id not in backfills:
            yield key, f"its pass `{each.backfill_id}` is missing"
        wanted = sets.get(each.address_set)
        if wanted is None:
            yield key, f"the address set of `{each.backfill_id}` is missing or damaged"
        elif wanted.chain_id != key.chain_id or key.address not in wanted.addresses:
            yield key, f"the pass `{each.backfill_id}` does not look for it"


def _misplanned(
    sync: ListedSync, passes: Sequence[PassCounters], heights: Mapping[str, RangeSet]
) -> Problems:
    """Heights that the passes of a sync cover twice, or do not cover."""
    ids = {each.id for each in passes}
    first = [each for each in passes if each.parent_backfill_id not in ids]
    if any(each.selection not in heights for each in first):
        return  # the check of that backfill tells
    covered = RangeSet(span for each in first for span in heights[each.selection].spans)
    if covered != RangeSet.of(sync.heights):
        yield sync.key, f"{covered} is planned, not {sync.heights}"
        return
    for way in sorted({each.way for each in first}):
        planned = [heights[each.selection] for each in first if each.way == way]
        if sum(map(len, planned)) != len(RangeSet(span for each in planned for span in each.spans)):
            yield sync.key, "heights are planned twice"


def _readable(stored: StoredAddressSet) -> AddressSet | None:
    try:
        return stored.address_set()
    except Unreadable:
        return None
