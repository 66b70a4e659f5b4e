"""What must be true of wallets in the end: history, balances, and what is unexplained of them.

A movement is expected where it was looked for. Events were, in every block; coins, where every
block was read, where accounts of the past were compared, and in blocks that are watched. What is
found anywhere must be part of the truth, and what it does not explain is what the chain hides.

A group has an entry of each movement of its wallets. But what only another group's search has found
may wait until the group is classified again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

import pyarrow as pa

from gapless.chains import find_network
from gapless.chains.movements import NOBODY, Movement, MovementKey, WalletNode
from gapless.core.ranges import RangeSet, Span
from gapless.devnode import Chain
from gapless.devnode.evm.accounts import Explained
from gapless.devnode.evm.postings import COINS
from gapless.wallets.categories import WalletEntry
from gapless.wallets.classify import EVENTS, Classifier
from gapless.wallets.past import Past
from gapless.wallets.reconcile import reconcile
from gapless.wallets.records import Page
from gapless.wallets.request import rules_of
from gapless.wallets.store import WalletStore
from gapless.wallets.store.changing import is_remainder, is_traced
from gapless.wallets.ways import Evidence, knows_coins
from tests.conformance.fetch.stage import truth_of
from tests.conformance.wallets.stage import (
    assert_coins,
    assert_unexplained,
    asset_of,
    explanation,
    octets,
)
from tests.simulation.laws import Broken
from tests.simulation.subjects import Subject
from tests.simulation.wallet_scenario import CHAIN_SEED

_RULES = rules_of(find_network("custom"))
_ALL = Page(limit=10**6, newest_first=False)

Movements = dict[MovementKey, Movement]


class WalletLaws:
    """Compares wallets with a chain that stands still."""

    def __init__(
        self, store: WalletStore, node: WalletNode, chain: Chain, subject: Subject
    ) -> None:
        self._store, self._node = store, node
        self._chain, self._subject = chain, subject

    async def require(
        self, group: str, addresses: tuple[str, ...], elsewhere: Collection[str]
    ) -> None:
        """Compare a group. Some of its wallets may be `elsewhere`, in other groups, too."""
        wallets = {it: octets(it) for it in addresses}
        facts = await self._facts([*wallets.values()])
        known = {own: await self._searched(own) for own in wallets.values()}
        self._require_movements(group, facts, known)
        own_only = frozenset(it for address, it in wallets.items() if address not in elsewhere)
        entered = await self._require_entries(group, addresses, facts, own_only)
        for address, own in wallets.items():
            coins = [it for it in facts.values() if it.token == NOBODY and own in _parties(it)]
            moved = [it for it in entered.values() if own in _parties(it)]
            try:
                assert_coins(self._chain, self._chain.head, address, known[own], coins)
                await self._require_balances(group, address, moved)
            except AssertionError as error:
                raise Broken(
                    f"what is unexplained of {address} in `{group}` is not what the chain hides:"
                    f" {error}"
                ) from error

    async def _facts(self, wallets: list[bytes]) -> Movements:
        pages = [page async for page in self._store.stream(self._chain.chain_id, wallets)]
        return {it.key: it for page in pages for it in page}

    async def _searched(self, wallet: bytes) -> dict[str, RangeSet]:
        """Where a wallet was searched for, by source: scans, and blocks that are watched."""
        chain_id, spans = self._chain.chain_id, defaultdict[str, list[Span]](list)
        for scan in await self._store.scans_of(chain_id, wallet):
            spans[scan.source].append(scan.span)
        for member in await self._store.members(chain_id, address=wallet):
            if member.above < self._chain.head:
                spans[Evidence.TABLES].append(Span(member.above + 1, self._chain.head))
        return {source: RangeSet(its) for source, its in spans.items()}

    def _require_movements(
        self, group: str, facts: Movements, known: Mapping[bytes, Mapping[str, RangeSet]]
    ) -> None:
        coins = {
            wallet: RangeSet(
                span for source, its in found.items() if knows_coins(source) for span in its.spans
            )
            for wallet, found in known.items()
        }
        visible = self._visible(known)
        needed = {
            key
            for key, it in visible.items()
            if it.kind in EVENTS
            or any(it.block_number in coins.get(its, ()) for its in _parties(it))
        }
        shown = {key for key, it in facts.items() if not is_traced(it) and not is_remainder(it)}
        wrong = (needed - shown) | {key for key in shown if facts[key] != visible.get(key)}
        if wrong:
            raise Broken(f"{len(wrong)} movements of `{group}` are not those of the chain")

    def _visible(self, wallets: Iterable[bytes]) -> Movements:
        """What the chain itself shows of wallets."""
        subject, span = self._subject, Span(0, self._chain.head)
        rows: Mapping[str, pa.Table] = truth_of(self._chain, span, subject.family)
        network = replace(subject.network, chain_id=self._chain.chain_id)
        return {it.key: it for it in _RULES.movements(rows, network, frozenset(wallets))}

    async def _require_entries(
        self,
        group: str,
        addresses: tuple[str, ...],
        facts: Movements,
        own_only: frozenset[bytes],
    ) -> Movements:
        """Return the movements that the group has entries of."""
        items = await self._store.entries(group, page=_ALL)
        entries = {(it.movement.key, it.entry.wallet): it.entry for it in items}
        if len(entries) != len(items):
            raise Broken(f"{len(items)} entries of `{group}`, some of them twice")
        entered = {it.movement.key: it.movement for it in items}
        waiting = [it for key, it in facts.items() if key not in entered]
        if any(it.kind in EVENTS or not own_only.isdisjoint(_parties(it)) for it in waiting):
            raise Broken(f"`{group}` has no entries of some of its movements")
        if any(facts.get(key) != it for key, it in entered.items()):
            raise Broken(f"`{group}` has entries of other movements than its own")
        if entries != {(it.movement, it.wallet): it for it in _classified(entered, addresses)}:
            raise Broken(f"movements of `{group}` mean something else than on the chain")
        return entered

    async def _require_balances(self, group: str, address: str, moved: list[Movement]) -> None:
        """All assets of a wallet are listed, with its sums, and with what remains unexplained."""
        own, chain_id, head = octets(address), self._chain.chain_id, self._chain.head
        sums: defaultdict[tuple[bytes, int | None], int] = defaultdict(int)
        for it in moved:
            sums[it.token, it.token_id] += it.amount * ((it.receiver == own) - (it.sender == own))
        listed = await self._store.balances(group, [own], chain_id)
        assert {(it.token, it.token_id): it.amount for it in listed} == sums, "other assets"
        explained = explanation(self._chain, head, address)
        held = explained.get(COINS, Explained(0, 0)).balance
        coins = sums[NOBODY, None]
        explained[COINS] = Explained(coins, held - coins)
        found = await reconcile(self._store, self._node, group, own, chain_id, head)
        assert {asset_of(it.token, it.token_id) for it in found} == {asset_of(*it) for it in sums}
        assert_unexplained(found, explained, CHAIN_SEED)


def _parties(it: Movement) -> tuple[bytes, bytes]:
    return it.sender, it.receiver


def _classified(facts: Movements, addresses: tuple[str, ...]) -> list[WalletEntry]:
    classifier = Classifier(frozenset(map(octets, addresses)), Past(), _RULES.format_address)
    return [*classifier.add([*facts.values()]), *classifier.finish()]
