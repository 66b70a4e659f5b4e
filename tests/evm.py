"""The EVM family as tests need it: its schema, its networks and its levels, by name."""

from __future__ import annotations

from gapless.chains import Level, find_network, schema
from gapless.chains.evm.check_names import Check
from gapless.chains.evm.checks import levels
from gapless.chains.evm.networks import EvmNetwork
from gapless.chains.evm.tables import TABLES
from gapless.schema import Table

SCHEMA = schema()
"""The tables of all families, with which sinks are opened."""
DATASETS = tuple(table.name for table in TABLES)


def table(name: str) -> Table:
    return SCHEMA[name]


def evm_network(key: str | int) -> EvmNetwork:
    found = find_network(key)
    assert isinstance(found, EvmNetwork)
    return found


def checks_of(level: Level, *, receipts: bool = True) -> frozenset[Check]:
    """The checks of a level, for blocks fetched with or without receipts."""
    return levels.checks_of(level, DATASETS if receipts else ("blocks",))
