"""The EVM family as tests need it: its schema, its networks and its levels, by name."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from gapless.chains import Level, find_network, schema
from gapless.chains.derived_rows import counted
from gapless.chains.evm.check_names import Check
from gapless.chains.evm.checks import levels
from gapless.chains.evm.family import EVM
from gapless.chains.evm.networks import EvmNetwork
from gapless.chains.evm.tables import TABLES, TRANSFERS
from gapless.chains.evm.transfer_rows import derived_tables
from gapless.schema import Table
from gapless.schema.arrow import Tables

SCHEMA = schema()
"""The tables of all families, with which sinks are opened."""
EVERY_TABLE = EVM.tables
"""Also those that are stored only on request."""
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


def with_transfers(tables: Mapping[str, pa.Table]) -> Tables:
    """The same tables with `transfers`, as a fetch of all of them stores it."""
    (chain_id,) = tables["blocks"]["chain_id"].unique().to_pylist()
    found = derived_tables(tables, chain_id)["transfers"]
    blocks = counted(tables["blocks"], TRANSFERS, found)
    return Tables({**tables, "blocks": blocks, "transfers": found})
