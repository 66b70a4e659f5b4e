"""Finding the rows of addresses in the stored tables, by index.

A family says in which columns an address makes a row part of its history. The keys of such rows are
looked up first, then the rows themselves are read by key: with the transactions that they belong
to, and the blocks. So the time depends on the number of rows found, and not on the size of the
tables.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

import pyarrow as pa

from gapless.chains.movements import WalletRules
from gapless.core.ranges import Span
from gapless.schema import Index, Schema
from gapless.sinks import CompanionTransaction
from gapless.sinks.companion import Key


def indexes(rules: WalletRules, schema: Schema) -> dict[str, list[Index]]:
    """Return the indexes that looking up addresses needs, by table."""
    wanted: defaultdict[str, list[Index]] = defaultdict(list)
    for lookup in rules.lookups:
        table, column = schema[lookup.table], lookup.column
        usual = next((it for it in table.indexes if it.columns == (column, "block_number")), None)
        only = f"{column} IS NOT NULL" if table[column].nullable else None
        index = usual or Index(f"{table.name}_{column}", (column, "block_number"), only)
        wanted[table.name].append(index)
    return dict(wanted)


async def find_rows(
    tx: CompanionTransaction,
    rules: WalletRules,
    chain_id: int,
    addresses: Collection[bytes],
    span: Span,
) -> dict[str, pa.Table]:
    """Return the rows of all tables of the rules that the history of the addresses needs."""
    schema = tx.schema
    anchor, transactions = schema[rules.tables[0]], schema[rules.transactions]
    keys: defaultdict[str, set[Key]] = defaultdict(set)
    for lookup in rules.lookups:
        values = [lookup.padding + address for address in addresses]
        table = schema[lookup.table]
        keys[table.name].update(await tx.find(table, chain_id, span, lookup.column, values))
    for name in [*keys]:
        keys[anchor.name] |= {key[:1] for key in keys[name]}
        if transactions in schema[name].parents:
            size = len(transactions.key) - 1  # without `chain_id`
            keys[transactions.name] |= {key[:size] for key in keys[name]}
    return {
        name: await tx.read_rows(schema[name], chain_id, sorted(keys[name]))
        for name in {*rules.tables, *keys}
    }
