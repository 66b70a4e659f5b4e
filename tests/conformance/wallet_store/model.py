"""The model of the wallet store: dictionaries of heights and keys.

It knows nothing of ranges, folding, claims in SQL or differences of balances.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import NamedTuple

from gapless.chains.movements import Movement, MovementKey
from gapless.core.errors import FencedOff
from gapless.core.ranges import RangeSet, Span
from gapless.wallets.categories import WalletEntry
from tests.conformance.sink import model as sink_model
from tests.conformance.sink.model import Refusal, hash_at, on
from tests.conformance.wallet_store.stage import NEEDED, entries_of, moved


class Scanned(NamedTuple):
    fence: int
    proven: frozenset[str]
    branch: int = 0


class Placed(NamedTuple):
    """Where an entry belongs: to a wallet of a group, and a movement."""

    group: str
    wallet: bytes
    movement: MovementKey


def heights(span: Span) -> range:
    return range(span.first, span.last + 1)


class Model:
    def __init__(self) -> None:
        self.sink = sink_model.Model()
        self.facts: dict[MovementKey, Movement] = {}
        self.sets: dict[str, frozenset[bytes]] = {}
        self.scanned: defaultdict[str, dict[int, Scanned]] = defaultdict(dict)
        self.retracted: dict[int, int] = {}
        self.members: dict[tuple[str, bytes], int] = {}
        self.epochs: defaultdict[tuple[str, bytes], int] = defaultdict(int)
        self.entries: dict[Placed, WalletEntry] = {}

    def refusal_of_scan(
        self, set_: str, addresses: frozenset[bytes], span: Span, fence: int
    ) -> Refusal | None:
        known = self.scanned[set_] if self.sets.get(set_) == addresses else {}
        newer = {at for at in heights(span) if self.retracted.get(at, 0) > fence}
        scanned = {at for at in heights(span) if at in known and known[at].fence > fence}
        return Refusal(FencedOff, RangeSet.from_members(scanned)) if newer | scanned else None

    def is_other_branch(self, span: Span, branch: int, found: Iterable[Movement]) -> bool:
        """Whether a stored block contradicts the scan."""
        stored = self.sink.tables["blocks"]
        seen = {span.first - 1, span.last, *(it.block_number for it in found)}
        return any(at in stored and stored[at].branch != on(branch, at) for at in seen)

    def scan(
        self,
        set_: str,
        addresses: frozenset[bytes],
        span: Span,
        branch: int,
        how: Scanned,
        found: list[Movement],
    ) -> None:
        if self.sets.get(set_) != addresses:
            self.scanned[set_].clear()
            self.sets[set_] = addresses
        hashes = {span.last: hash_at(span.last, branch)}
        hashes |= {it.block_number: it.block_hash for it in found}
        self._forget_other_branches(hashes)
        keys = {it.key for it in found}
        for it in self._of(addresses, span):
            if it.key not in keys and not self._is_claimed(it, but=set_):
                self._forget(it)
        self._learn(found)
        for at in heights(span):
            self.scanned[set_][at] = how._replace(branch=on(branch, at))

    def retract(self, span: Span, fence: int) -> None:
        for at in heights(span):
            for it in [*self.facts.values()]:
                if it.block_number == at:
                    self._forget(it)
            self._lose_scans(at)
            self.retracted[at] = max(fence, self.retracted.get(at, 0))

    def refusal_of_retraction(self, span: Span, fence: int) -> Refusal | None:
        scanned = {
            at
            for at in heights(span)
            for each in self.scanned.values()
            if at in each and each[at].fence > fence
        }
        newer = {at for at in heights(span) if self.retracted.get(at, 0) > fence}
        return Refusal(FencedOff, RangeSet.from_members(scanned)) if newer | scanned else None

    def write_blocks(self, span: Span, branch: int, fence: int, names: tuple[str, ...]) -> None:
        stored = self.sink.tables["blocks"]
        replaced = [
            at for at in heights(span) if at in stored and stored[at].branch != on(branch, at)
        ]
        self.sink.write(span, branch, fence, names)
        for at in replaced:
            self.retract(Span(at, at), fence)
        self._forget_other_branches({at: hash_at(at, branch) for at in heights(span)})
        watching = {it for it, above in self.members.items() if above < span.last}
        watched = {address for _, address in watching}
        if not watched or not all(self._is_complete(at) for at in heights(span)):
            return
        found = [
            it
            for it in moved(span, watched, branch)
            if any(
                above < it.block_number
                for (_, address), above in self.members.items()
                if address in (it.sender, it.receiver)
            )
        ]
        self._watch(span, watched, found)
        parties = {it.sender for it in found} | {it.receiver for it in found}
        for group in {group for group, address in watching if address in parties}:
            self.interpret(group, span, "reward")

    def retract_blocks(self, span: Span, fence: int) -> None:
        self.sink.retract(span, fence)
        self.retract(span, fence)

    def add_members(
        self, group: str, addresses: Collection[bytes], above: int, searched_from: int | None
    ) -> None:
        for address in addresses:
            end = above if searched_from is None else self._end(address, searched_from, above)
            known = self.members.get((group, address), end)
            self.members[group, address] = min(known, end)
            for at, held in self.sink.tables["blocks"].items():
                if at > end and self._is_complete(at):
                    span = Span(at, at)
                    self._watch(span, {address}, moved(span, [address], held.branch))

    def _end(self, address: bytes, first: int, last: int) -> int:
        """The last height before the first one that no scan has looked at for an address."""
        for at in range(first, last + 1):
            if not any(
                at in scanned and address in self.sets[set_]
                for set_, scanned in self.scanned.items()
            ):
                return at - 1
        return last

    def remove_members(self, group: str, addresses: Collection[bytes]) -> None:
        for address in addresses:
            self.members.pop((group, address), None)
            self.epochs.pop((group, address), None)

    def purge(self, group: str, addresses: Collection[bytes]) -> None:
        for placed in [*self.entries]:
            if placed.group == group and placed.wallet in addresses:
                del self.entries[placed]
        gone = {*addresses} - {address for _, address in self.members}
        for set_, known in [*self.sets.items()]:
            self.sets[set_] = known - gone
            if not self.sets[set_]:
                self.scanned[set_].clear()
        for it in self._of(gone, Span(0, 10**9)):
            has_entries = any(placed.movement == it.key for placed in self.entries)
            if not has_entries and not self._is_claimed(it):
                self._forget(it)

    def interpret(self, group: str, span: Span, category: str) -> None:
        wallets = {address for each, address in self.members if each == group}
        for placed in [*self.entries]:
            is_in = span.first <= placed.movement.block_number <= span.last
            if placed.group == group and placed.wallet in wallets and is_in:
                del self.entries[placed]
        for entry in entries_of(self._of(wallets, span), wallets, category):
            self.entries[Placed(group, entry.wallet, entry.movement)] = entry

    def latest_epoch(self, group: str) -> int:
        return max((self.epochs[it] for it in self.members if it[0] == group), default=0)

    def begin_epoch(self, group: str, epoch: int) -> None:
        for it in self.members:
            if it[0] == group:
                self.epochs[it] = max(self.epochs[it], epoch)

    def balances(self) -> dict[tuple[str, bytes, bytes, int | None], tuple[int, int]]:
        """By group, wallet, token and id: the sum, and of how many entries it is."""
        found: dict[tuple[str, bytes, bytes, int | None], tuple[int, int]] = {}
        for placed, entry in self.entries.items():
            it = self.facts[placed.movement]
            if entry.direction:
                key = (placed.group, placed.wallet, it.token, it.token_id)
                amount, count = found.get(key, (0, 0))
                found[key] = (amount + entry.direction * it.amount, count + 1)
        return found

    def _is_complete(self, height: int) -> bool:
        return all(height in self.sink.tables[name] for name in NEEDED)

    def _of(self, addresses: Collection[bytes], span: Span) -> list[Movement]:
        return [
            it
            for it in self.facts.values()
            if {it.sender, it.receiver} & {*addresses}
            and span.first <= it.block_number <= span.last
        ]

    def _is_claimed(self, it: Movement, but: str = "", *, by_members: bool = True) -> bool:
        parties = {it.sender, it.receiver}
        return any(
            set_ != but and it.block_number in scanned and self.sets[set_] & parties
            for set_, scanned in self.scanned.items()
        ) or (
            by_members
            and any(
                address in parties and above < it.block_number
                for (_, address), above in self.members.items()
            )
        )

    def _watch(self, span: Span, addresses: Collection[bytes], found: list[Movement]) -> None:
        keys = {it.key for it in found}
        for it in self._of(addresses, span):
            if it.key not in keys and not self._is_claimed(it, by_members=False):
                self._forget(it)
        self._learn(found)
        for at in heights(span):
            self.retracted.pop(at, None)

    def _learn(self, found: Iterable[Movement]) -> None:
        for it in found:
            if it.key in self.facts and self.facts[it.key] != it:
                self._forget(self.facts[it.key])
            self.facts[it.key] = it

    def _forget_other_branches(self, hashes: dict[int, bytes]) -> None:
        for it in [*self.facts.values()]:
            if hashes.get(it.block_number, it.block_hash) != it.block_hash:
                self._forget(it)
                self._lose_scans(it.block_number)

    def _lose_scans(self, height: int) -> None:
        """Forgets that a height was scanned. Its next block is watched for those it was for."""
        for set_, scanned in self.scanned.items():
            if scanned.pop(height, None) is None:
                continue
            for (group, address), above in self.members.items():
                if address in self.sets[set_]:
                    self.members[group, address] = min(above, height - 1)

    def _forget(self, it: Movement) -> None:
        self.facts.pop(it.key, None)
        for placed in [*self.entries]:
            if placed.movement == it.key:
                del self.entries[placed]
