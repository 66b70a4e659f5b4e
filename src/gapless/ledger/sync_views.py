"""Reading wallets and syncs. Nothing here writes.

A page of syncs takes a few statements, however many passes they have, and none of them counts
chunks that are complete. The state of a sync is not stored, so a filter by state first finds the
syncs of passes that have not succeeded, through indexes, and then looks at each of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from operator import attrgetter

from gapless.core.chunk import Order, Status
from gapless.core.errors import NotFound, Unreadable
from gapless.core.ranges import RangeSet, Span
from gapless.core.selector import Selection
from gapless.ledger import views
from gapless.ledger.database import LedgerTransaction, one_as
from gapless.ledger.passes import Pass, summed
from gapless.ledger.retries import missing_positions
from gapless.ledger.rows.wallet import (
    ListedSync,
    MissingChunk,
    OpenSegments,
    PassCounters,
    PassTrouble,
    StoredAddressSet,
    StoredOverride,
    StoredSelection,
    StoredWallet,
    WalletName,
)
from gapless.ledger.syncs import (
    AddressSet,
    Override,
    PlannedHeights,
    Sync,
    SyncFilter,
    SyncKey,
    SyncProgress,
    SyncState,
    Wallet,
    WalletKey,
)

PAGE = 1000
_START = SyncKey("", "", -1, "")


async def wallets(
    tx: LedgerTransaction, group: str | None, after: WalletKey | None, limit: int
) -> list[Wallet]:
    """Wallets by group and address, of one group or all."""
    start = after or WalletKey(group or "", "")
    page = {"group": group, "after_group": start.group, "after_address": start.address}
    rows = await tx.fetch_as(StoredWallet, "wallet_page", **page, limit=limit)
    return [row.wallet() for row in rows]


async def syncs(
    tx: LedgerTransaction, wanted: SyncFilter, after: SyncKey | None, limit: int
) -> list[Sync]:
    """Up to `limit` syncs in the order of their keys, those after a key."""
    found: list[Sync] = []
    size = limit if wanted.state is None else max(limit, PAGE)
    while len(found) < limit:
        rows = await _page(tx, wanted, after or _START, size)
        shown = await shown_syncs(tx, rows)
        found += [each for each in shown if wanted.state in (None, each.state)]
        if len(rows) < size:
            break
        after = rows[-1].key
    return found[:limit]


async def _page(
    tx: LedgerTransaction, wanted: SyncFilter, after: SyncKey, limit: int
) -> list[ListedSync]:
    if wanted.state not in (None, SyncState.COMPLETE):
        statement = "unfinished_syncs"
    elif wanted.address is not None:
        statement = "syncs_of_address"
    elif wanted.group is not None:
        statement = "syncs_of_group"
    else:
        statement = "syncs" if wanted.network is None else "syncs_of_network"
    return await tx.fetch_as(
        ListedSync,
        statement,
        group=wanted.group,
        address=wanted.address,
        network=wanted.network,
        after_group=after.group,
        after_address=after.address,
        after_chain=after.chain_id,
        after_sink=after.sink_id,
        limit=limit,
    )


async def syncs_of(tx: LedgerTransaction, wanted: Iterable[WalletKey]) -> list[ListedSync]:
    """All syncs of these wallets."""
    names = [WalletName(*key) for key in set(wanted)]
    rows = await tx.fetch_as(ListedSync, "syncs_of_wallets", items=names)
    return sorted(rows, key=attrgetter("key"))


async def planned(
    tx: LedgerTransaction, wanted: Iterable[WalletKey]
) -> dict[SyncKey, PlannedHeights]:
    """What is planned for all syncs of these wallets."""
    rows = await syncs_of(tx, wanted)
    ids = sorted({each for row in rows for each in row.pass_ids})
    passes = {row.id: row for row in await tx.fetch_as(PassCounters, "pass_counters", ids=ids)}
    heights = await heights_of(tx, [*passes.values()])
    found: dict[SyncKey, PlannedHeights] = {}
    for row in rows:
        ways: dict[str, RangeSet] = {}
        for each in (passes[it] for it in row.pass_ids if it in passes):
            its = heights.get(each.selection, RangeSet.of(row.heights))  # if it is damaged
            ways[each.way] = ways.get(each.way, RangeSet()) | its
        found[row.key] = PlannedHeights(row.heights, ways)
    return found


async def shown_syncs(tx: LedgerTransaction, rows: Sequence[ListedSync]) -> list[Sync]:
    """These syncs with their states and progress, which those with the same passes share."""
    ids = {row.passes: row.pass_ids for row in rows}
    passes = await read_passes(tx, {each for its in ids.values() for each in its})
    of_passes = {
        text: sorted((passes[each] for each in its if each in passes), key=Pass.age)
        for text, its in ids.items()
    }
    shared: dict[tuple[str, Span], SyncProgress] = {}
    found: list[Sync] = []
    for row in rows:
        its, heights = of_passes[row.passes], row.heights
        progress = shared.get((row.passes, heights))
        if progress is None:
            progress = shared[row.passes, heights] = summed(its, heights)
        found.append(row.sync(tuple(each.row.id for each in its), progress))
    return found


async def read_passes(tx: LedgerTransaction, ids: Iterable[str]) -> dict[str, Pass]:
    """These passes, by id; all children of each of them must be among them."""
    rows = await tx.fetch_as(PassCounters, "pass_counters", ids=sorted(set(ids)))
    unfinished = [row for row in rows if row.complete < row.chunk_total]
    segments = await _segments(tx, unfinished)
    troubles = await _troubles(tx, unfinished)
    over = [row for row in unfinished if _is_over(row, segments[row.id])]
    children: dict[str, list[PassCounters]] = defaultdict(list)
    for row in rows:
        if row.parent_backfill_id is not None:
            children[row.parent_backfill_id].append(row)
    retries = [child for row in over for child in children[row.id]]
    heights = await heights_of(tx, [*unfinished, *retries])
    undone = await _undone(tx, over)
    found: dict[str, Pass] = {}
    for row in rows:
        left = _left(undone.get(row.id), heights.get(row.selection))
        for child in children[row.id] if left else ():
            left -= heights.get(child.selection) or RangeSet()
        found[row.id] = Pass(
            row=row,
            segments=segments[row.id],
            trouble=troubles.get(row.id),
            heights=heights.get(row.selection),
            undone=len(undone[row.id]) if row.id in undone else None,
            left=left,
            has_children=row.id in children,
        )
    return found


async def _segments(
    tx: LedgerTransaction, rows: Sequence[PassCounters]
) -> dict[str, dict[str, OpenSegments]]:
    found: dict[str, dict[str, OpenSegments]] = defaultdict(dict)
    if rows:
        ids = [row.id for row in rows]
        for each in await tx.fetch_as(OpenSegments, "open_segments", ids=ids):
            found[each.backfill_id][each.status] = each
    return found


async def _troubles(tx: LedgerTransaction, rows: Sequence[PassCounters]) -> dict[str, PassTrouble]:
    ids = [row.id for row in rows if row.failed_runs]
    found = await tx.fetch_as(PassTrouble, "pass_troubles", ids=ids) if ids else []
    return {each.backfill_id: each for each in found}


def _is_over(row: PassCounters, segments: dict[str, OpenSegments]) -> bool:
    """Whether nothing of a pass will run any more, even if it has not been settled yet."""
    stops = row.has_ended or row.stopping is not None
    return Status.RUNNING not in segments and (stops or not row.unended)


async def _undone(tx: LedgerTransaction, over: Sequence[PassCounters]) -> dict[str, RangeSet]:
    """The positions that these passes have not done."""
    chunks: dict[str, list[MissingChunk]] = defaultdict(list)
    if over:
        ids = [row.id for row in over]
        for chunk in await tx.fetch_as(MissingChunk, "missing_chunks", ids=ids):
            chunks[chunk.backfill_id].append(chunk)
    return {
        row.id: missing_positions(
            chunks[row.id], Order(row.run_order), row.partitions, row.chunk_size, row.planned
        )
        for row in over
    }


def _left(undone: RangeSet | None, heights: RangeSet | None) -> RangeSet:
    """The heights at these positions; the positions themselves if nobody can read the heights."""
    if not undone or heights is None:
        return undone or RangeSet()
    return RangeSet(span for part in undone.spans for span in heights.slice(*part).spans)


async def heights_of(tx: LedgerTransaction, rows: Sequence[PassCounters]) -> dict[str, RangeSet]:
    """What these passes cover, by the hash of the selection; without those that are damaged."""
    hashes = sorted({row.selection for row in rows})
    stored = await tx.fetch_as(StoredSelection, "selections", hashes=hashes) if hashes else []
    found: dict[str, RangeSet] = {}
    for each in stored:
        if (selection := _readable(each)) is not None:
            found[each.hash] = selection.ordinals
    return found


def _readable(stored: StoredSelection) -> Selection | None:
    try:
        return views.decoded(stored.hash, stored.data)
    except Unreadable:
        return None


async def address_set(tx: LedgerTransaction, set_id: str) -> AddressSet:
    row = await one_as(tx, StoredAddressSet, "address_sets", id=set_id)
    if row is None:
        raise NotFound(f"there is no address set `{set_id:.16}`")
    return row.address_set()


async def overrides(
    tx: LedgerTransaction, group: str, address: str | None, chain_id: int | None
) -> list[Override]:
    """The overrides of a group, of one wallet and chain or all, by wallet and movement."""
    wanted = {"group": group, "address": address, "chain": chain_id}
    return [row.override() for row in await tx.fetch_as(StoredOverride, "overrides", **wanted)]
