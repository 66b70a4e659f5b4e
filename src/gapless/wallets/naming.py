"""Asks contracts once what their tokens are called, and remembers the answers in the sink.

A history from stored tables needs no node, and neither does a classification. So names are looked
up on their own, for the tokens that a group has ever held; those that are known are not asked for.
"""

from __future__ import annotations

from gapless.blocks.session import open_chain
from gapless.chains.movements import NOBODY
from gapless.chains.opening import open_sink
from gapless.config import Config
from gapless.providers import Providers
from gapless.sinks import Access
from gapless.wallets.adding import Added
from gapless.wallets.store import WalletStore


async def name_tokens(
    added: Added, config: Config, ledger_url: str, providers: Providers
) -> dict[int, int]:
    """Looks up the tokens of wallets whose names are unknown; returns how many, by chain."""
    found: dict[int, int] = {}
    group = added.request.group
    async with await open_sink(config.sink(added.request.sink), Access.WRITE) as sink:
        store = WalletStore.of(sink)
        for each in added.chains:
            held = await store.balances(group, None, each.chain_id)
            tokens = {balance.token for balance in held} - {NOBODY}
            unknown = sorted(tokens - (await store.tokens(each.chain_id, tokens)).keys())
            if not unknown:
                continue
            opening = open_chain(each.wallets.blocks, config, ledger_url, shared=providers)
            async with opening as chain:
                node = each.wallets.rules.node(chain.pool, chain.network)
                facts = await node.token_facts(unknown)
            await store.put_tokens(each.chain_id, facts)
            found[each.chain_id] = len(facts)
    return found
