"""Prove stored rows with the compiled core; see `rows` for the reference, which it must equal.

The core restores, completes, checks and decodes the blocks again. It proves only rows without any
flaw: if a block is unusual or a row differs, the reference examines the rows and finds the flaws.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from gapless.chains.derived_rows import differences
from gapless.chains.evm.decode.restore import not_restored
from gapless.chains.evm.native_checks import mask, proof
from gapless.chains.evm.networks import EvmNetwork
from gapless.chains.evm.tables import TABLES
from gapless.core.proof import Proof


class RowCore(Protocol):
    """What `gapless_native` provides for stored rows."""

    def examine(
        self,
        tables: Mapping[str, pa.RecordBatch],
        network: tuple[str, int, int],
        asked: int,
        supported: Sequence[tuple[int, int]],
        chain_id: int,
        /,
    ) -> tuple[int, int, bool, Mapping[str, Any]] | None: ...


def prove_rows(
    core: RowCore,
    tables: Mapping[str, pa.Table],
    network: EvmNetwork,
    chain_id: int,
    checks: frozenset[str],
) -> Proof | None:
    """Return what rows without a flaw prove; None if the reference must examine them."""
    stored = {it.name: tables[it.name] for it in TABLES if it.name in tables}
    rules = (network.header.value, network.byzantium, network.sprint)
    eras = [(era.start, mask(era.checks)) for era in network.eras]
    batches = {name: _batches(rows) for name, rows in stored.items()}
    if any(len(each) > 1 for each in batches.values()):  # a column is too long for one batch
        return None
    whole = {name: batch for name, [batch] in batches.items()}
    found = core.examine(whole, rules, mask(checks), eras, chain_id)
    if found is None:
        return None
    proven, unproven, with_receipts, decoded = found
    for name, rows in decoded.items():
        skipped = not_restored(name, tables, receipts=with_receipts)
        again = pa.table(rows).drop_columns([*skipped])
        if any(differences(name, stored[name], again)):
            return None
    return proof(proven, unproven)


def _batches(rows: pa.Table) -> list[pa.RecordBatch]:
    """Return the rows as one batch, if possible; a table without rows has none."""
    if not rows.num_rows:
        return [pa.RecordBatch.from_pylist([], rows.schema)]
    batches: list[pa.RecordBatch] = rows.combine_chunks().to_batches()
    return batches
