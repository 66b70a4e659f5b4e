"""Changing what is known to have moved: scans, watched blocks and retractions.

Movements are facts that all address sets and groups share. So a scan replaces what its set had in
the range, except for movements that another scan has to show too, or a watched member. Facts of two
branches never mix: a movement whose block hash differs from that of a stored block is refused, and
otherwise one with a new hash replaces what is known of that block, in the scans of all sets.

A scan refutes only what it could have found. What traces show goes only if traces no longer show
it, and what remained of the difference between two balances only if the account was bisected again.
A remainder and the traced movements of a block tell about the same coins, so each traced movement
is subtracted from the remainders of its parties, in whatever order the two were found.

A movement that goes takes its entries with it, and these are taken back from the balances.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from gapless.chains.movements import NOBODY, NOWHERE, Movement, MovementKey, MovementKind
from gapless.core.errors import BrokenSeam
from gapless.core.heights import HIGHEST
from gapless.core.ranges import RangeSet, Span
from gapless.sinks import CompanionTransaction
from gapless.wallets.records import Scan
from gapless.wallets.store import coverage, entries, movements, scans
from gapless.wallets.ways import Evidence

_AT_ONCE = 10_000  # movements that are retracted together

ByKey = Mapping[MovementKey, Movement]


async def write(
    tx: CompanionTransaction, scan: Scan, addresses: frozenset[bytes], found: Sequence[Movement]
) -> list[Movement]:
    """Store a scan and what it found; see `WalletStore.write`.

    Return the remainders that changed, as they were: others may have entries of them.
    """
    hashes = _admit(scan, addresses, found)
    chain_id, span = scan.chain_id, scan.span
    around = Span(max(span.first - 1, 0), min(span.last + 1, HIGHEST))
    await _know_addresses(tx, scan, addresses)
    known = await scans.of_set(tx, chain_id, scan.address_set, around)
    coverage.refuse_older(known, await scans.retracted(tx, chain_id, span), span, scan.fence)
    await _refuse_other_branch(tx, scan, hashes)
    await forget_other_branches(tx, chain_id, hashes)
    stored = await _stored(tx, chain_id, addresses, span, hashes)
    gone = [
        it
        for it in _missing(stored, found, addresses)
        if not (is_traced(it) and scan.source != Evidence.TRACES)
        and not (is_remainder(it) and scan.source != Evidence.ACCOUNTS)
    ]
    gone = await scans.unclaimed(tx, chain_id, gone, by_sets_except=scan.address_set)
    gone, found = _reduced(stored, gone, found)
    await _replace(tx, stored, gone, found)
    known = await scans.of_set(tx, chain_id, scan.address_set, around)
    left = coverage.cut(known, RangeSet.of(span))
    await scans.save(tx, known, coverage.folded([*left, scan]))
    new = {it.key: it for it in found}
    lost = {it.key for it in gone}
    return [
        it
        for key, it in stored.items()
        if is_remainder(it) and (key in lost or new.get(key, it) != it)
    ]


async def watch(
    tx: CompanionTransaction,
    chain_id: int,
    span: Span,
    addresses: frozenset[bytes],
    found: Sequence[Movement],
) -> None:
    """Store what watched addresses sent or received in blocks that the sink holds.

    What was known of these blocks on other branches is gone already. Retractions of theirs are no
    longer needed, because stored blocks refuse other branches.
    """
    stored = await _stored(tx, chain_id, addresses, span, {it.block_number for it in found})
    gone = [
        it
        for it in _missing(stored, found, addresses)
        if not is_traced(it) and not is_remainder(it)
    ]
    gone = await scans.unclaimed(tx, chain_id, gone, by_members=False)
    await _replace(tx, stored, gone, found)
    known = await scans.retracted(tx, chain_id, span)
    await scans.save_retracted(tx, chain_id, known, coverage.without(known, RangeSet.of(span)))


async def retract(tx: CompanionTransaction, chain_id: int, span: Span, fence: int) -> None:
    """Remove a range, unless a higher fence has changed it; see `WalletStore.retract`."""
    known = await scans.overlapping(tx, chain_id, span)
    coverage.refuse_older(known, await scans.retracted(tx, chain_id, span), span, fence)
    await drop(tx, chain_id, span, fence)


async def drop(tx: CompanionTransaction, chain_id: int, span: Span, fence: int) -> None:
    """Remove a range whose blocks the sink has removed, under the sink's own fence."""
    while gone := await movements.of_span(tx, chain_id, span, _AT_ONCE):
        await forget(tx, gone)
    await _cut_scans(tx, chain_id, RangeSet.of(span))
    known = await scans.retracted(tx, chain_id, span)
    after = coverage.retracted_too(known, span, fence)
    await scans.save_retracted(tx, chain_id, known, after)


async def forget(tx: CompanionTransaction, gone: Sequence[Movement]) -> None:
    """Delete movements with their entries."""
    if gone:
        await entries.delete_of(tx, gone)
        await movements.delete(tx, gone)


async def _stored(
    tx: CompanionTransaction,
    chain_id: int,
    addresses: frozenset[bytes],
    span: Span,
    heights: Iterable[int],
) -> ByKey:
    """Return what is known of some addresses in a span, and of all in some blocks."""
    ours = await movements.of_addresses(tx, chain_id, addresses, span)
    there = await movements.of_blocks(tx, chain_id, [*heights])
    return {it.key: it for it in (*ours, *there)}


def _missing(
    stored: ByKey, found: Iterable[Movement], addresses: frozenset[bytes]
) -> list[Movement]:
    """Return the movements of some addresses that were not found again."""
    keys = {it.key for it in found}
    return [
        it
        for key, it in stored.items()
        if key not in keys and not addresses.isdisjoint((it.sender, it.receiver))
    ]


def is_remainder(it: Movement) -> bool:
    """Whether it is what a block added to an account without showing how."""
    return it.kind is MovementKind.INTERNAL and it.transaction_index == NOWHERE


def is_traced(it: Movement) -> bool:
    """Whether only a trace shows it."""
    return it.kind is MovementKind.INTERNAL and it.batch_position != NOWHERE


def _reduced(
    stored: ByKey, gone: Sequence[Movement], found: Sequence[Movement]
) -> tuple[list[Movement], list[Movement]]:
    """Subtract traced movements from remainders; return what goes and what is found then."""
    removed, new = {it.key for it in gone}, {it.key: it for it in found}
    after = {key: it for key, it in stored.items() if key not in removed} | new
    before, since = _traced_sums(stored.values()), _traced_sums(after.values())
    for key, it in after.items():
        if not is_remainder(it):
            continue
        account = it.sender or it.receiver
        at = account, it.block_number
        rest = (it.amount if it.receiver else -it.amount) - since[at]
        if key not in new:
            rest += before[at]
        new.pop(key, None)
        if rest:
            parties = (NOBODY, account) if rest > 0 else (account, NOBODY)
            sender, receiver = parties
            new[key] = replace(it, sender=sender, receiver=receiver, amount=abs(rest))
        elif key in stored:
            removed.add(key)
    return [stored[key] for key in removed], [*new.values()]


def _traced_sums(movements: Iterable[Movement]) -> Mapping[tuple[bytes, int], int]:
    """What traced movements added to accounts, by account and block."""
    found: defaultdict[tuple[bytes, int], int] = defaultdict(int)
    for it in movements:
        if is_traced(it):
            found[it.sender, it.block_number] -= it.amount
            found[it.receiver, it.block_number] += it.amount
    return found


async def _replace(
    tx: CompanionTransaction, stored: ByKey, gone: Sequence[Movement], found: Sequence[Movement]
) -> None:
    """Make what was found the truth. What was known before, and is the same, is not touched."""
    new = [it for it in found if stored.get(it.key) != it]
    changed = [stored[it.key] for it in new if it.key in stored]
    await forget(tx, [*gone, *changed])
    await movements.add(tx, new)


async def _know_addresses(
    tx: CompanionTransaction, scan: Scan, addresses: frozenset[bytes]
) -> None:
    """Record the addresses of a set. If some were purged, its earlier scans no longer count."""
    known = await scans.addresses(tx, scan.chain_id, scan.address_set)
    if not known <= addresses:
        raise ValueError(f"the address set `{scan.address_set}` has other addresses")
    if known != addresses:
        await scans.forget(tx, scan.chain_id, scan.address_set)
        await scans.add_addresses(tx, scan.chain_id, scan.address_set, addresses - known)


async def _refuse_other_branch(
    tx: CompanionTransaction, scan: Scan, hashes: Mapping[int, bytes]
) -> None:
    """Raise `BrokenSeam` if a stored block has another hash."""
    expected = {scan.span.first - 1: scan.parent_hash, scan.span.last: scan.last_hash, **hashes}
    keys = sorted((height,) for height, it in expected.items() if it and height >= 0)
    for anchor in tx.schema.tables:
        if not tx.schema.is_anchor(anchor.name):
            continue
        columns = ("block_number", anchor.links.hash)
        rows = await tx.read_rows(anchor, scan.chain_id, keys, columns)
        for height, stored in zip(*(rows[name].to_pylist() for name in columns), strict=True):
            if stored != expected[height]:
                raise BrokenSeam(
                    f"the stored block {height:,} of chain {scan.chain_id} is on a different branch"
                    f" than the movements of blocks {scan.span}",
                    height=height,
                )


async def forget_other_branches(
    tx: CompanionTransaction, chain_id: int, hashes: Mapping[int, bytes]
) -> None:
    """Remove what is known of blocks that have other hashes than these, by height."""
    known = await movements.of_blocks(tx, chain_id, hashes)
    stale = [it for it in known if it.block_hash != hashes[it.block_number]]
    await forget(tx, stale)
    await _cut_scans(tx, chain_id, RangeSet.from_members({it.block_number for it in stale}))


async def _cut_scans(tx: CompanionTransaction, chain_id: int, heights: RangeSet) -> None:
    """Forget that some heights were scanned for any set.

    Passes are not repeated. So from the first of these heights on, blocks are watched for the
    members that they were scanned for, and what the sink stores there next is not missed.
    """
    for span in heights.spans:
        known = await scans.overlapping(tx, chain_id, span)
        await scans.watch_again(tx, known, span)
        await scans.save(tx, known, coverage.cut(known, RangeSet.of(span)))


def _admit(scan: Scan, addresses: frozenset[bytes], found: Sequence[Movement]) -> dict[int, bytes]:
    """Raise `ValueError` unless this is what a scan can find. Return the hashes of the blocks."""
    first, last = scan.span
    if not 0 <= first <= last <= HIGHEST:
        raise ValueError(f"`{scan.span}` is not a range of blocks")
    if not addresses or NOBODY in addresses or not scan.address_set:
        raise ValueError("a scan needs a named set of addresses")
    hashes = {last: scan.last_hash} if scan.last_hash else {}
    for it in found:
        if it.chain_id != scan.chain_id or not first <= it.block_number <= last:
            raise ValueError(f"{it.key} is outside of the scan of {scan.span}")
        if addresses.isdisjoint((it.sender, it.receiver)):
            raise ValueError(f"{it.key} is not a movement of the set `{scan.address_set}`")
        if hashes.setdefault(it.block_number, it.block_hash) != it.block_hash:
            raise ValueError(f"{it.key} is on a different branch than others of the scan")
    if len({it.key for it in found}) != len(found):
        raise ValueError(f"a movement occurs twice in the scan of {scan.span}")
    return hashes
