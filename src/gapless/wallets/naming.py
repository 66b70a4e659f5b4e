"""Asks contracts once what their tokens are called, and remembers the answers in the sink.

A history from stored tables needs no node, and neither does a classification. So names are looked
up on their own, for the tokens that a group has ever held; those that are known are not asked for.
A history without names is complete all the same: where no node answers, the next lookup finds them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from gapless.blocks.block_pipeline import endpoints_of
from gapless.blocks.job import PROVIDERS, Host
from gapless.blocks.session import open_chain
from gapless.chains import family_of
from gapless.chains.movements import NOBODY
from gapless.chains.opening import open_sink
from gapless.config import Config
from gapless.core.errors import SourceError, UsageError
from gapless.providers import Pool, Providers
from gapless.sinks import Access
from gapless.telemetry import log
from gapless.wallets.adding import Added
from gapless.wallets.spec import GroupSpec
from gapless.wallets.store import WalletStore

_LONGEST, _PATIENCE = 30.0, 2.0
"""Seconds that the hook of a group spends on names: in all, and with a node that fails."""


async def name_tokens(
    added: Added, config: Config, ledger_url: str, providers: Providers
) -> dict[int, int]:
    """Looks up the tokens of wallets whose names are unknown; returns how many, by chain."""
    found: dict[int, int] = {}
    group = added.request.group
    async with await open_sink(config.sink(added.request.sink), Access.WRITE) as sink:
        store = WalletStore.of(sink)
        for each in added.chains:
            unknown = await _unnamed(store, group, each.chain_id)
            if not unknown:
                continue
            opening = open_chain(each.wallets.blocks, config, ledger_url, shared=providers)
            async with opening as chain:
                node = each.wallets.rules.node(chain.pool, chain.network)
                facts = await node.token_facts(unknown)
            await store.put_tokens(each.chain_id, facts)
            found[each.chain_id] = len(facts)
    return found


async def name_tokens_of_group(
    host: Host, spec: GroupSpec, store: WalletStore, endpoints: Sequence[str]
) -> None:
    """Looks up unknown tokens of a group, from within its hook; never fails, never takes long."""
    unknown = await _unnamed(store, spec.group, spec.chain_id)
    if not unknown or not endpoints:
        return
    providers = await host.shared(
        PROVIDERS, lambda: Providers(host.config.fetch.workers, system=host.system)
    )
    try:
        settings = endpoints_of(host.config, endpoints)
        queries = family_of(spec.chain).queries
        pool = Pool(
            settings,
            queries,
            providers=providers,
            chain_id=spec.chain_id,
            patience=_PATIENCE,
        )
        async with asyncio.timeout(_LONGEST), pool:
            await pool.meet()
            facts = await spec.rules.node(pool, spec.chain).token_facts(unknown)
    except (SourceError, UsageError, TimeoutError) as error:
        log(logging.WARNING, "tokens_unnamed", group=spec.name, tokens=len(unknown), error=error)
        return
    await store.put_tokens(spec.chain_id, facts)


async def _unnamed(store: WalletStore, group: str, chain_id: int) -> list[bytes]:
    """The tokens that a group has held and that have no name yet."""
    held = await store.balances(group, None, chain_id)
    tokens = {balance.token for balance in held} - {NOBODY}
    return sorted(tokens - (await store.tokens(chain_id, tokens)).keys())
