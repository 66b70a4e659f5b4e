"""Builds and validates the request to add wallets.

Validation happens before any node is contacted and before anything is created. An address belongs
to every requested network whose family reads it, so wallets of several families can be added
together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

from gapless.blocks.plan import FetchRequest
from gapless.blocks.request import FetchOptions, build_request
from gapless.chains import Network, family_of, find_network
from gapless.chains import networks as known_networks
from gapless.chains.movements import WalletRules
from gapless.config import Config
from gapless.core.errors import BadSelector, UsageError
from gapless.core.heights import Heights, Moment
from gapless.sinks.location import kind_of
from gapless.wallets.ways import Way

DEFAULT_GROUP = "default"
_GROUP = re.compile(r"[A-Za-z0-9_-]{1,40}")
_EVERYTHING = "0:finalized"  # a fetch needs heights; wallets have a start instead
_DATABASES = ("sqlite", "postgresql")
_LONGEST_LABEL = 100


class WalletOptions(TypedDict, total=False):
    """The options of adding wallets. Those that are omitted or None have a default."""

    group: str | None  # whose wallets own each other's; default: `default`
    label: str | None  # what the owner calls the wallets
    start: str | int | None  # the first block, or a day; default: the first block of the chain
    scan: bool | None  # whether to fetch every block that is not stored
    traces: bool | None  # whether to trace the transactions of every block
    verify: str | None
    workers: int | None
    batch_size: int | None  # fetched blocks that are stored together
    chunk_size: int | None  # the fewest blocks of a segment
    max_concurrent: int | None
    rps: float | None
    confirmations: int | None  # blocks below the head that are not treated as final


@dataclass(frozen=True)
class NetworkWallets:
    """The wallets of a request on one network."""

    blocks: FetchRequest  # how blocks are fetched where they are needed; its heights are not used
    addresses: tuple[str, ...]  # as the family writes them

    @property
    def network(self) -> Network:
        return self.blocks.network

    @property
    def rules(self) -> WalletRules:
        return rules_of(self.network)


@dataclass(frozen=True)
class WalletsRequest:
    """What the user requests, before contacting a node or sink; endpoints and sink by name."""

    group: str
    label: str | None
    networks: tuple[NetworkWallets, ...]
    sink: str
    start: int | Moment | None
    way: Way
    shared: bool  # whether other processes can resolve the names of endpoints and sink

    @property
    def addresses(self) -> list[str]:
        """All addresses, each once."""
        return [*dict.fromkeys(address for each in self.networks for address in each.addresses)]


def build_wallets(
    config: Config,
    addresses: Sequence[str],
    networks: Sequence[str],
    rpcs: Sequence[str],
    target: str | None,
    options: WalletOptions,
    *,
    detached: bool = False,
) -> tuple[WalletsRequest, Config]:
    """Builds the request and validates it before any node is contacted.

    Returns it with the configuration that resolves its names. An endpoint is a URL or a name; with
    several networks, a URL is written as `NETWORK=URL`. Workers run a `detached` request, so its
    endpoints and its sink must be configured.
    """
    chains = [*{chain.name: chain for chain in map(find_network, networks)}.values()]
    if not chains:
        raise UsageError("no network given", hint="give one, such as `ethereum`")
    owned = _by_network(addresses, chains)
    resolving, found = config, list[NetworkWallets]()
    given = endpoints_by_network(config, chains, rpcs)
    for chain in chains:
        wanted = FetchOptions(
            datasets=",".join(rules_of(chain).tables),
            workers=options.get("workers"),
            batch_size=options.get("batch_size"),
            chunk_size=options.get("chunk_size"),
            max_concurrent=options.get("max_concurrent"),
            verify=options.get("verify"),
            rps=options.get("rps"),
            confirmations=options.get("confirmations"),
        )
        blocks, targets = build_request(
            resolving, chain.name, _EVERYTHING, given[chain.name], target, wanted, detached=detached
        )
        resolving = targets.config
        found.append(NetworkWallets(blocks, owned[chain.name]))
    sink = found[0].blocks.sink
    _refuse_other_sinks(resolving.sink(sink))
    request = WalletsRequest(
        group=checked_group(options.get("group") or DEFAULT_GROUP),
        label=checked_label(options.get("label")),
        networks=tuple(found),
        sink=sink,
        start=_start(options.get("start")),
        way=_way(options),
        shared=False,
    )
    request = replace(request, shared=is_shared(config, request))
    if detached and not request.shared:
        raise UsageError(
            "workers can only look up endpoints and sinks by name",
            hint="name them in `gapless.toml`, or give `env:VARIABLE`; URLs are never stored",
        )
    return request, resolving


def rules_of(network: Network) -> WalletRules:
    """Returns the rules of a network's family; raises `UsageError` if it has none."""
    rules = family_of(network).wallets
    if rules is None:
        raise UsageError(
            f"wallets on `{network.name}` are not supported",
            hint="its blocks can be fetched; give another network",
        )
    return rules


def checked_group(name: str) -> str:
    if not _GROUP.fullmatch(name):
        raise UsageError(
            f"`{name}` cannot be the name of a group",
            hint="use up to 40 letters, digits, `_` and `-`",
        )
    return name


def checked_label(text: str | None) -> str | None:
    if text is not None and (len(text) > _LONGEST_LABEL or not text.isprintable()):
        raise UsageError(
            "the label is too long or has control characters",
            hint=f"use up to {_LONGEST_LABEL} printable characters",
        )
    return text


def _way(options: WalletOptions) -> Way:
    if options.get("traces"):
        return Way.TRACES
    return Way.SCAN if options.get("scan") else Way.EVENTS


def _start(text: str | int | None) -> int | Moment | None:
    if text is None:
        return None
    found = Heights.parse(str(text))
    if found.first != found.last:
        raise BadSelector(
            f"`{text}` is a range", hint="give the first block or day only, such as `18M`"
        )
    return found.first


def _by_network(addresses: Sequence[str], chains: Sequence[Network]) -> dict[str, tuple[str, ...]]:
    """The addresses of each network, as its family writes them."""
    if not addresses:
        raise UsageError("no address given", hint="give the address of a wallet")
    found: dict[str, dict[str, None]] = {chain.name: {} for chain in chains}
    for text in addresses:
        refusals: list[UsageError] = []
        for chain in chains:
            rules = rules_of(chain)
            try:
                found[chain.name][rules.format_address(rules.parse_address(text))] = None
            except UsageError as error:
                refusals.append(error)
        if len(refusals) == len(chains):
            raise refusals[0]
    for name, its in found.items():
        if not its:
            raise UsageError(
                f"none of the addresses is an address of `{name}`",
                hint="leave the network out, or add an address of it",
            )
    return {name: tuple(its) for name, its in found.items()}


def endpoints_by_network(
    config: Config, chains: Sequence[Network], rpcs: Iterable[str]
) -> dict[str, tuple[str, ...]]:
    """The given endpoints of each network: by configured name, `NETWORK=URL`, or URL."""
    found: dict[str, list[str]] = {chain.name: [] for chain in chains}
    for text in rpcs:
        prefix, separator, rest = text.partition("=")
        owner = _named(prefix, chains) if separator else None
        if owner is not None:
            found[owner.name].append(rest)
            continue
        if separator and (other := _named(prefix, known_networks())) is not None:
            raise UsageError(
                f"an endpoint of `{other.name}` is given, which is not requested",
                hint="leave it out, or request the network",
            )
        settings = config.endpoints.get(text)
        network = None if settings is None else settings.network
        if network is None and len(chains) > 1:
            raise UsageError(
                "several networks are requested, and an endpoint does not say of which it is",
                hint=f"write `NETWORK=URL`, such as `{chains[0].name}=https://…`",
            )
        owner = chains[0] if network is None else _named(network, chains)
        if owner is None:
            raise UsageError(
                f"the endpoint `{text}` is of `{network}`, which is not requested",
                hint="give an endpoint of a requested network",
            )
        found[owner.name].append(text)
    return {name: tuple(its) for name, its in found.items()}


def is_shared(config: Config, request: WalletsRequest) -> bool:
    """Whether other processes with this configuration can resolve the names of a request."""
    names = [request.sink, *(name for it in request.networks for name in it.blocks.endpoints)]
    return all(
        name in config.endpoints or name in config.sinks or name.startswith("env:")
        for name in names
    )


def _named(text: str, chains: Iterable[Network]) -> Network | None:
    name = text.strip().lower()
    return next((it for it in chains if name in (it.name, *it.aliases)), None)


def _refuse_other_sinks(target: str) -> None:
    kind, _ = kind_of(target)
    if kind not in _DATABASES:
        raise UsageError(
            f"a {kind} sink cannot hold wallets",
            hint="use a SQLite file or a PostgreSQL database",
        )
