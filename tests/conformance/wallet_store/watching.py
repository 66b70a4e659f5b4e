"""The companion `wallets` of these tests: the real one, with rules and entries of ours."""

from __future__ import annotations

from gapless.core.ranges import Span
from gapless.sinks import CompanionTransaction
from gapless.wallets.companion import WalletCompanion, Watching
from gapless.wallets.store import entries, members, movements
from tests.conformance.wallet_store.stage import NETWORK, RULES, entries_of


async def interpret(tx: CompanionTransaction, group: str, chain_id: int, span: Span) -> None:
    wallets = {it.address for it in await members.listed(tx, chain_id, group)}
    facts = await movements.of_addresses(tx, chain_id, wallets, span)
    new = entries_of(facts, wallets, "reward")
    assert await entries.replace(tx, group, wallets, facts, new, span, chain_id)


def companion() -> WalletCompanion:
    return WalletCompanion(lambda _chain, _tables: Watching(NETWORK, RULES), interpret)
