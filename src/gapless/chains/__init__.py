"""The chain families that Gapless supports, and their networks by name.

`family` defines what a family must provide; `network` and `level` are the types that all families
share. Other packages access chains only through this module and depend on no particular family.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from gapless.chains.evm.family import EVM
from gapless.chains.level import Level
from gapless.chains.network import Network
from gapless.chains.tron.family import TRON
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
    """Register a family in this process; raise `ValueError` if a name or chain id is taken.

    Sinks hold the tables of all families side by side, and identify a chain by its id.
    """
    taken = {*_families} | {name for each in _families.values() for name in _names(each)}
    if clash := sorted({family.name, *_names(family)} & taken):
        raise ValueError(f"{', '.join(clash)} of `{family.name}` is taken by another family")
    _families[family.name] = family


def _names(family: Family) -> Iterator[str]:
    """Yield the names that must be unique: of tables, of networks, and their chain ids."""
    yield from (table.name for table in family.tables)
    for network in family.networks:
        yield from (network.name, *network.aliases)
        if network.chain_id is not None:
            yield str(network.chain_id)


register(EVM)
register(TRON)


def families() -> tuple[Family, ...]:
    return tuple(_families.values())


def family_of(network: Network) -> Family:
    return _families[network.family]


def networks() -> Iterator[Network]:
    """Return all known networks, by family."""
    return (network for family in families() for network in family.networks)


def schema() -> Schema:
    """Return all tables that a sink may hold."""
    return Schema([family.tables for family in families()], _folder_name)


def find_network(key: str | int) -> Network:
    """Find a network by its name, an alias or its chain id (which may be text)."""
    if isinstance(key, int) or key.isdecimal():
        return network_of_chain(int(key))
    name = key.strip().lower()
    for network in networks():
        if name == network.name or name in network.aliases:
            return network
    known = [each for network in networks() for each in (network.name, *network.aliases)]
    similar = did_you_mean(name, known)
    unlisted = " and ".join(f"`{family.networks[-1].name}`" for family in families())
    remedy = None if similar else ListNetworks(unlisted)
    raise UsageError(f"there is no network `{key}`", hint=similar, remedy=remedy)


def network_of_chain(chain_id: int, datasets: Iterable[str] = ()) -> Network:
    """Return the network of a chain id; if unlisted, the family's last network with that id.

    The stored tables determine the family. Without any, an unlisted chain is treated as EVM.
    """
    names = {*datasets}
    family = next((it for it in families() if names & {table.name for table in it.tables}), None)
    listed = _listed(chain_id, networks() if family is None else family.networks)
    return listed or replace((family or EVM).networks[-1], chain_id=chain_id)


def network_name(network: Network) -> str:
    """Return the name that commands accept; for an unlisted EVM chain, its chain id."""
    unlisted = EVM.networks[-1].name
    by_id = network.name == unlisted and _listed(network.chain_id, networks()) is None
    return str(network.chain_id) if by_id else network.name


def _folder_name(chain_id: int) -> str:
    listed = _listed(chain_id, networks())
    return str(chain_id) if listed is None else listed.name


def _listed(chain_id: int | None, among: Iterable[Network]) -> Network | None:
    return next((it for it in among if it.chain_id == chain_id is not None), None)
