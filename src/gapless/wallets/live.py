"""The companion of sinks that have wallets: classifies new blocks as they are written.

The rules need to know how much wallets held before the block, and whom they had paid. Both are read
from the store, and only for the wallets, tokens and counterparties of the block. So a followed
block is classified in its own transaction, as the hook of its group would classify it.

A block that is written after later ones can change what those mean: whether a counterparty was paid
before, whether a wallet had so much. Then the hook of the group decides when it runs next.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from gapless.chains import find_network
from gapless.chains.movements import Movement
from gapless.core.ranges import Span
from gapless.sinks import CompanionTransaction
from gapless.wallets.balances import Asset
from gapless.wallets.categories import Flag, Overrides, overridden
from gapless.wallets.classify import EVENTS, PAYMENTS, Classifier
from gapless.wallets.companion import WalletCompanion, Watching
from gapless.wallets.past import Past, Payee, face
from gapless.wallets.records import HistoryFilter, HistoryItem, Page
from gapless.wallets.request import rules_of
from gapless.wallets.store import balances, entries, members, movements
from gapless.wallets.store.bindings import Bindings

_ALL = Page(limit=2**31, newest_first=False)
_PAID = """
SELECT receiver, initiator, min(block_number) FROM {{wallet_movements}}
WHERE sender = $1 AND block_number < $2 AND +chain_id = $3 AND amount <> $4 AND kind IN ({kinds})
GROUP BY receiver, initiator
"""


def companion() -> WalletCompanion:
    """Creates the companion, which a sink loads by its name."""
    return WalletCompanion(watching, interpret)


def watching(chain_id: int, networks: Collection[str]) -> Watching:
    """Returns how movements are derived from the blocks of a chain.

    A private chain may use the chain id of a public network, so its members decide. If some were
    added on `custom` and others on a listed network, then the nodes were found to be on the latter.
    """
    found = sorted(map(find_network, networks), key=lambda it: it.chain_id is None)
    network = replace(found[0], chain_id=chain_id)
    return Watching(network, rules_of(network))


async def interpret(tx: CompanionTransaction, group: str, chain_id: int, span: Span) -> None:
    """Writes the entries of a group for a span whose movements have changed."""
    registered = await members.listed(tx, chain_id, group)
    wallets = frozenset(it.address for it in registered)
    facts = await movements.of_addresses(tx, chain_id, wallets, span)
    if not facts:
        return
    rules = watching(chain_id, {it.network for it in registered}).rules
    before = _Before(tx, group, chain_id, facts, wallets)
    past = Past(incomplete=await before.incomplete())
    for asset in before.doubtful:
        if asset.wallet not in past.incomplete:
            past.sums.change(asset, await before.held(asset))
    for wallet in before.parties:
        for payee in await before.paid(wallet):
            past.pay(wallet, face(rules.format_address(payee.address)), payee)
    classifier = Classifier(wallets, past, rules.format_address)
    found = [*classifier.add(facts), *classifier.finish()]
    new = [*overridden(found, await before.overrides())]
    await entries.replace(tx, group, wallets, facts, new, span, chain_id)


class _Before:
    """What the store says about the time before some movements of a group."""

    def __init__(
        self,
        tx: CompanionTransaction,
        group: str,
        chain_id: int,
        facts: Sequence[Movement],
        wallets: frozenset[bytes],
    ) -> None:
        self._tx = tx
        self._group = group
        self._chain_id = chain_id
        self._facts = facts
        self._wallets = wallets
        self._first = facts[0].block_number
        self.parties = {it.sender for it in facts} | {it.receiver for it in facts}
        self.parties &= wallets
        self.doubtful = {
            Asset(it.sender, it.token, it.token_id)
            for it in facts
            if it.kind in EVENTS and it.sender in wallets and it.initiator not in wallets
        }
        """What wallets sent without having signed for it."""

    async def incomplete(self) -> frozenset[bytes]:
        """The wallets whose sums are not what they held."""
        found = await members.listed(self._tx, self._chain_id, self._group)
        return self._wallets - {it.address for it in found if it.is_complete}

    async def held(self, asset: Asset) -> int:
        """How much a wallet held."""
        wallet, token, token_id = asset
        sums = await balances.listed(self._tx, self._group, [wallet], self._chain_id)
        now = sum(it.amount for it in sums if (it.token, it.token_id) == (token, token_id))
        since = await self._entries([wallet], tokens=(token,))
        return now - sum(
            entry.direction * it.amount for it, entry in since if it.token_id == token_id
        )

    async def paid(self, wallet: bytes) -> list[Payee]:
        """Whom a wallet had paid, the first one first."""
        nothing, *_ = self._tx.dialect.to_wide(0)
        bound = Bindings(wallet, self._first, self._chain_id, nothing)
        query = _PAID.format(kinds=bound.marks(sorted(map(str, PAYMENTS))))
        rows = await self._tx.execute(query, *bound.values)
        found = [
            Payee(receiver, since)
            for receiver, initiator, since in rows
            if initiator in self._wallets and receiver not in self._wallets and receiver
        ]
        return sorted(found, key=lambda it: it.since)

    async def overrides(self) -> Overrides:
        """Categories that a person has set for these movements."""
        return {
            (it.key, entry.wallet): entry.category
            for it, entry in await self._entries(None)
            if Flag.MANUAL in entry.flags
        }

    async def _entries(
        self, wallets: Collection[bytes] | None, tokens: tuple[bytes, ...] = ()
    ) -> list[HistoryItem]:
        """The entries from the first of the movements on."""
        since = self._facts[0].block_timestamp
        wanted = HistoryFilter(since=since, chains=(self._chain_id,), tokens=tokens)
        found = await entries.listed(self._tx, self._group, wallets, wanted, _ALL)
        return [it for it in found if it.movement.block_number >= self._first]
