"""Adding and removing wallets, and overriding what their movements mean.

Everything that one request adds is written in one transaction: wallets, syncs, address sets, and
for every pass its backfill with all its chunks. Whoever adds or removes wallets first takes one
lock for all of them. Then the caller's planner sees which heights are planned for which sync, and
decides. So two processes that add the same wallet at once plan it once, and a request that runs
again after its reply was lost finds its own plan.

An address may be in several groups, each with its own label and syncs. To move a wallet, add it to
the other group, then remove it from the first: at no time is it in neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from msgspec.structs import asdict

from gapless.core.backfill import Command, State
from gapless.core.errors import NotFound, UsageError
from gapless.core.ranges import RangeSet, Span
from gapless.core.remedies import ListWallets
from gapless.ledger import claims, control, groups, retries, sync_views, views
from gapless.ledger.database import LedgerTransaction
from gapless.ledger.passes import Pass
from gapless.ledger.records import Backfill
from gapless.ledger.rows.wallet import (
    MovementName,
    NewOverride,
    NewWallet,
    PassCounters,
    PlannedSync,
    StoredAddressSet,
    SyncPass,
)
from gapless.ledger.syncs import (
    MOST_SEGMENTS,
    MovementPlace,
    Override,
    PassRequest,
    PlannedHeights,
    Planner,
    Sync,
    SyncKey,
    Wallet,
    WalletKey,
)


async def add(
    tx: LedgerTransaction,
    wallets: Sequence[Wallet],
    planner: Planner,
    new_id: Callable[[], str],
) -> list[Sync]:
    """Adds wallets, or changes their labels, and does what the planner decides.

    Returns the syncs that it planned or renewed. New ids are for the retries of abandoned segments.
    """
    await tx.fetch("lock_wallets")
    added = {each.key: each for each in wallets}
    await tx.fetch("add_wallets", items=[NewWallet.of(added[key]) for key in sorted(added)])
    planned = await sync_views.planned(tx, added)
    plan = planner(MappingProxyType(planned))
    await _renew(tx, plan.renewed, new_id)
    for wanted in plan.passes:
        planned |= _joined(wanted, added, planned)
        await _add_pass(tx, wanted)
    touched = {*plan.renewed, *(key for wanted in plan.passes for key in wanted.syncs)}
    rows = await sync_views.syncs_of(tx, {key.wallet for key in touched})
    return await sync_views.shown_syncs(tx, [row for row in rows if row.key in touched])


async def remove(
    tx: LedgerTransaction, wallets: Iterable[WalletKey], *, with_overrides: bool
) -> list[Backfill]:
    """Removes wallets with their syncs, and cancels the passes that no other sync needs.

    Returns the passes that it cancelled. The hooks of the wallets' groups run once more.
    """
    await tx.fetch("lock_wallets")
    unwanted = sorted(set(wallets))
    passes = await _lock_passes(tx, unwanted)
    for each in unwanted:
        if not await tx.fetch("remove_wallet", **each._asdict()) and not tx.again:
            raise _unknown(each)
        if with_overrides:
            await tx.fetch("remove_overrides_of", **each._asdict())
    needed = {row[0] for row in await tx.fetch("still_needed", ids=sorted(passes))}
    await groups.request_epochs(tx, _groups(passes.values()))
    return [
        await control.command(tx, each, Command.CANCEL)
        for each, found in passes.items()
        if each not in needed and not found.has_ended
    ]


async def set_overrides(tx: LedgerTransaction, overrides: Sequence[Override]) -> None:
    """Says what movements mean to wallets; a later word on the same movement replaces this one."""
    said = {(each.wallet, each.movement): each for each in overrides}
    for each in sorted({wallet for wallet, _ in said}):
        if not await tx.fetch("wallet", **each._asdict()):
            raise _unknown(each)
    await tx.fetch("set_overrides", items=[NewOverride.saying(said[key]) for key in sorted(said)])
    await _reclassify(tx, said)


async def remove_overrides(
    tx: LedgerTransaction, wallet: WalletKey, movements: Iterable[MovementPlace]
) -> int:
    """Takes back what was said about movements of a wallet; returns how many it was."""
    removed = [
        each
        for each in sorted(set(movements))
        if await tx.fetch("remove_override", **asdict(MovementName.of(wallet, each)))
    ]
    await _reclassify(tx, [(wallet, each) for each in removed])
    return len(removed)


async def _add_pass(tx: LedgerTransaction, wanted: PassRequest) -> None:
    """Creates a backfill with its whole plan, and makes it a part of its syncs."""
    stored = StoredAddressSet.of(wanted.addresses)
    await tx.fetch("add_address_set", **asdict(stored))
    await control.create(tx, wanted.backfill)
    await _plan(tx, wanted.backfill.id)
    await tx.fetch("add_syncs", items=PlannedSync.of(wanted))
    await tx.fetch("add_sync_passes", items=SyncPass.of(wanted))


async def _plan(tx: LedgerTransaction, backfill_id: str) -> None:
    await claims.plan(tx, await claims.inspect(tx, backfill_id), MOST_SEGMENTS)


def _joined(
    wanted: PassRequest,
    added: Mapping[WalletKey, Wallet],
    planned: Mapping[SyncKey, PlannedHeights],
) -> dict[SyncKey, PlannedHeights]:
    """What is planned for its syncs with a pass: one range, without anything twice in one way."""
    first, last = wanted.heights
    new = RangeSet.of(wanted.heights)
    found: dict[SyncKey, PlannedHeights] = {}
    for key in wanted.syncs:
        if key.wallet not in added:
            raise UsageError(
                f"`{wanted.backfill.id}` looks for `{key.address}`, which is not added"
            )
        known = planned.get(key, PlannedHeights(wanted.heights, {}))
        before, same = known.heights, known.ways.get(wanted.way, RangeSet())
        if first > before.last + 1 or last < before.first - 1 or same & new:
            raise UsageError(
                f"`{wanted.backfill.id}` covers {first:,} to {last:,}, which does not continue the"
                f" heights {before.first:,} to {before.last:,} of `{key.address}`"
            )
        joined = Span(min(first, before.first), max(last, before.last))
        found[key] = PlannedHeights(joined, {**known.ways, wanted.way: same | new})
    return found


async def _renew(tx: LedgerTransaction, keys: Sequence[SyncKey], new_id: Callable[[], str]) -> None:
    """Makes waiting segments due, and retries what was abandoned or cancelled."""
    for each in sorted(await _passes(tx, keys)):
        if (await control.settle(tx, each)).ended:  # which locks it
            continue
        await control.hasten(tx, each)
        letters = await views.dead(tx, each)
        if dead := [letter.chunk_index for letter in letters if letter.missing]:
            await _plan(tx, (await retries.retry_dead(tx, each, new_id(), dead)).id)
    for each, found in sorted((await _passes(tx, keys)).items()):
        if found.row.has_ended and found.left:
            await _plan(tx, (await retries.retry_failed(tx, each, new_id())).id)


async def _passes(tx: LedgerTransaction, keys: Sequence[SyncKey]) -> dict[str, Pass]:
    """The passes of these syncs that have not succeeded."""
    rows = await sync_views.syncs_of(tx, {key.wallet for key in keys})
    ids = {each for row in rows if row.key in set(keys) for each in row.pass_ids}
    passes = await sync_views.read_passes(tx, ids)
    return {each: passes[each] for each in passes if passes[each].row.state != State.SUCCEEDED}


async def _lock_passes(
    tx: LedgerTransaction, wallets: Iterable[WalletKey]
) -> dict[str, PassCounters]:
    """The passes of all syncs of these wallets, locked so that nobody retries one meanwhile."""
    locked: set[str] = set()
    while True:
        rows = await sync_views.syncs_of(tx, wallets)
        found = {each for row in rows for each in row.pass_ids}
        if found <= locked:
            passes = await tx.fetch_as(PassCounters, "pass_counters", ids=sorted(found))
            return {each.id: each for each in passes}
        for each in sorted(found - locked):
            await control.lock(tx, each)
        locked |= found


async def _reclassify(
    tx: LedgerTransaction, said: Iterable[tuple[WalletKey, MovementPlace]]
) -> None:
    """Lets the hooks run that interpret these movements."""
    chains = {(*wallet, movement[0]) for wallet, movement in said}
    rows = await sync_views.syncs_of(tx, {WalletKey(*chain[:2]) for chain in chains})
    ids = {each for row in rows if row.key[:3] in chains for each in row.pass_ids}
    passes = await tx.fetch_as(PassCounters, "pass_counters", ids=sorted(ids))
    await groups.request_epochs(tx, _groups(passes))


def _groups(passes: Iterable[PassCounters]) -> set[str]:
    return {each.group_name for each in passes if each.group_name is not None}


def _unknown(wallet: WalletKey) -> NotFound:
    return NotFound(
        f"there is no wallet `{wallet.address}` in the group `{wallet.group}`",
        remedy=ListWallets(),
    )
