"""The package's functions to add wallets and to keep them in sync.

syncs = await gapless.add_wallets("0xAb58…", "ethereum", rpc="https://…", to="eth.db")
syncs = await gapless.sync_wallets(rpc="https://…")
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Unpack

from gapless.blocks.functions import target_of
from gapless.chains import find_network
from gapless.chains.opening import open_sink
from gapless.config import Config, load
from gapless.core.errors import Unavailable, UsageError
from gapless.core.similar import known_names
from gapless.ledger.syncs import Sync
from gapless.providers import Providers
from gapless.sinks import Access
from gapless.wallets.adding import add
from gapless.wallets.continuing import build_continued, chosen_syncs
from gapless.wallets.finding import resolved_sink
from gapless.wallets.parameters import ledger_url, listed, opened_ledger
from gapless.wallets.reading import syncs_of
from gapless.wallets.request import (
    DEFAULT_GROUP,
    WalletOptions,
    WalletsRequest,
    build_wallets,
    rules_of,
)
from gapless.wallets.running import SilentWalletObserver, WalletObserver, run_wallets
from gapless.wallets.store import WalletStore


async def add_wallets(
    addresses: str | Sequence[str],
    networks: str | Sequence[str],
    *,
    rpc: str | Sequence[str] = (),
    to: str | Path | None = None,
    ledger: str | None = None,
    detach: bool = False,
    providers: Providers | None = None,
    **options: Unpack[WalletOptions],
) -> list[Sync]:
    """Adds wallets and waits until their history is stored, classified and summed.

    Returns the syncs of all wallets and networks. Adding wallets again continues where they are.
    With several networks, write an endpoint as `NETWORK=URL`. With `detach`, workers do the work,
    and the syncs are returned as they were planned. If a network cannot be reached, the wallets are
    added on the others before `Unavailable` is raised.
    """
    if unknown := sorted(options.keys() - WalletOptions.__annotations__.keys()):
        raise UsageError(
            f"`add_wallets` has no option `{unknown[0]}`",
            hint=known_names(unknown[0], WalletOptions.__annotations__),
        )
    config = load()
    target = None if to is None else target_of(to)
    request, resolving = build_wallets(
        config,
        listed(addresses),
        listed(networks),
        listed(rpc),
        target,
        options,
        detached=detach,
    )
    return await sync(request, resolving, ledger_url(config, ledger), providers, detach=detach)


async def sync_wallets(
    addresses: str | Sequence[str] = (),
    *,
    group: str = DEFAULT_GROUP,
    networks: str | Sequence[str] = (),
    rpc: str | Sequence[str] = (),
    to: str | Path | None = None,
    ledger: str | None = None,
    detach: bool = False,
    providers: Providers | None = None,
) -> list[Sync]:
    """Continues wallets of a group up to the latest final block; by default, all of them.

    Endpoints that were given as URLs when the wallets were added must be given again, and so must
    the sink. If a network cannot be reached, the others are continued before `Unavailable` is
    raised.
    """
    config = load()
    url = ledger_url(config, ledger)
    target = None if to is None else target_of(to)
    async with opened_ledger(url) as book:
        wanted = await chosen_syncs(book, group, listed(addresses), listed(networks))
        requests, resolving = await build_continued(
            book, wanted, config, listed(rpc), target, detached=detach
        )
    found: list[Sync] = []
    unavailable: Unavailable | None = None
    for request in requests:
        try:
            found += await sync(request, resolving, url, providers, detach=detach)
        except Unavailable as error:
            unavailable = unavailable or error
    if unavailable is not None:
        raise unavailable
    return sorted(found, key=lambda each: each.key)


async def remove_wallets(
    addresses: str | Sequence[str],
    *,
    group: str = DEFAULT_GROUP,
    to: str | Path | None = None,
    ledger: str | None = None,
    purge: bool = False,
) -> None:
    """Removes wallets from a group; with `purge`, deletes what is stored of them only.

    A sink that was given as a URL when the wallets were added must be given again.
    """
    config = load()
    async with opened_ledger(ledger_url(config, ledger)) as book:
        syncs = await chosen_syncs(book, group, listed(addresses), ())
        targets = [_stored_at(config, each, to) for each in syncs]
        wallets = sorted({each.key.wallet for each in syncs})
        await book.remove_wallets(wallets, with_overrides=purge)
    for each, target in zip(syncs, targets, strict=True):
        rules = rules_of(find_network(each.network))
        async with await open_sink(target, Access.WRITE) as sink:
            address = rules.parse_address(each.key.address)
            store = WalletStore.of(sink)
            await store.remove_members(group, each.key.chain_id, [address], purge=purge)


async def sync(
    request: WalletsRequest,
    config: Config,
    url: str,
    providers: Providers | None = None,
    observer: WalletObserver | None = None,
    *,
    detach: bool = False,
) -> list[Sync]:
    """Adds or continues the wallets of a request, and runs them unless workers do.

    `providers` may serve others too. The configuration resolves the names of the request.
    """
    workers = request.networks[0].blocks.numbers.workers
    shared = providers or Providers(workers)
    async with nullcontext(shared) if providers else shared:
        added = await add(request, config, url, shared=shared, detached=detach)
        async with opened_ledger(url) as book:
            if detach:
                found = await syncs_of(book, added.keys)
            else:
                observer = observer or SilentWalletObserver()
                found = await run_wallets(added, config, book, shared, observer)
    if added.unreached:
        raise added.unreached[0].error
    return found


def _stored_at(config: Config, sync: Sync, to: str | Path | None) -> str:
    """The location of the sink of a sync."""
    return resolved_sink(config, sync.sink if to is None else target_of(to))
