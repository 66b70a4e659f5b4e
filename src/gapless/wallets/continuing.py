"""Builds the requests that continue wallets which were added before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from gapless.blocks.targets import has_endpoint
from gapless.chains import find_network
from gapless.config import Config
from gapless.core.errors import NotFound, UsageError
from gapless.ledger import Ledger
from gapless.ledger.syncs import Sync
from gapless.wallets.reading import group_syncs
from gapless.wallets.request import (
    WalletOptions,
    WalletsRequest,
    build_wallets,
    endpoints_by_network,
    is_shared,
    rules_of,
)
from gapless.wallets.ways import Way


class _Way(NamedTuple):
    """How the latest pass of some syncs was run."""

    sink: str
    network: str
    way: Way
    verify: str
    endpoints: tuple[str, ...]


async def chosen_syncs(
    ledger: Ledger, group: str, addresses: Sequence[str], networks: Sequence[str]
) -> list[Sync]:
    """The syncs of a group; with addresses or networks, only theirs.

    Raises `NotFound` if there are none.
    """
    names = {find_network(each).name for each in networks}
    found = [
        it
        for it in await group_syncs(ledger, group)
        if (not names or it.network in names)
        and (not addresses or any(_is(it, text) for text in addresses))
    ]
    if not found:
        raise NotFound(
            f"there are no such wallets in the group `{group}`", hint="add them, or list all groups"
        )
    return found


async def build_continued(
    ledger: Ledger,
    syncs: Sequence[Sync],
    config: Config,
    rpcs: Sequence[str],
    target: str | None,
    *,
    detached: bool,
) -> tuple[list[WalletsRequest], Config]:
    """The requests that continue syncs as they were requested before, one for each sink.

    Returns them with the configuration that resolves their names.
    """
    ways: dict[_Way, list[Sync]] = {}
    for each in syncs:
        ways.setdefault(await _way(ledger, each), []).append(each)
    chains = {way.network: find_network(way.network) for way in ways}
    given = endpoints_by_network(config, [*chains.values()], rpcs)
    resolving, requests = config, dict[tuple[str, Way], WalletsRequest]()
    for way, its in sorted(ways.items()):
        remembered = () if has_endpoint(config, chains[way.network]) else _names(config, way)
        request, resolving = build_wallets(
            resolving,
            [it.key.address for it in its],
            [way.network],
            given[way.network] or remembered,
            target or way.sink,
            WalletOptions(
                group=its[0].key.group,
                scan=way.way is Way.SCAN,
                traces=way.way is Way.TRACES,
                verify=way.verify,
            ),
            detached=detached,
        )
        if same := requests.get((request.sink, way.way)):
            request = replace(same, networks=(*same.networks, *request.networks))
        requests[request.sink, way.way] = replace(request, shared=is_shared(config, request))
    return [*requests.values()], resolving


async def _way(ledger: Ledger, sync: Sync) -> _Way:
    spec = (await ledger.backfill(sync.passes[-1])).spec
    endpoints = tuple(spec["endpoints"])
    way = Way(spec.get("way", Way.EVENTS))
    return _Way(sync.sink, sync.network, way, spec["verify"], endpoints)


def _names(config: Config, way: _Way) -> tuple[str, ...]:
    """The endpoints of a pass that can still be looked up; URLs are not stored."""
    return tuple(it for it in way.endpoints if it in config.endpoints or it.startswith("env:"))


def _is(sync: Sync, text: str) -> bool:
    """Whether text is the address of a sync, in any of its forms, or its label."""
    if text in (sync.key.address, sync.label):
        return True
    rules = rules_of(find_network(sync.network))
    try:
        return rules.format_address(rules.parse_address(text)) == sync.key.address
    except UsageError:
        return False
