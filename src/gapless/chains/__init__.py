"""The chain families that Gapless knows, and their networks by name.

`family` says what a family must offer; `network` and `level` are the words that all families share.
Whoever needs something of a chain asks for it here: nothing outside this package knows a family.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from gapless.chains.evm.family import EVM
from gapless.chains.level import Level
from gapless.chains.network import Network
from gapless.core.errors import UsageError
from gapless.core.remedies import ListNetworks
from gapless.core.similar import did_you_mean
from gapless.schema import Schema

if TYPE_CHECKING:
    from gapless.chains.family import Family

__all__ = [
    "Level",
    "Network",
    "families",
    "family_of",
    "find_network",
    "network_name",
    "network_of_chain",
    "networks",
    "register",
    "schema",
]

_families: dict[str, Family] = {}


def register(family: Family) -> None:
    """Makes a family known to this process."""
    _families[family.name] = family


register(EVM)


def families() -> tuple[Family, ...]:
    return tuple(_families.values())


def family_of(network: Network) -> Family:
    return _families[network.family]


def networks() -> Iterator[Network]:
    """All networks that are known, by family."""
    return (network for family in families() for network in family.networks)


def schema() -> Schema:
    """All tables that a sink may hold."""
    return Schema([family.tables for family in families()], network_name)


def find_network(key: str | int) -> Network:
    """The network of a name, an alias or a chain id (which may be text)."""
    if isinstance(key, int) or key.isdecimal():
        return network_of_chain(int(key))
    name = key.strip().lower()
    for network in networks():
        if name == network.name or name in network.aliases:
            return network
    known = [each for network in networks() for each in (network.name, *network.aliases)]
    similar = did_you_mean(name, known)
    remedy = None if similar else ListNetworks()
    raise UsageError(f"there is no network `{key}`", hint=similar, remedy=remedy)


def network_of_chain(chain_id: int) -> Network:
    """The network of a chain id; one that is not known is `custom`, with that id."""
    known = (network for network in networks() if network.chain_id == chain_id)
    return next(known, None) or replace(EVM.networks[-1], chain_id=chain_id)


def network_name(chain_id: int) -> str:
    """The network's name, or its chain id where it has none, as commands take it."""
    network = network_of_chain(chain_id)
    unlisted = family_of(network).networks[-1]
    return str(chain_id) if network.name == unlisted.name else network.name
