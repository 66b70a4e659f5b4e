"""Finds blocks in which coins moved without an event, from what accounts had and signed.

An account without code spends only by transactions that it signs, and each of them raises its nonce
by one. So over a range of blocks, if its nonce grew by as many transactions as are known, all that
took coins from it is known. What else moved can only have added coins; and if its balance changed
by exactly what is known, nothing was added either. Such a range is done. Any other one is halved,
until one block is left: a leaf. Its block is fetched and read, and what then remains of the
difference moved within transactions, or was a reward: it becomes one `internal` movement.

    nonce    4              4              5              7
    balance  10             10             6              6
             |--------------|--------------|--------------|
                 done           halved          halved, though the balance is the same

That holds only where the network is known to have no other way to spend, see `signed_since`, and
for an account that had no code: none at the start of the range, and no delegation since, which
would have raised the nonce too. An account that has signed nothing yet could be a contract that
destroyed itself. So it must sign later, and the range in which its nonce leaves zero must show that
signature. `docs/adr/0039` has the whole argument.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import pyarrow as pa

from gapless.chains.movements import (
    NOBODY,
    AccountAt,
    Movement,
    MovementKind,
    Snapshot,
    WalletNode,
    WalletRules,
)
from gapless.chains.wallet_rows import Place, block_places
from gapless.core.ranges import Span

_REMEMBERED = 50_000  # accounts at the ends of segments


class CoinChanges:
    """What is known to have changed the coins and the nonces of accounts, by block."""

    def __init__(self) -> None:
        self._changes: defaultdict[bytes, defaultdict[int, list[int]]] = defaultdict(
            lambda: defaultdict(lambda: [0, 0])
        )
        self._sums: dict[bytes, tuple[list[int], list[int], list[int]]] = {}

    def add(self, movements: Iterable[Movement], signed: Iterable[tuple[int, bytes]]) -> None:
        """Learn movements, and the height and the sender of each transaction."""
        for it in movements:
            if it.token == NOBODY:
                self._changes[it.sender][it.block_number][0] -= it.amount
                self._changes[it.receiver][it.block_number][0] += it.amount
        for height, sender in signed:
            self._changes[sender][height][1] += 1
        self._sums.clear()

    def between(self, address: bytes, after: int, last: int) -> Snapshot:
        """Return how balance and nonce of an account changed after a block, up to another."""
        heights, balances, nonces = self._summed(address)
        start, end = bisect_right(heights, after), bisect_right(heights, last)
        return Snapshot(balances[end] - balances[start], nonces[end] - nonces[start])

    def _summed(self, address: bytes) -> tuple[list[int], list[int], list[int]]:
        if address not in self._sums:
            its: Mapping[int, list[int]] = self._changes.get(address, {})
            heights = sorted(its)
            balances, nonces = (
                [*accumulate((its[it][at] for it in heights), initial=0)] for at in (0, 1)
            )
            self._sums[address] = heights, balances, nonces
        return self._sums[address]


class FoundCoins:
    """What blocks say about addresses, and what follows for their coins."""

    def __init__(self) -> None:
        self.movements: list[Movement] = []
        self.places: dict[int, Place] = {}
        self.changes = CoinChanges()

    def add(
        self, rules: WalletRules, rows: Mapping[str, pa.Table], movements: Sequence[Movement]
    ) -> None:
        """Learn the rows of some blocks, with the movements of the addresses in them."""
        blocks, transactions = rows[rules.tables[0]], rows[rules.transactions]
        self.movements += movements
        self.places |= block_places(blocks, blocks["block_number"].to_pylist())
        columns = (transactions[name].to_pylist() for name in ("block_number", rules.signer))
        self.changes.add(movements, zip(*columns, strict=True))


class Leaf(NamedTuple):
    """A block that changed an account in a way that is not known."""

    height: int
    before: Snapshot
    after: Snapshot


@dataclass(frozen=True)
class Bisected:
    """Accounts over a span of blocks, and the leaves in it."""

    span: Span
    ends: Mapping[bytes, tuple[Snapshot, Snapshot]]  # of the accounts that could be bisected
    leaves: Mapping[bytes, Sequence[Leaf]]
    is_agreed: bool

    @property
    def heights(self) -> set[int]:
        return {leaf.height for leaves in self.leaves.values() for leaf in leaves}

    def remainders(
        self, changes: CoinChanges, places: Mapping[int, Place]
    ) -> tuple[list[Movement], frozenset[bytes]]:
        """Return what the blocks of all leaves do not show, and of which accounts that is proven.

        Nothing is returned of an account that spent in a way that it has not signed.
        """
        found: list[Movement] = []
        proven: set[bytes] = set()
        for address, (before, after) in self.ends.items():
            signed = changes.between(address, self.span.first - 1, self.span.last).nonce
            rests = [(leaf.height, _rest(leaf, changes, address)) for leaf in self.leaves[address]]
            is_explained = after.nonce - before.nonce == signed
            if is_explained and all(rest >= 0 for _, rest in rests):
                proven.add(address)
                found += (remainder(places[at], address, rest) for at, rest in rests if rest)
        return found, frozenset(proven)


def _rest(leaf: Leaf, changes: CoinChanges, address: bytes) -> int:
    shown = changes.between(address, leaf.height - 1, leaf.height)
    return leaf.after.balance - leaf.before.balance - shown.balance


def remainder(place: Place, address: bytes, amount: int) -> Movement:
    """Create the movement of what a block added to an account without showing how.

    It has no transaction. Its position follows from the address, so that several accounts may have
    one in the same block.
    """
    position = int.from_bytes(address[-8:], "big") >> 1
    return place.movement(MovementKind.INTERNAL, NOBODY, address, amount, position=position)


class SpanEnds(NamedTuple):
    """Accounts before and after a span of blocks."""

    span: Span
    accounts: Mapping[bytes, tuple[Snapshot, Snapshot]]
    is_agreed: bool  # whether two endpoints said the same


class CoinSearch:
    """Bisects accounts. What nodes say about the ends of segments is remembered."""

    def __init__(self, node: WalletNode) -> None:
        self._node = node
        self._known: dict[AccountAt, tuple[Snapshot, bool]] = {}  # with whether it is agreed
        self._asking = asyncio.Lock()  # so that segments that share an end ask once

    async def ends(self, span: Span, addresses: Iterable[bytes], until: int) -> SpanEnds | None:
        """Return the accounts that can be bisected in a span, at both of its ends.

        None if no endpoint remembers them. `until` is a later block, up to which an account must
        have signed something.
        """
        since = self._node.signed_since
        if since is None or span.first < since:
            return None
        wanted, before = sorted(addresses), span.first - 1
        known = await self._remembered(
            [AccountAt(it, at) for it in wanted for at in (before, span.last, until)]
        )
        coded = await self._node.with_code([AccountAt(it, before) for it in wanted])
        if known is None or coded is None:
            return None
        found = {
            it: (known[AccountAt(it, before)][0], known[AccountAt(it, span.last)][0])
            for it in wanted
            if AccountAt(it, before) not in coded.accounts and known[AccountAt(it, until)][0].nonce
        }
        is_agreed = coded.is_agreed and all(each for _, each in known.values())
        return SpanEnds(span, found, is_agreed)

    async def bisect(self, ends: SpanEnds, changes: CoinChanges) -> Bisected | None:
        """Halve the span until only leaves are left; None if no endpoint remembers so much."""
        span, accounts, is_agreed = ends
        leaves: dict[bytes, list[Leaf]] = {address: [] for address in accounts}
        left = [(it, span.first - 1, span.last, *accounts[it]) for it in accounts]
        while left:
            halved: list[tuple[bytes, int, int, Snapshot, Snapshot]] = []
            for address, low, high, before, after in left:
                if _difference(before, after) == changes.between(address, low, high):
                    continue
                if high - low == 1:
                    leaves[address].append(Leaf(high, before, after))
                else:
                    halved.append((address, low, high, before, after))
            middles = [AccountAt(it[0], (it[1] + it[2]) // 2) for it in halved]
            found = await self._node.snapshots(middles) if middles else None
            if middles and found is None:
                return None
            left = []
            if found is not None:
                is_agreed &= found.is_agreed
                for it, middle, at in zip(halved, middles, found.values, strict=True):
                    address, low, high, before, after = it
                    left.append((address, low, middle.height, before, at))
                    left.append((address, middle.height, high, at, after))
        return Bisected(span, accounts, leaves, is_agreed)

    async def _remembered(
        self, wanted: Iterable[AccountAt]
    ) -> dict[AccountAt, tuple[Snapshot, bool]] | None:
        needed = [*dict.fromkeys(wanted)]
        async with self._asking:
            if new := [it for it in needed if it not in self._known]:
                found = await self._node.snapshots(new)
                if found is None:
                    return None
                for it, value in zip(new, found.values, strict=True):
                    self._known[it] = value, found.is_agreed
            known = {it: self._known[it] for it in needed}
            while len(self._known) > _REMEMBERED:
                del self._known[next(iter(self._known))]
        return known


def _difference(before: Snapshot, after: Snapshot) -> Snapshot:
    return Snapshot(after.balance - before.balance, after.nonce - before.nonce)
