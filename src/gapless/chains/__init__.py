"""The chain families that Gapless knows, and their networks by name.

`family` says what a family must offer; `network` and `level` are the words that all families share.
Whoever needs something of a chain asks for it here: nothing outside this package knows a family.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
    """Makes a family known to this process; a name or chain id that is taken is a `ValueError`.

    Sinks hold the tables of all families side by side, and know a chain by its id.
    """
    taken = {*_families} | {name for each in _families.values() for name in _names(each)}
    if clash := sorted({family.name, *_names(family)} & taken):
        raise ValueError(f"{', '.join(clash)} of `{family.name}` is taken by another family")
    _families[family.name] = family


def _names(family: Family) -> Iterator[str]:
    """Whatever only one family may have: its tables, its networks and their chain ids."""
    yield from (table.name for table in family.tables)
    for network in family.networks:
        yield from (network.name, *network.aliases)
        if network.chain_id is not None:
            yield str(network.chain_id)


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
    return Schema([family.tables for family in families()], _folder_name)


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


def network_of_chain(chain_id: int, datasets: Iterable[str] = ()) -> Network:
    """The network of a chain id; one that is not listed is its family's last, with that id.

    Stored tables tell the family. Without any, an unlisted chain is taken for an EVM chain.
    """
    names = {*datasets}
    family = next((it for it in families() if names & {table.name for table in it.tables}), None)
    listed = _listed(chain_id, networks() if family is None else family.networks)
    return listed or replace((family or EVM).networks[-1], chain_id=chain_id)


def network_name(network: Network) -> str:
    """The network as commands take it: by its name, or an unlisted EVM chain by its chain id."""
    unlisted = EVM.networks[-1].name
    by_id = network.name == unlisted and _listed(network.chain_id, networks()) is None
    return str(network.chain_id) if by_id else network.name


def _folder_name(chain_id: int) -> str:
    listed = _listed(chain_id, networks())
    return str(chain_id) if listed is None else listed.name


def _listed(chain_id: int | None, among: Iterable[Network]) -> Network | None:
    return next((it for it in among if it.chain_id == chain_id is not None), None)
